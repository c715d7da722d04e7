//! Clients whose log disk becomes full.

use std::sync::Arc;

use super::kill::{Acknowledged, lines_of};
use super::{memory, seed, topology};
use crate::log::read_log;
use crate::log::tests::on_small_disk;
use crate::tpcc::{Tpcc, TpccSizes};
use crate::{Abort, OltpError, Transactions};

const SIZES: TpccSizes = TpccSizes {
    warehouses: 2,
    customers: 20,
    items: 50,
    room_orders: 4000,
};

/// Runs transactions until the log says that it cannot go on; returns what was acknowledged.
fn until_full(tpcc: &Tpcc, seed: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut session, mut acknowledged) = (tpcc.store().session(), String::new());
    loop {
        let (_, input) = tpcc.draw(&mut rng);
        match tpcc.execute(&mut session, &input) {
            Ok(outcome) => acknowledged += &lines_of(Some(outcome)),
            Err(Abort::Conflict | Abort::RolledBack) => {}
            Err(Abort::Failed(error)) => {
                assert!(matches!(error, OltpError::Log { .. }), "{error}");
                return acknowledged;
            }
        }
    }
}

#[test]
fn after_a_full_disk_all_that_was_acknowledged_is_there_and_consistent() {
    let seed = seed();
    let topology = topology();
    let folder = tempfile::tempdir().expect("a folder");
    for (number, room_bytes) in [0, 1000, 20_000, 300_000].into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.redo"));
        let load = || Tpcc::load(SIZES, seed, &memory(&topology), 1).expect("loaded");
        let mut tpcc = load();
        let log = on_small_disk(&path, &Tpcc::identity(&SIZES, seed), room_bytes);
        tpcc.store_mut().set_log(Arc::new(log));
        let told = std::thread::scope(|scope| {
            let tpcc = &tpcc;
            let client = |at| scope.spawn(move || until_full(tpcc, seed.wrapping_add(at)));
            let clients: Vec<_> = (0..3).map(client).collect();
            let told = clients.into_iter().map(|c| c.join().expect("a client"));
            told.collect::<String>()
        });
        drop(tpcc);
        let recovered = load();
        let contents = read_log(&path).expect("a log");
        recovered.recover(&path, &contents).expect("recovered");
        assert_eq!(recovered.check(false), []);
        let mut acknowledged = Acknowledged::default();
        told.lines().for_each(|line| acknowledged.add(line));
        acknowledged.check(&recovered);
        match room_bytes {
            0 => assert_eq!(contents.transactions(), 0),
            room_bytes => assert!(room_bytes < 20_000 || contents.transactions() > 0),
        }
    }
}
