//! A hash join of partitioned inputs: both are distributed by the hash of the key, so that the
//! table of one partition fits the caches (Balkesen, Teubner, Alonso and Özsu, 2013).
//!
//! Each worker has a part of the structure `table` for the partition that it works on; partitions
//! go to whichever worker is free.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use tierloom_kernels::Simd;

use super::{Inputs, TUPLE_BYTES, hash, key_of, matched};
use crate::data::Sums;
use crate::partition::{Ends, MAX_FANOUT, PartitionOf, Scatter, line_store, store_words};
use crate::share::{Found, words_of};
use crate::spec::{ParameterError, Parameters, check_power};
use crate::{Filled, Form, Job, PhaseInfo, Structure, Traffic};

/// Tuples of a partition that the default fanout aims at: their table of 256 KiB fits an L2 cache.
const PARTITION_TUPLES: u64 = 1 << 14;
/// Largest fanout that is chosen by default: more buffers do not fit an L2 cache.
const MAX_DEFAULT_FANOUT: u64 = 1 << 14;

/// A join of 8-byte tuples that partitions both inputs first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RadixJoin {
    /// Tuples of the build input, at most 2^31 - 1; their keys are unique.
    pub build_tuples: u64,
    /// Tuples of the probe input.
    pub probe_tuples: u64,
    /// Number of partitions, a power of two.
    pub fanout: u64,
    /// Share of the probe tuples without a match, 0 to 1.
    pub miss_share: f64,
    /// Skew of the probe keys; `None` for uniform ones.
    pub zipf_alpha: Option<f64>,
    /// How the partitioning is carried out.
    pub form: Form,
    /// Width of the non-temporal stores of the tuned form.
    pub simd: Simd,
}

impl Default for RadixJoin {
    /// The inputs of the join that does not partition.
    fn default() -> Self {
        let build_tuples = 256 << 20;
        Self {
            build_tuples,
            probe_tuples: 1 << 30,
            fanout: Self::fanout_for(build_tuples),
            miss_share: 0.0,
            zipf_alpha: None,
            form: Form::Tuned,
            simd: Simd::detect(),
        }
    }
}

impl fmt::Display for RadixJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} partitions, ", self.inputs(), self.fanout)?;
        store_words(self.form, self.simd, f)
    }
}

impl RadixJoin {
    /// The fanout with which the table of a partition fits an L2 cache, as far as the buffers of
    /// the partitions do as well.
    pub fn fanout_for(build_tuples: u64) -> u64 {
        let wanted = build_tuples.div_ceil(PARTITION_TUPLES).next_power_of_two();
        wanted.clamp(2, MAX_DEFAULT_FANOUT)
    }

    fn inputs(&self) -> Inputs {
        Inputs {
            build_tuples: self.build_tuples,
            probe_tuples: self.probe_tuples,
            miss_share: self.miss_share,
            zipf_alpha: self.zipf_alpha,
        }
    }

    /// Slots of the table of one partition; partitions differ little in size, since keys are unique
    /// and spread evenly.
    fn slots(&self) -> u64 {
        let mean = self.build_tuples.div_ceil(self.fanout);
        (mean + mean / 2 + 64).next_power_of_two()
    }

    fn filled(&self, structures: &mut [&mut [u8]], seed: u64) -> FilledRadixJoin {
        let [build, probe, ..] = structures else {
            unreachable!("five structures, as checked by the caller");
        };
        FilledRadixJoin {
            join: self.clone(),
            expected: self.inputs().fill(build, probe, seed),
        }
    }
}

impl Parameters for RadixJoin {
    fn check(&self) -> Result<(), ParameterError> {
        self.inputs().check()?;
        check_power("fanout", self.fanout, 2..=MAX_FANOUT)
    }

    fn simd(&self) -> Option<Simd> {
        (self.form == Form::Tuned).then_some(self.simd)
    }

    fn structures(&self, workers: u32) -> Vec<Structure> {
        let structure = |name, tuples| Structure {
            name,
            size_bytes: tuples * TUPLE_BYTES,
        };
        vec![
            structure("build", self.build_tuples),
            structure("probe", self.probe_tuples),
            structure("build_partitions", self.build_tuples),
            structure("probe_partitions", self.probe_tuples),
            structure("table", self.slots() * u64::from(workers)),
        ]
    }

    fn tuples(&self, _: u32) -> u64 {
        self.build_tuples + self.probe_tuples
    }

    fn fill(&self, structures: &mut [&mut [u8]], _: u32, seed: u64) -> Box<dyn Filled> {
        Box::new(self.filled(structures, seed))
    }
}

/// A join whose inputs are in place.
#[derive(Debug)]
pub(crate) struct FilledRadixJoin {
    join: RadixJoin,
    expected: Sums,
}

impl FilledRadixJoin {
    fn key_bits(&self) -> HashBits {
        HashBits(64 - self.join.fanout.trailing_zeros())
    }
}

impl Filled for FilledRadixJoin {
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a> {
        let join = &self.join;
        let structures = words_of(structures);
        let tuples = |index: usize, count: u64| &structures[index][..count as usize];
        let scatter = |from: usize, to: usize, count, names| {
            let ends = Ends {
                input: tuples(from, count),
                output: tuples(to, count),
                names,
            };
            let store = line_store(join.form, join.simd);
            Scatter::new(ends, join.fanout as usize, self.key_bits(), store, workers)
        };
        Box::new(Partitioned {
            build: scatter(0, 2, join.build_tuples, ["build", "build_partitions"]),
            probe: scatter(1, 3, join.probe_tuples, ["probe", "probe_partitions"]),
            table: tuples(4, join.slots() * workers as u64),
            slots: join.slots() as usize,
            fanout: join.fanout as usize,
            next: AtomicUsize::new(0),
            starts: RwLock::default(),
            crowded: AtomicU64::new(0),
            found: Found::new(workers),
            expected: self.expected,
        })
    }

    fn check(&self, structures: &[&[u8]], _: usize) -> Result<String, String> {
        let partition = |word: &[u8; 8]| self.key_bits().of(u64::from_le_bytes(*word));
        for (name, index) in [("build", 2), ("probe", 3)] {
            let count = [self.join.build_tuples, self.join.probe_tuples][index - 2] as usize;
            let words = &structures[index].as_chunks::<8>().0[..count];
            if !words.is_sorted_by_key(partition) {
                return Err(format!("a {name} tuple is not in its partition"));
            }
        }
        Ok(format!(
            "{} matches with the right checksum in every pass, all tuples in their partitions",
            self.expected.count
        ))
    }
}

/// The upper bits of the hash of a tuple's key, as a shift.
#[derive(Debug, Clone, Copy)]
struct HashBits(u32);

impl PartitionOf for HashBits {
    #[inline(always)]
    fn of(self, tuple: u64) -> usize {
        (hash(key_of(tuple)) >> self.0) as usize
    }
}

struct Partitioned<'a> {
    build: Scatter<'a, HashBits>,
    probe: Scatter<'a, HashBits>,
    /// A table for each worker.
    table: &'a [AtomicU64],
    slots: usize,
    fanout: usize,
    /// The next partition to join.
    next: AtomicUsize,
    /// Where partitions begin, of both inputs; known once all histograms are.
    starts: RwLock<[Vec<usize>; 2]>,
    /// Size of a partition that did not fit its table; 0 for none.
    crowded: AtomicU64,
    found: Found,
    expected: Sums,
}

impl Partitioned<'_> {
    /// Joins one partition in the worker's `table`.
    fn join(&self, table: &[AtomicU64], build: &[AtomicU64], probe: &[AtomicU64]) -> Sums {
        // The bits below those of the partition, which all its tuples share.
        let (skip, shift) = (
            self.fanout.trailing_zeros(),
            64 - table.len().trailing_zeros(),
        );
        let mask = table.len() - 1;
        let slot = |key| ((hash(key) << skip) >> shift) as usize;
        for slot in table {
            slot.store(0, Ordering::Relaxed);
        }
        for tuple in build {
            let tuple = tuple.load(Ordering::Relaxed);
            let mut at = slot(key_of(tuple));
            while table[at & mask].load(Ordering::Relaxed) != 0 {
                at += 1;
            }
            table[at & mask].store(tuple, Ordering::Relaxed);
        }
        let mut sums = Sums::default();
        for tuple in probe {
            let tuple = tuple.load(Ordering::Relaxed);
            let mut at = slot(key_of(tuple));
            loop {
                let found = table[at & mask].load(Ordering::Relaxed);
                if found == 0 {
                    break;
                }
                if key_of(found) == key_of(tuple) {
                    sums.add(matched(found, tuple));
                    break;
                }
                at += 1;
            }
        }
        sums
    }

    fn join_partitions(&self, worker: usize, stop: &dyn Fn() -> bool) {
        let starts = self.starts.read().unwrap_or_else(PoisonError::into_inner);
        let own = worker * self.slots..(worker + 1) * self.slots;
        let of = |starts: &[usize], partition: usize| -> Range<usize> {
            starts[partition]..starts[partition + 1]
        };
        let mut sums = Sums::default();
        while !stop() {
            let partition = self.next.fetch_add(1, Ordering::Relaxed);
            if partition >= self.fanout {
                break;
            }
            let build = of(&starts[0], partition);
            // A slot must be free, at which a lookup ends.
            if build.len() >= self.slots {
                self.crowded.store(build.len() as u64, Ordering::Relaxed);
                continue;
            }
            sums += self.join(
                &self.table[own.clone()],
                &self.build.ends.output[build],
                &self.probe.ends.output[of(&starts[1], partition)],
            );
        }
        self.found.set(worker, sums);
    }
}

impl Job for Partitioned<'_> {
    fn phases(&self) -> Vec<PhaseInfo> {
        let (build, probe) = (self.build.ends.input.len(), self.probe.ends.input.len());
        let (build, probe) = (build as u64, probe as u64);
        let scatter = [self.build.scatter_traffic(), self.probe.scatter_traffic()];
        let partitions = |structure, tuples: u64| Traffic::scan(structure, tuples * TUPLE_BYTES);
        let cleared = (self.slots * self.fanout) as u64;
        let phase = |name, traffic| PhaseInfo {
            name,
            tuples: build + probe,
            counted: true,
            traffic,
        };
        vec![
            phase(
                "histogram",
                vec![
                    self.build.histogram_traffic(),
                    self.probe.histogram_traffic(),
                ],
            ),
            phase("scatter", scatter.concat()),
            phase(
                "join",
                vec![
                    partitions("build_partitions", build),
                    partitions("probe_partitions", probe),
                    Traffic {
                        structure: "table",
                        read_bytes: (build + probe) * TUPLE_BYTES,
                        written_bytes: (cleared + build) * TUPLE_BYTES,
                        random_accesses: build + probe,
                    },
                ],
            ),
        ]
    }

    fn run(&self, phase: usize, worker: usize, stop: &dyn Fn() -> bool) {
        match phase {
            0 => {
                if worker == 0 {
                    self.next.store(0, Ordering::Relaxed);
                }
                self.build.histogram(worker, stop);
                self.probe.histogram(worker, stop);
            }
            1 => {
                if worker == 0 {
                    *self.starts.write().unwrap_or_else(PoisonError::into_inner) =
                        [self.build.starts(), self.probe.starts()];
                }
                self.build.scatter(worker, stop);
                self.probe.scatter(worker, stop);
            }
            _ => self.join_partitions(worker, stop),
        }
    }

    fn result(&self) -> Result<(), String> {
        self.build.counted()?;
        self.probe.counted()?;
        match self.crowded.load(Ordering::Relaxed) {
            0 => self.found.compare(self.expected, "matches"),
            tuples => Err(format!(
                "a partition has {tuples} tuples, more than its table of {} slots",
                self.slots
            )),
        }
    }
}
