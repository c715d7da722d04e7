//! Histories of registers, which know nothing of the store's versions, and of TPC-C, by them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;

use super::graph::{Done, circle};
use super::{memory, seed, topology};
use crate::drive::{DriveOptions, Transactions, drive};
use crate::table::RowSpec;
use crate::tpcc::{Tpcc, TpccInput, TpccSizes};
use crate::{Abort, Store, StoreMemory, TxSession};

const REGISTERS: u32 = 8;

/// Registers that hold the number of the transaction that wrote them last.
struct Registers {
    store: Store,
    /// From 1; 0 is what they are loaded with.
    next: AtomicU64,
    history: Mutex<Vec<Done>>,
    stop: AtomicBool,
    breaks_protocol: bool,
}

impl Registers {
    fn new(memory: &StoreMemory<'_>, breaks_protocol: bool) -> Self {
        let spec = RowSpec {
            name: "registers",
            row_words: 2,
            rows: u64::from(REGISTERS),
            // Less than there are rows: merging goes on all the time.
            delta_rows: 5,
        };
        let store = Store::create(&[spec], &[], memory).expect("made");
        (0..REGISTERS).for_each(|row| store.load_row(0, row, &[0, 0]).expect("loaded"));
        Self {
            store,
            next: AtomicU64::new(1),
            history: Mutex::default(),
            stop: AtomicBool::new(false),
            breaks_protocol,
        }
    }
}

impl Transactions for Registers {
    /// Registers to read, and whether to write each.
    type Input = Vec<(u32, bool)>;

    fn kinds(&self) -> &'static [&'static str] {
        &["registers"]
    }

    fn draw(&self, rng: &mut Rng) -> (usize, Self::Input) {
        let mut registers: Vec<u32> = (0..REGISTERS).collect();
        rng.shuffle(&mut registers);
        let count = rng.usize(1..=4);
        let input = registers
            .into_iter()
            .take(count)
            .map(|row| (row, rng.bool()));
        (0, input.collect())
    }

    fn attempt(&self, session: &mut TxSession<'_>, input: &Self::Input) -> Result<(), Abort> {
        session.begin();
        session.skips_validation = self.breaks_protocol;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut done = Done::default();
        for (row, writes) in input {
            let mut words = [0; 2];
            session.read(0, *row, 0, &mut words)?;
            assert_eq!(words[0], words[1], "half of a write was read");
            done.reads.push((u64::from(*row), words[0]));
            if *writes {
                done.writes.push((u64::from(*row), words[0], number));
                session.update(0, *row, 0, &[number]);
                session.update(0, *row, 1, &[number]);
            }
            // Others come in between even on one CPU.
            if number.is_multiple_of(3) {
                std::thread::yield_now();
            }
        }
        session.commit()?;
        remember(&self.history, done, &self.stop);
        Ok(())
    }

    fn store(&self) -> &Store {
        &self.store
    }
}

/// Transactions of a history.
const LENGTH: usize = 2000;

/// Adds to a history, and ends the run when it is long enough.
fn remember(history: &Mutex<Vec<Done>>, done: Done, stop: &AtomicBool) {
    let mut history = history.lock().unwrap();
    history.push(done);
    if history.len() >= LENGTH {
        stop.store(true, Ordering::Relaxed);
    }
}

/// Runs until the history is long enough, however long that takes; but not with a broken protocol,
/// which can leave data that no transaction fits any more.
fn options(seed: u64, stop: &AtomicBool, breaks_protocol: bool) -> DriveOptions<'_> {
    let seconds = if breaks_protocol { 1 } else { 3600 };
    DriveOptions {
        clients: 6,
        duration: Duration::from_secs(seconds),
        seed,
        stop,
    }
}

#[test]
fn histories_of_registers_have_no_circle() {
    let (seed, topology) = (seed(), topology());
    let registers = Registers::new(&memory(&topology), false);
    let result = drive(&registers, &options(seed, &registers.stop, false)).unwrap();
    let history = registers.history.into_inner().unwrap();
    println!(
        "{} transactions, {} conflicts",
        history.len(),
        result.kinds[0].conflicts
    );
    assert!(history.len() >= LENGTH && result.kinds[0].conflicts > 0);
    assert_eq!(circle(&history), Ok(None));
}

#[test]
fn a_session_that_waits_for_slots_takes_all_that_it_needs_or_none() {
    let topology = topology();
    let registers = Registers::new(&memory(&topology), false);
    let table = &registers.store.tables[0];
    let (mut first, mut second) = (Vec::new(), Vec::new());
    table.take_slots(&mut first, 3, 3);
    // With the two that are left, two sessions could each keep the other from going on.
    table.take_slots(&mut second, 4, 4);
    assert_eq!((first.len(), second.len(), table.free_slots()), (3, 0, 2));
    table.give_slots(&mut first);
    table.take_slots(&mut second, 4, 8);
    assert_eq!((second.len(), table.free_slots()), (5, 0));
}

#[test]
fn commits_that_do_not_look_at_what_they_read_give_a_circle() {
    let (seed, topology) = (seed(), topology());
    let found = (0..20).any(|round| {
        let registers = Registers::new(&memory(&topology), true);
        drive(
            &registers,
            &options(seed.wrapping_add(round), &registers.stop, true),
        )
        .unwrap();
        let history = registers.history.into_inner().unwrap();
        circle(&history) != Ok(None)
    });
    assert!(found, "a broken protocol was not noticed");
}

/// TPC-C with a history of rows and the store's versions of them.
struct Recorded {
    tpcc: Tpcc,
    history: Mutex<Vec<Done>>,
    stop: AtomicBool,
    breaks_protocol: bool,
}

impl Recorded {
    fn new(memory: &StoreMemory<'_>, seed: u64, breaks_protocol: bool) -> Self {
        let sizes = TpccSizes {
            warehouses: 1,
            customers: 10,
            items: 30,
            room_orders: 3000,
        };
        Self {
            tpcc: Tpcc::load(sizes, seed, memory, 1).unwrap(),
            history: Mutex::default(),
            stop: AtomicBool::new(false),
            breaks_protocol,
        }
    }
}

impl Transactions for Recorded {
    type Input = TpccInput;

    fn kinds(&self) -> &'static [&'static str] {
        self.tpcc.kinds()
    }

    fn draw(&self, rng: &mut Rng) -> (usize, TpccInput) {
        self.tpcc.draw(rng)
    }

    fn attempt(&self, session: &mut TxSession<'_>, input: &TpccInput) -> Result<(), Abort> {
        session.skips_validation = self.breaks_protocol;
        self.tpcc.attempt(session, input)?;
        let object = |table: u16, row: u32| u64::from(table) << 32 | u64::from(row);
        let reads = session.reads.iter();
        let reads = reads.map(|read| (object(read.table, read.row), read.version.changes()));
        let writes = session.written.iter().map(|(table, row, before, after)| {
            (object(*table, *row), before.changes(), after.changes())
        });
        let done = Done {
            reads: reads.collect(),
            writes: writes.collect(),
        };
        remember(&self.history, done, &self.stop);
        Ok(())
    }

    fn store(&self) -> &Store {
        self.tpcc.store()
    }
}

/// Versions begin at 1 with what was loaded, and at 0 for rows that were not there.
fn loaded_as_zero(mut history: Vec<Done>, loaded: &[u32]) -> Vec<Done> {
    let is_loaded = |object: u64| (object as u32) < loaded[(object >> 32) as usize];
    let shift = |object: u64, version: &mut u64| {
        if is_loaded(object) {
            *version -= 1;
        }
    };
    for done in &mut history {
        for (object, version) in &mut done.reads {
            shift(*object, version);
        }
        for (object, before, after) in &mut done.writes {
            shift(*object, before);
            shift(*object, after);
        }
    }
    history
}

fn recorded(seed: u64, breaks_protocol: bool) -> (Vec<Done>, bool) {
    let topology = topology();
    let recorded = Recorded::new(&memory(&topology), seed, breaks_protocol);
    let tables = 0..recorded.tpcc.store().tables.len();
    let loaded: Vec<u32> = tables
        .map(|at| recorded.tpcc.store().used_rows(at))
        .collect();
    drive(&recorded, &options(seed, &recorded.stop, breaks_protocol)).unwrap();
    let history = recorded.history.into_inner().unwrap();
    let consistent = recorded.tpcc.check(false).is_empty();
    (loaded_as_zero(history, &loaded), consistent)
}

#[test]
fn histories_of_tpcc_have_no_circle() {
    let (history, consistent) = recorded(seed(), false);
    println!("{} transactions", history.len());
    assert!(history.len() >= LENGTH && consistent);
    assert_eq!(circle(&history), Ok(None));
}

#[test]
fn tpcc_without_validation_is_noticed_by_the_graph_and_by_the_conditions() {
    let seed = seed();
    let (mut by_graph, mut by_conditions) = (false, false);
    for round in 0..20 {
        let (history, consistent) = recorded(seed.wrapping_add(round), true);
        by_graph |= circle(&history) != Ok(None);
        by_conditions |= !consistent;
        if by_graph && by_conditions {
            return;
        }
    }
    panic!("noticed by the graph: {by_graph}, by the conditions: {by_conditions}");
}
