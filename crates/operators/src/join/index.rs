//! A join through an array of unique positions (Lebedev et al., "Demystifying CXL Memory Bandwidth
//! Expansion for Analytical Workloads", 2025).
//!
//! ```text
//!   index:  unique random positions of buckets, 8 bytes each
//!   table:  buckets of key and value, 8 bytes each; identity hash, so nothing collides
//! ```
//! The build writes the bucket of each position in the order of the array; the probe goes through
//! the array several times and adds up the values.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tierloom_kernels::{prefetch_read, prefetch_write};

use super::part_of;
use crate::data::{Permutation, Sums, each, mix};
use crate::share::{Found, chunks, part, words_of};
use crate::spec::{
    PREFETCH_TUPLES, ParameterError, Parameters, ahead, check_ahead, check_power, check_tuples,
    form_words,
};
use crate::{Filled, Form, Job, PhaseInfo, Structure, Traffic};

/// Bytes of a position.
const INDEX_BYTES: u64 = 8;
/// Bytes of a bucket.
const BUCKET_BYTES: u64 = 16;

/// A join through an index, without collisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexJoin {
    /// Positions in the index, at most the number of buckets.
    pub build_tuples: u64,
    /// Buckets of the table, a power of two.
    pub table_buckets: u64,
    /// How often the probe goes through the index.
    pub probe_passes: u32,
    /// How it is carried out.
    pub form: Form,
    /// Tuples that prefetches are ahead in the tuned form; 0 for none.
    pub prefetch_tuples: u32,
}

impl Default for IndexJoin {
    /// The sizes of the publication: 2 GiB of positions, 16 GiB of buckets, 8 passes.
    fn default() -> Self {
        Self {
            build_tuples: 1 << 28,
            table_buckets: 1 << 30,
            probe_passes: 8,
            form: Form::Tuned,
            prefetch_tuples: PREFETCH_TUPLES,
        }
    }
}

impl fmt::Display for IndexJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = form_words(self.form, self.prefetch_tuples);
        let (tuples, buckets) = (self.build_tuples, self.table_buckets);
        write!(
            f,
            "{tuples} of {buckets} buckets, {} probes each, {form}",
            self.probe_passes
        )
    }
}

impl IndexJoin {
    fn filled(&self, structures: &mut [&mut [u8]], seed: u64) -> FilledIndexJoin {
        let order = Permutation::new(self.table_buckets, seed);
        let values = each::<8>(part_of(structures[0], self.build_tuples), |at, words| {
            let mut sums = Sums::default();
            for (at, word) in at.zip(words) {
                let position = order.at(at as u64);
                *word = position.to_le_bytes();
                sums.add(mix(position));
            }
            sums
        });
        FilledIndexJoin {
            join: self.clone(),
            values,
        }
    }
}

impl Parameters for IndexJoin {
    fn check(&self) -> Result<(), ParameterError> {
        check_power("table_buckets", self.table_buckets, 8..=1 << 40)?;
        check_tuples("build_tuples", self.build_tuples, self.table_buckets)?;
        if !(1..=1024).contains(&self.probe_passes) {
            let problem = format!("{}; expected 1 to 1024", self.probe_passes);
            return Err(ParameterError::new("probe_passes", problem));
        }
        check_ahead(self.prefetch_tuples)
    }

    fn structures(&self, _: u32) -> Vec<Structure> {
        vec![
            Structure {
                name: "index",
                size_bytes: self.build_tuples * INDEX_BYTES,
            },
            Structure {
                name: "table",
                size_bytes: self.table_buckets * BUCKET_BYTES,
            },
        ]
    }

    fn tuples(&self, _: u32) -> u64 {
        self.build_tuples * (1 + u64::from(self.probe_passes))
    }

    fn fill(&self, structures: &mut [&mut [u8]], _: u32, seed: u64) -> Box<dyn Filled> {
        Box::new(self.filled(structures, seed))
    }
}

/// A join whose index is in place.
#[derive(Debug)]
pub(crate) struct FilledIndexJoin {
    join: IndexJoin,
    /// Sum of what the values are based on.
    values: Sums,
}

impl Filled for FilledIndexJoin {
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a> {
        let structures = words_of(structures);
        let words = |index: usize, bytes: u64| &structures[index][..(bytes / 8) as usize];
        Box::new(Indexed {
            index: words(0, self.join.build_tuples * INDEX_BYTES),
            table: words(1, self.join.table_buckets * BUCKET_BYTES),
            probe_passes: self.join.probe_passes,
            ahead: ahead(self.join.form, self.join.prefetch_tuples),
            pass: AtomicU64::new(0),
            found: Found::new(workers),
            values: self.values,
            workers,
        })
    }

    fn check(&self, structures: &[&[u8]], _: usize) -> Result<String, String> {
        let words = |bytes: &'_ [u8], at: usize| -> u64 {
            bytes
                .as_chunks::<8>()
                .0
                .get(at)
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        let wrong = (0..self.join.build_tuples as usize).find(|at| {
            let position = words(structures[0], *at) as usize;
            words(structures[1], 2 * position) != position as u64
        });
        match wrong {
            Some(at) => Err(format!("the bucket of tuple {at} has another key")),
            None => Ok(format!(
                "{} values with the right sum in every pass, all keys in their buckets",
                self.values.count * u64::from(self.join.probe_passes)
            )),
        }
    }
}

struct Indexed<'a> {
    index: &'a [AtomicU64],
    /// Keys and values in turn.
    table: &'a [AtomicU64],
    probe_passes: u32,
    ahead: Option<usize>,
    /// Number of the pass, which is part of the values: a bucket that a pass before has left gives
    /// a wrong sum.
    pass: AtomicU64,
    found: Found,
    values: Sums,
    workers: usize,
}

impl Indexed<'_> {
    /// The first word of the bucket of tuple `at`; positions come from [`IndexJoin::fill`].
    #[inline(always)]
    fn bucket(&self, at: usize) -> usize {
        2 * self.index[at].load(Ordering::Relaxed) as usize
    }

    fn build(&self, range: Range<usize>, pass: u64) {
        for at in range {
            if let Some(ahead) = self.ahead
                && at + ahead < self.index.len()
            {
                prefetch_write(self.table, self.bucket(at + ahead));
            }
            let bucket = self.bucket(at);
            let key = bucket as u64 / 2;
            self.table[bucket].store(key, Ordering::Relaxed);
            self.table[bucket + 1].store(mix(key).wrapping_add(pass), Ordering::Relaxed);
        }
    }

    fn probe(&self, range: Range<usize>) -> Sums {
        let mut sums = Sums::default();
        for at in range {
            if let Some(ahead) = self.ahead
                && at + ahead < self.index.len()
            {
                prefetch_read(self.table, self.bucket(at + ahead));
            }
            sums.add(self.table[self.bucket(at) + 1].load(Ordering::Relaxed));
        }
        sums
    }
}

impl Job for Indexed<'_> {
    fn phases(&self) -> Vec<PhaseInfo> {
        let build = self.index.len() as u64;
        let probe = build * u64::from(self.probe_passes);
        vec![
            PhaseInfo {
                name: "build",
                tuples: build,
                counted: true,
                traffic: vec![
                    Traffic::scan("index", build * INDEX_BYTES),
                    Traffic {
                        structure: "table",
                        read_bytes: 0,
                        written_bytes: build * BUCKET_BYTES,
                        random_accesses: build,
                    },
                ],
            },
            PhaseInfo {
                name: "probe",
                tuples: probe,
                counted: true,
                traffic: vec![
                    Traffic::scan("index", probe * INDEX_BYTES),
                    Traffic {
                        structure: "table",
                        read_bytes: probe * INDEX_BYTES,
                        written_bytes: 0,
                        random_accesses: probe,
                    },
                ],
            },
        ]
    }

    fn run(&self, phase: usize, worker: usize, stop: &dyn Fn() -> bool) {
        let own = || part(self.index.len(), self.workers, worker);
        if phase == 0 {
            // Only the last worker to probe changes it, after everybody has read it here.
            let pass = self.pass.load(Ordering::Relaxed) / self.workers as u64;
            chunks(own(), stop).for_each(|chunk| self.build(chunk, pass));
            return;
        }
        let mut sums = Sums::default();
        for _ in 0..self.probe_passes {
            chunks(own(), stop).for_each(|chunk| sums += self.probe(chunk));
        }
        self.found.set(worker, sums);
        self.pass.fetch_add(1, Ordering::Relaxed);
    }

    fn result(&self) -> Result<(), String> {
        let passes = u64::from(self.probe_passes);
        let pass = (self.pass.load(Ordering::Relaxed) / self.workers as u64).saturating_sub(1);
        let sum = self
            .values
            .sum
            .wrapping_add(self.values.count.wrapping_mul(pass));
        let expected = Sums {
            count: self.values.count * passes,
            sum: sum.wrapping_mul(passes),
        };
        self.found.compare(expected, "values")
    }
}
