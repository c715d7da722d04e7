//! The five transactions by many clients at once on small data: what they leave is consistent.

mod common;

use common::{memory, run, seed, topology};
use tierloom_oltp::tpcc::{Tpcc, TpccSizes};

/// Sizes at which transactions often meet.
const SMALL: TpccSizes = TpccSizes {
    warehouses: 2,
    customers: 30,
    items: 100,
    room_orders: 20_000,
};

#[test]
fn loaded_data_is_consistent_and_the_same_for_a_seed() {
    let (seed, topology) = (seed(), topology());
    let load = |seed| Tpcc::load(SMALL, seed, &memory(&topology), 3).expect("loaded");
    let (one, same, other) = (load(seed), load(seed), load(seed ^ 1));
    assert_eq!(one.check(true), []);
    let rows = |tpcc: &Tpcc| {
        let mut session = tpcc.store().session();
        let tables = 0..9;
        let words = tables
            .flat_map(|table| (0..tpcc.store().used_rows(table)).map(move |row| (table, row)));
        let words = words.map(|(table, row)| {
            let mut first = [0; 1];
            session.peek(table, row, 0, &mut first);
            first[0]
        });
        words.collect::<Vec<u64>>()
    };
    assert!(rows(&one) == rows(&same));
    assert!(rows(&one) != rows(&other), "order lines differ in number");
}

#[test]
fn transactions_of_many_clients_keep_the_conditions_before_and_after_merging() {
    let (seed, topology) = (seed(), topology());
    let tpcc = Tpcc::load(SMALL, seed, &memory(&topology), 1).expect("loaded");
    let result = run(&tpcc, 8, seed, 8000);
    assert_eq!(tpcc.check(false), []);
    let kinds = result.kinds.iter();
    let done: Vec<u64> = kinds.map(|kind| kind.commits).collect();
    assert!(done.iter().all(|commits| *commits > 0), "{done:?}");
    assert!(result.kinds[0].rollbacks > 0, "{done:?}");
    let mut traffic = tpcc.store().no_traffic();
    let merged = tpcc.store().merge_all(&mut traffic);
    assert!(merged > 0);
    assert_eq!(tpcc.store().merge_all(&mut traffic), 0, "all was merged");
    assert_eq!(tpcc.check(false), []);
}

#[test]
fn a_run_out_of_room_ends_early_and_loses_nothing() {
    let (seed, topology) = (seed(), topology());
    let sizes = TpccSizes {
        room_orders: 50,
        ..SMALL
    };
    let tpcc = Tpcc::load(sizes, seed, &memory(&topology), 1).expect("loaded");
    let result = run(&tpcc, 3, seed, u64::MAX);
    assert!(result.full.is_some());
    assert_eq!(tpcc.check(false), []);
}
