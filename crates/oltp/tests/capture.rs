//! Captured work in the model: a part that is placed elsewhere takes its lines along, and no other.

mod common;

use common::{memory, run, seed, topology};
use tierloom_model::{Options, TierShares, profiles, solve_all};
use tierloom_oltp::tpcc::{Tpcc, TpccSizes};
use tierloom_oltp::{Captured, StorePart, Transactions};

fn captured() -> Captured {
    let (seed, topology) = (seed(), topology());
    let sizes = TpccSizes {
        warehouses: 1,
        customers: 300,
        items: 1000,
        room_orders: 3000,
    };
    let tpcc = Tpcc::load(sizes, seed, &memory(&topology), 1).expect("loaded");
    let result = run(&tpcc, 2, seed, 2000);
    Captured::of(Transactions::store(&tpcc), &result)
}

#[test]
fn only_the_part_that_is_placed_elsewhere_moves_its_traffic() {
    let mut captured = captured();
    // As if it were data of a large machine: nothing stays in caches.
    for lines in &mut captured.lines {
        lines.footprint_bytes = 1 << 40;
    }
    let machine = profiles::load("sap26-pool").expect("built in");
    let lines_of = |part| -> u64 {
        let lines = captured.lines.iter().filter(|lines| lines.part == part);
        lines.map(|lines| lines.lines()).sum()
    };
    let solved = |on_cxl: &[StorePart]| {
        let tier = |part| match on_cxl.contains(&part) {
            true => TierShares::all("cxl"),
            false => TierShares::all("dram"),
        };
        let placement = captured.placement(&StorePart::ALL.map(tier));
        let phase = [captured.phase(10_000.0)];
        solve_all(&machine, &phase, &placement, 48, &Options::default()).expect("solved")
    };
    let bytes_on_cxl = |on_cxl: &[StorePart]| {
        let solution = solved(on_cxl);
        let tier = solution.tiers.into_iter().find(|tier| tier.name == "cxl");
        tier.map_or(0.0, |tier| tier.bytes)
    };
    assert_eq!(bytes_on_cxl(&[]), 0.0);
    let all = bytes_on_cxl(&StorePart::ALL);
    let mut sum = 0.0;
    for part in StorePart::ALL {
        let bytes = bytes_on_cxl(&[part]);
        let least = lines_of(part) as f64 * 64.0;
        assert!(
            bytes >= 0.99 * least && bytes < 2.1 * least,
            "{part:?}: {bytes}, {least}"
        );
        sum += bytes;
    }
    assert!((sum / all - 1.0).abs() < 1e-6, "{sum} {all}");
    let (dram, cxl) = (solved(&[]), solved(&StorePart::ALL));
    assert!(
        cxl.time_ns > 1.2 * dram.time_ns,
        "placement shows where work is memory"
    );
}
