//! Radix partitioning: distributes 8-byte tuples to partitions by some bits of the key.
//!
//! ```text
//!   histogram: each worker counts its part
//!   scatter:   prefix sums over partitions and workers, then each worker writes its tuples to
//!              their partitions, which lie one after the other in the output
//! ```
//! The tuned form is software write combining, after Balkesen, Teubner, Alonso and Özsu,
//! "Main-memory hash joins on multi-core CPUs" (2013): a cache line of tuples per partition is
//! collected in a buffer and stored past the caches. The plain form stores each tuple at once.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tierloom_kernels::{LINE_WORDS, LineStore, Simd, WordLine};

use crate::data::{Sums, each, mix, random};
use crate::share::{chunks, part, words_of};
use crate::spec::{ParameterError, Parameters, check_power, check_tuples};
use crate::{Filled, Form, Job, PhaseInfo, Structure, Traffic};

/// Bytes of a tuple.
const TUPLE_BYTES: u64 = 8;
/// Largest fanout: its buffers take 4 MiB per worker.
pub(crate) const MAX_FANOUT: u64 = 1 << 16;

/// A partitioning of 8-byte tuples by their low bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RadixPartition {
    /// Tuples of the input.
    pub tuples: u64,
    /// Number of partitions, a power of two.
    pub fanout: u64,
    /// How it is carried out.
    pub form: Form,
    /// Width of the non-temporal stores of the tuned form.
    pub simd: Simd,
}

impl Default for RadixPartition {
    /// The size of the publications with a fanout in the middle of theirs.
    fn default() -> Self {
        Self {
            tuples: 1 << 30,
            fanout: 1024,
            form: Form::Tuned,
            simd: Simd::detect(),
        }
    }
}

impl fmt::Display for RadixPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tuples, fanout) = (self.tuples, self.fanout);
        write!(f, "{tuples} tuples to {fanout} partitions, ")?;
        store_words(self.form, self.simd, f)
    }
}

/// "tuned, streaming avx2" or "plain".
pub(crate) fn store_words(form: Form, simd: Simd, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match form {
        Form::Tuned => write!(f, "{form}, streaming {simd}"),
        Form::Plain => write!(f, "{form}"),
    }
}

/// The stores of full lines; `None` for tuples that are stored one by one.
pub(crate) fn line_store(form: Form, simd: Simd) -> Option<LineStore> {
    (form == Form::Tuned).then(|| LineStore::stream(simd))
}

impl RadixPartition {
    fn filled(&self, structures: &mut [&mut [u8]], seed: u64) -> FilledPartition {
        let bytes = (self.tuples * TUPLE_BYTES) as usize;
        let sums = each::<8>(&mut structures[0][..bytes], |at, words| {
            let mut sums = Sums::default();
            for (at, word) in at.zip(words) {
                let tuple = random(seed, at);
                *word = tuple.to_le_bytes();
                sums.add(mix(tuple));
            }
            sums
        });
        FilledPartition {
            partition: self.clone(),
            sums,
        }
    }
}

impl Parameters for RadixPartition {
    fn check(&self) -> Result<(), ParameterError> {
        check_tuples("tuples", self.tuples, u64::MAX)?;
        check_power("fanout", self.fanout, 2..=MAX_FANOUT)
    }

    fn simd(&self) -> Option<Simd> {
        (self.form == Form::Tuned).then_some(self.simd)
    }

    fn structures(&self, _: u32) -> Vec<Structure> {
        ["input", "output"]
            .map(|name| Structure {
                name,
                size_bytes: self.tuples * TUPLE_BYTES,
            })
            .into()
    }

    fn tuples(&self, _: u32) -> u64 {
        self.tuples
    }

    fn fill(&self, structures: &mut [&mut [u8]], _: u32, seed: u64) -> Box<dyn Filled> {
        Box::new(self.filled(structures, seed))
    }
}

/// A partitioning whose input is in place.
#[derive(Debug)]
pub(crate) struct FilledPartition {
    partition: RadixPartition,
    sums: Sums,
}

impl Filled for FilledPartition {
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a> {
        let structures = words_of(structures);
        let tuples = |index: usize| &structures[index][..self.partition.tuples as usize];
        Box::new(Scatter::new(
            Ends {
                input: tuples(0),
                output: tuples(1),
                names: ["input", "output"],
            },
            self.partition.fanout as usize,
            LowBits(self.partition.fanout - 1),
            line_store(self.partition.form, self.partition.simd),
            workers,
        ))
    }

    fn check(&self, structures: &[&[u8]], _: usize) -> Result<String, String> {
        let words = |index: usize| {
            let words = structures[index].as_chunks::<8>().0;
            &words[..self.partition.tuples as usize]
        };
        let fanout = self.partition.fanout as usize;
        let of = |word: &[u8; 8]| u64::from_le_bytes(*word) as usize & (fanout - 1);
        let mut counts = vec![0_usize; fanout];
        words(0).iter().for_each(|word| counts[of(word)] += 1);
        let mut sums = Sums::default();
        let mut output = words(1).iter();
        for (partition, count) in counts.into_iter().enumerate() {
            for word in output.by_ref().take(count) {
                if of(word) != partition {
                    let found = of(word);
                    return Err(format!(
                        "a tuple of partition {found} is in partition {partition}"
                    ));
                }
                sums.add(mix(u64::from_le_bytes(*word)));
            }
        }
        if sums != self.sums {
            return Err("the partitions do not hold the tuples of the input".into());
        }
        Ok(format!("all {} tuples are in their partitions", sums.count))
    }
}

/// The partition of a tuple.
pub(crate) trait PartitionOf: Copy + Send + Sync {
    /// Number of the partition, below the fanout.
    fn of(self, tuple: u64) -> usize;
}

/// The low bits of a tuple, as a mask.
#[derive(Debug, Clone, Copy)]
struct LowBits(u64);

impl PartitionOf for LowBits {
    #[inline(always)]
    fn of(self, tuple: u64) -> usize {
        (tuple & self.0) as usize
    }
}

/// What is partitioned, and where to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) input: &'a [AtomicU64],
    /// As long as the input, and aligned to a cache line.
    pub(crate) output: &'a [AtomicU64],
    /// Names of the two structures.
    pub(crate) names: [&'static str; 2],
}

/// Buffers of one worker, kept over all passes.
#[derive(Debug, Default)]
struct Buffers {
    counts: Vec<u64>,
    /// A line per partition, with the tuples of the line that is being filled.
    lines: Vec<WordLine>,
    /// First position of the worker in each partition.
    first: Vec<usize>,
    /// Position of the next tuple of each partition.
    next: Vec<usize>,
}

/// A partitioning in progress.
pub(crate) struct Scatter<'a, P> {
    pub(crate) ends: Ends<'a>,
    fanout: usize,
    partition: P,
    store: Option<LineStore>,
    workers: usize,
    /// Counts of worker 0, then those of worker 1, and so on.
    histograms: Vec<AtomicU64>,
    buffers: Vec<Mutex<Buffers>>,
}

impl<'a, P: PartitionOf> Scatter<'a, P> {
    pub(crate) fn new(
        ends: Ends<'a>,
        fanout: usize,
        partition: P,
        store: Option<LineStore>,
        workers: usize,
    ) -> Self {
        Self {
            ends,
            fanout,
            partition,
            store,
            workers,
            histograms: (0..fanout * workers).map(|_| AtomicU64::new(0)).collect(),
            buffers: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    fn part(&self, worker: usize) -> Range<usize> {
        part(self.ends.input.len(), self.workers, worker)
    }

    /// Counts the tuples of `worker`'s part by partition.
    pub(crate) fn histogram(&self, worker: usize, stop: &dyn Fn() -> bool) {
        let mut buffers = self.buffers[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        buffers.counts.clear();
        buffers.counts.resize(self.fanout, 0);
        let counts = buffers.counts.as_mut_slice();
        for chunk in chunks(self.part(worker), stop) {
            for tuple in &self.ends.input[chunk] {
                counts[self.partition.of(tuple.load(Ordering::Relaxed))] += 1;
            }
        }
        let own = &self.histograms[worker * self.fanout..(worker + 1) * self.fanout];
        for (shared, count) in own.iter().zip(&buffers.counts) {
            shared.store(*count, Ordering::Relaxed);
        }
    }

    /// First position of each partition of this worker in the output, from all histograms.
    fn positions(&self, worker: usize, first: &mut Vec<usize>) {
        first.clear();
        let mut start = 0;
        for partition in 0..self.fanout {
            let counts = (0..self.workers)
                .map(|w| self.histograms[w * self.fanout + partition].load(Ordering::Relaxed));
            let mut own = start;
            for (other, count) in counts.enumerate() {
                if other < worker {
                    own += count as usize;
                }
                start += count as usize;
            }
            first.push(own);
        }
    }

    /// Positions at which partitions begin, and the end of the last one.
    pub(crate) fn starts(&self) -> Vec<usize> {
        let mut starts = Vec::new();
        self.positions(0, &mut starts);
        starts.push(self.ends.input.len());
        starts
    }

    /// Writes the tuples of `worker`'s part to their partitions; all histograms must be complete.
    pub(crate) fn scatter(&self, worker: usize, stop: &dyn Fn() -> bool) {
        let mut buffers = self.buffers[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Buffers {
            lines, first, next, ..
        } = &mut *buffers;
        self.positions(worker, first);
        next.clone_from(first);
        let Some(store) = self.store else {
            for chunk in chunks(self.part(worker), stop) {
                for tuple in &self.ends.input[chunk] {
                    let tuple = tuple.load(Ordering::Relaxed);
                    let at = &mut next[self.partition.of(tuple)];
                    self.ends.output[*at].store(tuple, Ordering::Relaxed);
                    *at += 1;
                }
            }
            return;
        };
        lines.resize(self.fanout, WordLine::default());
        for chunk in chunks(self.part(worker), stop) {
            self.combine(chunk, store, lines, first, next);
        }
        for ((line, next), first) in lines.iter().zip(&*next).zip(&*first) {
            self.store_part(line, (next / LINE_WORDS * LINE_WORDS).max(*first)..*next);
        }
        store.finish();
    }

    /// Scatters a chunk through the buffers.
    #[inline(always)]
    fn combine(
        &self,
        chunk: Range<usize>,
        store: LineStore,
        lines: &mut [WordLine],
        first: &[usize],
        next: &mut [usize],
    ) {
        for tuple in &self.ends.input[chunk] {
            let tuple = tuple.load(Ordering::Relaxed);
            let partition = self.partition.of(tuple);
            let at = next[partition];
            let line = &mut lines[partition];
            line.0[at % LINE_WORDS] = tuple;
            next[partition] = at + 1;
            if at % LINE_WORDS == LINE_WORDS - 1 {
                let start = at + 1 - LINE_WORDS;
                if start >= first[partition] {
                    store.store(self.ends.output, start, line);
                } else {
                    // The first line of a partition belongs to another worker or partition too.
                    self.store_part(line, first[partition]..at + 1);
                }
            }
        }
    }

    /// Stores the words of a line that belong to these positions.
    fn store_part(&self, line: &WordLine, positions: Range<usize>) {
        for at in positions {
            self.ends.output[at].store(line.0[at % LINE_WORDS], Ordering::Relaxed);
        }
    }

    /// What the histogram does to its structure.
    pub(crate) fn histogram_traffic(&self) -> Traffic {
        Traffic::scan(self.ends.names[0], self.bytes())
    }

    /// What the scatter does to both structures.
    pub(crate) fn scatter_traffic(&self) -> [Traffic; 2] {
        let tuples = self.ends.input.len() as u64;
        let output = Traffic {
            structure: self.ends.names[1],
            read_bytes: 0,
            written_bytes: self.bytes(),
            // A store goes to another partition than the one before: a line at a time if lines are
            // combined, else a tuple.
            random_accesses: match self.store {
                Some(_) => tuples / LINE_WORDS as u64,
                None => tuples,
            },
        };
        [self.histogram_traffic(), output]
    }

    fn bytes(&self) -> u64 {
        self.ends.input.len() as u64 * TUPLE_BYTES
    }

    /// Whether all tuples were counted.
    pub(crate) fn counted(&self) -> Result<(), String> {
        let counted = self.histograms.iter().map(|c| c.load(Ordering::Relaxed));
        let (counted, tuples) = (counted.sum::<u64>(), self.ends.input.len() as u64);
        if counted == tuples {
            return Ok(());
        }
        Err(format!("{counted} tuples were counted, expected {tuples}"))
    }
}

impl<P: PartitionOf> Job for Scatter<'_, P> {
    fn phases(&self) -> Vec<PhaseInfo> {
        let tuples = self.ends.input.len() as u64;
        vec![
            PhaseInfo {
                name: "histogram",
                tuples,
                counted: true,
                traffic: vec![self.histogram_traffic()],
            },
            PhaseInfo {
                name: "scatter",
                tuples,
                counted: true,
                traffic: self.scatter_traffic().into(),
            },
        ]
    }

    fn run(&self, phase: usize, worker: usize, stop: &dyn Fn() -> bool) {
        match phase {
            0 => self.histogram(worker, stop),
            _ => self.scatter(worker, stop),
        }
    }

    fn result(&self) -> Result<(), String> {
        self.counted()
    }
}
