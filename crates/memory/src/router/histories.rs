//! State-machine test of a slot and the ledger against a model that knows only the blocks.
//!
//! Runs all short sequences, and many random long ones, of allocating, freeing, growing, shrinking,
//! trimming, locked pages, refused pages and reconfiguration; each step is checked against the
//! model.

use proptest::prelude::*;

use super::events::Why;
use super::extents::Tag;
use super::fake::{BASE, FAKE_KERNEL, Fake, UNIT, nodes, with};
use super::ledger::Ledger;
use super::pool::Lender;
use super::slot::{Config, Machine, Resized, Slot};
use super::stretches::Stretches;

/// Size of the slot: 16 small granules and one large one.
const SLOT_BYTES: usize = 4 << 20;
const LIMIT_BYTES: u64 = 6 * UNIT as u64;
/// Weights of nodes 0 and 1 in each configuration.
const CONFIGS: [[u32; 2]; 3] = [[1, 0], [0, 1], [2, 1]];

#[derive(Debug, Clone, Copy)]
enum HistoryStep {
    /// Allocate this many pages.
    Take(usize),
    /// Free the n-th block; whether its pages may be cached.
    Free(usize, bool),
    /// Resize the n-th block to this many pages.
    Resize(usize, usize),
    Configure(usize),
    Trim,
    /// Lock or unlock pages, from now on.
    Lock(bool),
    /// Let populating fail, or succeed again, from now on.
    Refuse(bool),
}

/// A block as the model knows it.
#[derive(Debug, Clone, Copy)]
struct LiveBlock {
    address: usize,
    bytes: u64,
    config: usize,
}

struct Case {
    slot: Slot,
    ledger: Ledger,
    stretches: Stretches,
    lender: Lender,
    blocks: Vec<LiveBlock>,
    /// Index of the configuration, and how often it changed.
    config: (usize, u32),
    ever_locked: bool,
    ever_refused: bool,
}

/// Tags of a slot, freed after the test of one sequence.
struct Tags(*mut [Tag]);

impl Tags {
    fn new() -> Tags {
        let (small, large) = Slot::tags(SLOT_BYTES);
        Tags(Box::into_raw(
            vec![Tag::default(); small + large].into_boxed_slice(),
        ))
    }

    fn split(&mut self) -> (&'static mut [Tag], &'static mut [Tag]) {
        // SAFETY: the slot that gets the tags is dropped before this value, and nothing else refers
        // to them.
        let all = unsafe { &mut *self.0 };
        all.split_at_mut(Slot::tags(SLOT_BYTES).0)
    }
}

impl Drop for Tags {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw` and is freed only here.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Case {
    fn new(tags: &mut Tags) -> Case {
        Fake::start([5, 4, 0], || {});
        let mut case = Case {
            slot: Slot::new(),
            ledger: Ledger::new(),
            stretches: Stretches::new(),
            lender: Lender::new(),
            blocks: Vec::new(),
            config: (0, 0),
            ever_locked: false,
            ever_refused: false,
        };
        case.slot.found(BASE, SLOT_BYTES, tags.split(), None);
        case.configure(0);
        case
    }

    fn machine(&self) -> Machine<'_> {
        Machine {
            kernel: &FAKE_KERNEL,
            ledger: &self.ledger,
            stretches: &self.stretches,
            lender: &self.lender,
        }
    }

    fn run(&mut self, step: HistoryStep) {
        match step {
            HistoryStep::Take(units) => self.take(units),
            HistoryStep::Free(n, keep) => {
                if let Some(at) = n.checked_rem(self.blocks.len()) {
                    let known = self.blocks.remove(at);
                    let change = self.slot.free(self.machine(), known.address, keep);
                    assert_eq!((change.owner, change.bytes), (7, known.bytes));
                }
            }
            HistoryStep::Resize(n, units) => {
                if let Some(at) = n.checked_rem(self.blocks.len()) {
                    self.resize(at, units);
                }
            }
            HistoryStep::Configure(config) => self.configure(config),
            HistoryStep::Trim => self.slot.trim(self.machine()),
            HistoryStep::Lock(locked) => {
                self.ever_locked |= locked;
                with(|fake| fake.locked = locked);
            }
            HistoryStep::Refuse(refuses) => {
                self.ever_refused |= refuses;
                with(|fake| fake.refuses = refuses);
            }
        }
        self.check();
    }

    fn take(&mut self, units: usize) {
        let bytes = (units * UNIT) as u64;
        match self.slot.allocate(self.machine(), units * UNIT, 7) {
            Ok(block) => {
                assert_eq!(block.bytes, bytes);
                let known = LiveBlock {
                    address: block.address,
                    bytes,
                    config: self.config.0,
                };
                let apart = |other: &LiveBlock| {
                    known.address + bytes as usize <= other.address
                        || other.address + other.bytes as usize <= known.address
                };
                assert!(self.blocks.iter().all(apart), "two blocks overlap");
                if block.zeroed {
                    let dirty = units_of(known).any(|unit| with(|fake| fake.pages[&unit].1));
                    assert!(!dirty, "zeroed memory is not zero");
                }
                self.blocks.push(known);
                write(known);
            }
            Err(Why::Limit) => {
                let in_use: u64 = self.of_this_config().map(|block| block.bytes).sum();
                assert!(in_use + bytes > LIMIT_BYTES || self.ever_locked);
            }
            Err(Why::NodeFull) => {
                let free = with(|fake| [fake.free_bytes(0), fake.free_bytes(1)]);
                assert!(free.iter().any(|free| *free < bytes), "{free:?}");
            }
            Err(Why::Refused(libc::ENOMEM)) => assert!(with(|fake| fake.refuses)),
            Err(Why::Addresses) => assert!(units >= 2 || self.ever_locked && self.ever_refused),
            Err(why) => panic!("{why:?}"),
        }
    }

    fn resize(&mut self, at: usize, units: usize) {
        let known = self.blocks[at];
        let size = units * UNIT;
        match self.slot.resize(self.machine(), known.address, size) {
            Resized::Same => assert_eq!(size as u64, known.bytes),
            Resized::Grown(change) => {
                assert_eq!(change.bytes, size as u64 - known.bytes);
                assert_eq!(known.config, self.config.0, "an earlier block grew");
            }
            Resized::Shrunk(change) => assert_eq!(change.bytes, known.bytes - size as u64),
            Resized::No => return assert!(size as u64 > known.bytes),
        }
        self.blocks[at].bytes = size as u64;
        write(self.blocks[at]);
    }

    fn configure(&mut self, config: usize) {
        let config_of = |weights| Config {
            nodes: nodes(weights),
            limit_bytes: LIMIT_BYTES,
            cache_limit_bytes: 2 * UNIT as u64,
        };
        let mut moved = 0;
        self.slot.configure(
            self.machine(),
            config_of(&CONFIGS[config]),
            |owner, bytes| {
                assert_eq!(owner, 7);
                moved += bytes;
            },
        );
        let (before, round) = self.config;
        if before == config {
            assert_eq!(moved, 0);
            return;
        }
        let expected: u64 = self.of_this_config().map(|block| block.bytes).sum();
        assert_eq!(moved, expected);
        // Blocks of an earlier configuration stay so, even when the same nodes come back.
        for block in &mut self.blocks {
            block.config += CONFIGS.len();
        }
        self.config = (config, round + 1);
    }

    fn of_this_config(&self) -> impl Iterator<Item = &LiveBlock> {
        self.blocks
            .iter()
            .filter(|block| block.config == self.config.0)
    }

    /// Invariants that hold after each step.
    fn check(&self) {
        let all: u64 = self.blocks.iter().map(|block| block.bytes).sum();
        let now: u64 = self.of_this_config().map(|block| block.bytes).sum();
        assert_eq!(self.slot.level.current(), now);
        assert_eq!(self.slot.earlier.current(), all - now);
        let held = self.slot.held.current();
        let resident = with(|fake| fake.pages.len() * UNIT) as u64;
        let counted = held + self.slot.earlier_held.current();
        // If populating failed and the pages could not be released, it is not known how many came.
        let unknown = self.ever_locked && self.ever_refused;
        assert!(counted == resident || unknown && counted > resident);
        assert!(held <= LIMIT_BYTES);
        assert!((0..3).all(|node| self.ledger.coming(node) == 0));
        assert!(self.stretches.is_still());
        for block in &self.blocks {
            let weights = CONFIGS[block.config % CONFIGS.len()];
            for unit in units_of(*block) {
                let (node, _) = with(|fake| fake.pages[&unit]);
                assert!(weights[usize::from(node)] > 0, "a page of another place");
            }
        }
    }

    /// Frees everything: no page and no count may remain.
    fn end(mut self) {
        self.run(HistoryStep::Lock(false));
        while !self.blocks.is_empty() {
            self.run(HistoryStep::Free(0, true));
        }
        self.run(HistoryStep::Trim);
        assert_eq!(with(|fake| fake.pages.len()), 0);
        let levels = [&self.slot.held, &self.slot.earlier_held];
        assert!(levels.iter().all(|level| level.current() == 0));
    }
}

fn units_of(block: LiveBlock) -> impl Iterator<Item = usize> {
    (block.address..block.address + block.bytes as usize).step_by(UNIT)
}

/// Simulates the user writing all of a block.
fn write(block: LiveBlock) {
    for unit in units_of(block) {
        with(|fake| fake.pages.get_mut(&unit).expect("a page is absent").1 = true);
    }
}

fn run_all(steps: impl IntoIterator<Item = HistoryStep>) {
    let mut tags = Tags::new();
    let mut case = Case::new(&mut tags);
    steps.into_iter().for_each(|step| case.run(step));
    case.end();
}

#[test]
fn no_short_history_overdraws_a_node_miscounts_or_hands_out_pages_of_another_place() {
    const STEPS: [HistoryStep; 9] = [
        HistoryStep::Take(1),
        HistoryStep::Take(3),
        HistoryStep::Free(0, true),
        HistoryStep::Free(usize::MAX, false),
        HistoryStep::Resize(0, 4),
        HistoryStep::Resize(0, 1),
        HistoryStep::Configure(1),
        HistoryStep::Configure(0),
        HistoryStep::Lock(true),
    ];
    const LENGTH: u32 = 6;
    for history in 0..STEPS.len().pow(LENGTH) {
        let nth = |at: u32| STEPS[history / STEPS.len().pow(at) % STEPS.len()];
        // A sequence that starts with a step that does nothing equals a shorter one.
        if matches!(nth(0), HistoryStep::Take(_)) {
            run_all((0..LENGTH).map(nth));
        }
    }
}

fn step() -> impl Strategy<Value = HistoryStep> {
    prop_oneof![
        6 => (1_usize..7).prop_map(HistoryStep::Take),
        // A large block.
        1 => Just(HistoryStep::Take(64)),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(n, keep)| HistoryStep::Free(n, keep)),
        4 => (any::<usize>(), 1_usize..7).prop_map(|(n, units)| HistoryStep::Resize(n, units)),
        2 => (0..CONFIGS.len()).prop_map(HistoryStep::Configure),
        1 => Just(HistoryStep::Trim),
        1 => any::<bool>().prop_map(HistoryStep::Lock),
        1 => any::<bool>().prop_map(HistoryStep::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_long_history_does_either(steps in prop::collection::vec(step(), 1..60)) {
        run_all(steps);
    }
}
