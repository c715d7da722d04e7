//! Clients that panic.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use fastrand::Rng;

use super::{memory, topology};
use crate::drive::{DriveOptions, Transactions, drive};
use crate::{Abort, RowSpec, Store, TxSession};

/// One transaction panics when many have committed.
struct Broken {
    store: Store,
    begun: AtomicU32,
}

impl Transactions for Broken {
    type Input = ();

    fn kinds(&self) -> &'static [&'static str] {
        &["break"]
    }

    fn draw(&self, _: &mut Rng) -> (usize, Self::Input) {
        (0, ())
    }

    fn attempt(&self, session: &mut TxSession<'_>, (): &Self::Input) -> Result<(), Abort> {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        assert_ne!(begun, 10_000, "broken on purpose");
        session.begin();
        session.commit()
    }

    fn store(&self) -> &Store {
        &self.store
    }
}

#[test]
#[should_panic(expected = "broken on purpose")]
fn a_client_that_panics_ends_the_run_instead_of_leaving_it_to_merge_for_ever() {
    let topology = topology();
    let rows = RowSpec {
        name: "rows",
        row_words: 1,
        rows: 1,
        delta_rows: 16,
    };
    let store = Store::create(&[rows], &[], &memory(&topology)).unwrap();
    let options = DriveOptions {
        clients: 2,
        duration: Duration::from_secs(3600),
        seed: super::seed(),
        stop: &AtomicBool::new(false),
    };
    let broken = Broken {
        store,
        begun: AtomicU32::new(0),
    };
    let _ = drive(&broken, &options);
}
