//! The six mixes by many clients at once: no read sees half of a write, and no row is lost.

mod common;

use common::{memory, run, seed, topology};
use tierloom_oltp::ycsb::{Ycsb, YcsbMix};
use tierloom_oltp::{Captured, StorePart, Transactions};

#[test]
fn every_mix_leaves_whole_rows_that_are_all_found() {
    let (seed, topology) = (seed(), topology());
    for mix in YcsbMix::ALL {
        let rows = Ycsb::LEAST_ROWS;
        let ycsb = Ycsb::load(mix, rows, 2000, seed, &memory(&topology)).expect("loaded");
        let result = run(&ycsb, 4, seed, 3000);
        assert_eq!(ycsb.check(), [""; 0], "{mix:?}");
        let inserts = result.kinds[2].commits;
        let added = ycsb.store().used_rows(0) - rows as u32;
        assert_eq!(u64::from(added), inserts, "{mix:?}");
        let captured = Captured::of(ycsb.store(), &result);
        assert!(captured.accessed_bytes(StorePart::Main) > 0);
        let is_written = captured.lines.iter().any(|lines| lines.is_written);
        assert_eq!(is_written, mix != YcsbMix::C, "{mix:?}");
    }
}
