//! Ranges that grow and shrink while others count them.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fastrand::Rng;

use super::{memory, seed, topology};
use crate::drive::{DriveOptions, Transactions, drive};
use crate::{Abort, IndexSpec, RowSpec, Store, StoreMemory, TxSession};

const GUARDS: usize = 0;
const ENTRIES: usize = 1;
const RANGES: u32 = 2;

/// Each transaction counts the entries of a range and adds one with that number as its value. One
/// after the other, they have the values 0, 1, 2, ...
struct Counted {
    store: Store,
    is_guarded: bool,
}

impl Counted {
    fn new(memory: &StoreMemory<'_>, is_guarded: bool) -> Self {
        let rows = |name, rows, delta_rows| RowSpec {
            name,
            row_words: 1,
            rows,
            delta_rows,
        };
        let tables = [
            rows("guards", u64::from(RANGES), 16),
            rows("entries", 500, 64),
        ];
        let index = IndexSpec {
            name: "entries",
            loaded_keys: 0,
            inserted_keys: 500,
        };
        let store = Store::create(&tables, &[index], memory).unwrap();
        (0..RANGES).for_each(|row| store.load_row(GUARDS, row, &[0]).unwrap());
        Self { store, is_guarded }
    }

    fn values(&self, range: u32) -> Vec<u64> {
        let mut session = self.store.session();
        let mut rows = Vec::new();
        session.scan(0, key(range, 0), |found, row| {
            let within = found < key(range + 1, 0);
            if within {
                rows.push(row);
            }
            within
        });
        let values = rows.into_iter().map(|row| {
            let mut value = [0];
            assert!(session.peek(ENTRIES, row, 0, &mut value));
            value[0]
        });
        let mut values: Vec<u64> = values.collect();
        values.sort_unstable();
        values
    }
}

fn key(range: u32, number: u64) -> u64 {
    u64::from(range) << 32 | number
}

impl Transactions for Counted {
    /// The range, and a number that no other transaction has.
    type Input = (u32, u64);

    fn kinds(&self) -> &'static [&'static str] {
        &["count"]
    }

    fn draw(&self, rng: &mut Rng) -> (usize, Self::Input) {
        (0, (rng.u32(0..RANGES), u64::from(rng.u32(..))))
    }

    fn attempt(&self, session: &mut TxSession<'_>, input: &Self::Input) -> Result<(), Abort> {
        let (range, number) = *input;
        session.begin();
        if self.is_guarded {
            session.word(GUARDS, range, 0)?;
            session.guard(GUARDS, range);
        }
        if session.look_up(0, key(range, number)).is_some() {
            return Err(Abort::RolledBack);
        }
        let mut count = 0;
        session.scan(0, key(range, 0), |found, _| {
            let within = found < key(range + 1, 0);
            count += u64::from(within);
            within
        });
        std::thread::yield_now();
        session.insert(ENTRIES, &[count], &[(0, key(range, number))]);
        session.commit()
    }

    fn store(&self) -> &Store {
        &self.store
    }
}

fn run(is_guarded: bool, seed: u64) -> Vec<Vec<u64>> {
    let topology = topology();
    let counted = Counted::new(&memory(&topology), is_guarded);
    let options = DriveOptions {
        clients: 4,
        // Until there is no room for more.
        duration: Duration::from_secs(3600),
        seed,
        stop: &AtomicBool::new(false),
    };
    let result = drive(&counted, &options).unwrap();
    assert_eq!(result.commits(), 500);
    (0..RANGES).map(|range| counted.values(range)).collect()
}

fn is_serial(values: &[u64]) -> bool {
    values
        .iter()
        .zip(0_u64..)
        .all(|(value, place)| *value == place)
}

#[test]
fn a_guarded_range_has_no_phantoms() {
    let values = run(true, seed());
    assert!(values.iter().all(|range| is_serial(range)), "{values:?}");
}

#[test]
fn a_range_without_its_guard_has_phantoms_that_are_noticed() {
    let seed = seed();
    let found = (0..20).any(|round| {
        !run(false, seed.wrapping_add(round))
            .iter()
            .all(|range| is_serial(range))
    });
    assert!(found, "phantoms were not noticed");
}
