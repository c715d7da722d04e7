//! Operations per second of the tree and of published ones on the same keys, in turn:
//! `cargo bench -p tierloom-tree` (`-- --test` only tries it out; `-- keys=2000000` for other
//! sizes, also `operations=`, `rounds=`, `node=` in bytes, `dense=1` for neighbouring keys).
//!
//! All of them begin with the same keys, inserted in the same random order, and get the same
//! operations. In each round every one has its turn; the figure is the median of the rounds: by the
//! clock, and by the time that the slowest thread had a CPU, which other programs disturb less.
//! Where an interface has guards, one is held for 64 operations, ours included.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use congee::U64Congee;
use crossbeam_skiplist::SkipMap;
use scc::TreeIndex;
use tierloom_tree::{Arena, BPlusTree, Counts};

/// Operations under one guard.
const GUARDED: usize = 64;
/// Pairs of a range scan.
const SCANNED: usize = 100;

#[derive(Debug, Clone, Copy)]
enum Operation {
    Get(u64),
    Insert(u64),
    Scan(u64),
}

/// One of the maps that are compared.
trait Map: Sync {
    fn name(&self) -> &'static str;
    /// Carries out operations of one thread; returns a sum of what was found.
    fn run(&self, operations: &[Operation]) -> u64;
}

struct Ours {
    tree: BPlusTree,
    counts: std::sync::Mutex<Counts>,
}

impl Ours {
    fn new(keys: usize, node_bytes: usize) -> Self {
        // Nodes are half full at least; the one above has at least ten children.
        let leaves = keys.div_ceil((node_bytes - 16) / 16 / 2) + 100;
        let inner = Arena::in_memory(leaves / 5 + 100, node_bytes).unwrap();
        let leaves = Arena::in_memory(leaves, node_bytes).unwrap();
        Self {
            tree: BPlusTree::new(inner, leaves).unwrap(),
            counts: std::sync::Mutex::default(),
        }
    }
}

impl Map for Ours {
    fn name(&self) -> &'static str {
        "tierloom-tree"
    }

    fn run(&self, operations: &[Operation]) -> u64 {
        let (mut session, mut sum) = (self.tree.session(), 0_u64);
        for some in operations.chunks(GUARDED) {
            let mut pinned = session.pin();
            for operation in some {
                match *operation {
                    Operation::Get(key) => sum = sum.wrapping_add(pinned.get(key).unwrap_or(1)),
                    Operation::Insert(key) => {
                        pinned.insert(key, key >> 8).unwrap();
                    }
                    Operation::Scan(key) => {
                        let mut left = SCANNED;
                        pinned.scan(key, |_, value| {
                            sum = sum.wrapping_add(value);
                            left -= 1;
                            left > 0
                        });
                    }
                }
            }
        }
        *self.counts.lock().unwrap() += session.counts();
        sum
    }
}

struct Congee(U64Congee<usize>);

impl Map for Congee {
    fn name(&self) -> &'static str {
        "congee"
    }

    fn run(&self, operations: &[Operation]) -> u64 {
        let mut sum = 0_u64;
        let mut found = vec![([0; 8], 0); SCANNED];
        for some in operations.chunks(GUARDED) {
            let guard = crossbeam_epoch::pin();
            for operation in some {
                match *operation {
                    Operation::Get(key) => {
                        let value = self.0.get(key, &guard).unwrap_or(1) as u64;
                        sum = sum.wrapping_add(value);
                    }
                    Operation::Insert(key) => {
                        self.0.insert(key, (key >> 8) as usize, &guard).unwrap();
                    }
                    Operation::Scan(key) => {
                        let count = self.0.range(key, u64::MAX, &mut found, &guard);
                        let values = found[..count].iter().map(|(_, value)| *value as u64);
                        sum = values.fold(sum, u64::wrapping_add);
                    }
                }
            }
        }
        sum
    }
}

struct Skip(SkipMap<u64, u64>);

impl Map for Skip {
    fn name(&self) -> &'static str {
        "crossbeam-skiplist"
    }

    fn run(&self, operations: &[Operation]) -> u64 {
        let mut sum = 0_u64;
        for operation in operations {
            match *operation {
                Operation::Get(key) => {
                    let value = self.0.get(&key).map_or(1, |entry| *entry.value());
                    sum = sum.wrapping_add(value);
                }
                Operation::Insert(key) => {
                    self.0.insert(key, key >> 8);
                }
                Operation::Scan(key) => {
                    let entries = self.0.range(key..).take(SCANNED);
                    sum = entries.fold(sum, |sum, entry| sum.wrapping_add(*entry.value()));
                }
            }
        }
        sum
    }
}

struct Index(TreeIndex<u64, u64>);

impl Map for Index {
    fn name(&self) -> &'static str {
        "scc::TreeIndex"
    }

    fn run(&self, operations: &[Operation]) -> u64 {
        let mut sum = 0_u64;
        for some in operations.chunks(GUARDED) {
            let guard = scc::Guard::new();
            for operation in some {
                match *operation {
                    Operation::Get(key) => {
                        let value = self.0.peek(&key, &guard).copied().unwrap_or(1);
                        sum = sum.wrapping_add(value);
                    }
                    Operation::Insert(key) => {
                        let _ = self.0.insert_sync(key, key >> 8);
                    }
                    Operation::Scan(key) => {
                        let entries = self.0.range(key.., &guard).take(SCANNED);
                        sum = entries.fold(sum, |sum, (_, value)| sum.wrapping_add(*value));
                    }
                }
            }
        }
        sum
    }
}

/// What is run, and its share of insertions and scans, per cent.
const WORKLOADS: [(&str, u64, u64); 3] = [
    ("95 % lookups, 5 % inserts", 5, 0),
    ("5 % lookups, 95 % inserts", 95, 0),
    ("95 % scans of 100, 5 % inserts", 5, 95),
];

struct Sizes {
    keys: usize,
    operations: usize,
    rounds: usize,
    node_bytes: usize,
    dense: bool,
}

impl Sizes {
    fn of_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let given = |name: &str, default: usize| {
            let mut values = arguments.iter().filter_map(|a| a.strip_prefix(name));
            values
                .next()
                .and_then(|v| v.parse().ok())
                .unwrap_or(default)
        };
        let tried_out = arguments.iter().any(|argument| argument == "--test");
        let (keys, operations, rounds) = match tried_out {
            true => (10_000, 5_000, 1),
            false => (4_000_000, 1_000_000, 5),
        };
        Self {
            keys: given("keys=", keys),
            operations: given("operations=", operations),
            rounds: given("rounds=", rounds),
            node_bytes: given("node=", 1024),
            dense: given("dense=", 0) > 0,
        }
    }

    /// The key at a position; positions are in no order of the keys unless they are dense.
    fn key(&self, at: usize) -> u64 {
        let mut key = at as u64;
        if self.dense {
            return key;
        }
        key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        key ^ (key >> 31)
    }

    /// The operations of each thread in a round; new keys come from `fresh` on.
    fn operations(
        &self,
        threads: usize,
        shares: (u64, u64),
        fresh: &mut usize,
    ) -> Vec<Vec<Operation>> {
        let mut random = fastrand::Rng::with_seed(*fresh as u64);
        let each = |_| {
            let scale = if shares.1 > 0 { 20 } else { 1 };
            let operation = |_| {
                let drawn = random.u64(0..100);
                let known = self.key(random.usize(0..self.keys));
                if drawn < shares.0 {
                    *fresh += 1;
                    Operation::Insert(self.key(*fresh))
                } else if drawn < shares.0 + shares.1 {
                    Operation::Scan(known)
                } else {
                    Operation::Get(known)
                }
            };
            (0..self.operations / threads / scale)
                .map(operation)
                .collect()
        };
        (0..threads).map(each).collect()
    }
}

/// Time that this thread has had a CPU, s.
fn cpu_seconds() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = times
        .split(' ')
        .next()
        .and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or(f64::NAN) / 1e9
}

/// Operations per second of all threads, in millions, by the clock and by CPU time.
type Rates = (f64, f64);

/// The rates, and the sum of what was found.
fn rate(map: &dyn Map, operations: &[Vec<Operation>]) -> (Rates, u64) {
    let barrier = Barrier::new(operations.len());
    let all: usize = operations.iter().map(Vec::len).sum();
    std::thread::scope(|scope| {
        let threads: Vec<_> = operations
            .iter()
            .map(|own| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let (begun, cpu) = (Instant::now(), cpu_seconds());
                    let sum = black_box(map.run(own));
                    (sum, begun, Instant::now(), cpu_seconds() - cpu)
                })
            })
            .collect();
        let done: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let begun = done.iter().map(|(_, begun, ..)| *begun).min().unwrap();
        let ended = done.iter().map(|(_, _, ended, _)| *ended).max().unwrap();
        let sum = done.iter().map(|(sum, ..)| *sum).fold(0, u64::wrapping_add);
        let seconds = ended.duration_since(begun).as_secs_f64();
        let cpu = done.iter().map(|(.., cpu)| *cpu).fold(0.0, f64::max);
        let all = all as f64 / 1e6;
        ((all / seconds, all / cpu), sum)
    })
}

fn main() {
    let sizes = Sizes::of_arguments();
    let most = sizes.keys + 6 * (sizes.rounds + 1) * sizes.operations;
    let ours = Ours::new(most, sizes.node_bytes);
    let maps: [&dyn Map; 4] = [
        &ours,
        &Congee(U64Congee::default()),
        &Skip(SkipMap::new()),
        &Index(TreeIndex::new()),
    ];
    let mut order: Vec<usize> = (0..sizes.keys).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let first: Vec<Operation> = order
        .iter()
        .map(|at| Operation::Insert(sizes.key(*at)))
        .collect();
    for map in maps {
        let begun = Instant::now();
        map.run(&first);
        let rate = sizes.keys as f64 / begun.elapsed().as_secs_f64() / 1e6;
        println!(
            "{:20} {rate:6.2} M inserts/s from empty, 1 thread",
            map.name()
        );
    }
    let mut fresh = sizes.keys;
    for (name, inserts, scans) in WORKLOADS {
        for threads in [1, 2] {
            let mut rates: [Vec<Rates>; 4] = Default::default();
            for round in 0..=sizes.rounds {
                let operations = sizes.operations(threads, (inserts, scans), &mut fresh);
                let found = maps.map(|map| rate(map, &operations));
                // Insertions of other threads decide what a scan finds.
                let same = found.iter().all(|(_, sum)| *sum == found[0].1);
                assert!(same || (threads > 1 && scans > 0), "{found:?}");
                // The first round warms up.
                if round > 0 {
                    (0..4).for_each(|at| rates[at].push(found[at].0));
                }
            }
            println!("{name}, threads: {threads}");
            for (map, rates) in maps.iter().zip(&rates) {
                let sorted = |of: fn(&Rates) -> f64| {
                    let mut sorted: Vec<f64> = rates.iter().map(of).collect();
                    sorted.sort_by(f64::total_cmp);
                    sorted
                };
                let (clock, cpu) = (sorted(|rates| rates.0), sorted(|rates| rates.1));
                let (low, high) = (cpu[0], cpu[cpu.len() - 1]);
                let (clock, median) = (clock[clock.len() / 2], cpu[cpu.len() / 2]);
                let name = map.name();
                println!(
                    "  {name:20} {clock:7.3} M/s, by CPU time {median:7.3} ({low:.3} to {high:.3})"
                );
            }
        }
    }
    println!("tierloom-tree: {:?}", ours.counts.lock().unwrap());
}
