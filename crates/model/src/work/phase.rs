//! Phases: stretches of execution with one access pattern per structure.

use crate::error::ModelError;
use serde::{Deserialize, Serialize};

/// Bytes of a cache line.
pub const LINE_BYTES: f64 = 64.0;

/// Bytes of one worker's working buffer when data is moved through DRAM: a morsel that stays in a private cache of 2 MiB.
pub const MORSEL_BYTES: u64 = 1 << 20;

/// Compute time to copy one cached line with vector instructions, ns. Assumed: one 64-byte load and one 64-byte store that
/// goes to the second-level cache at 32 bytes per cycle, with loop and address work about 4 cycles at 3 GHz.
pub const COPY_NS_PER_LINE: f64 = 1.3;

/// What is done to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Loads: one line of read traffic.
    #[default]
    Read,
    /// Cached stores: the line is read for ownership and written back, one line of each traffic.
    Write,
    /// Non-temporal stores: one line of write traffic.
    NtWrite,
    /// Read, change and write back: one line of each traffic.
    Update,
}

/// In which order lines are touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// In order, one line of every `lines` (1 is the same as sequential). Skipped lines cost nothing unless prefetchers fetch them.
    Strided {
        /// Lines from one touched line to the next.
        lines: u32,
    },
    /// Anywhere, each address known without the access before.
    Random,
    /// Pieces of `lines` lines in order, each piece anywhere.
    Runs {
        /// Lines of a piece.
        lines: u32,
    },
    /// Anywhere, each address known only after the access before.
    Dependent,
    /// Written in order to one of `partitions` places that the tuple chooses: each tuple touches its place once and adds
    /// `lines_per_tuple` lines to it. While the current lines of all places stay in the private cache, only full lines are written;
    /// while their pages stay in the TLB, no page is walked.
    Scatter {
        /// Places written to in turn.
        partitions: u32,
    },
}

/// What kind of thing a structure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StructureClass {
    /// A column of a table.
    Column,
    /// A join's hash table.
    HashTable,
    /// The groups of an aggregation.
    GroupTable,
    /// A sorted run, or what is being sorted.
    SortRun,
    /// A small buffer that is written and soon read again, one part per worker.
    Buffer,
}

/// One structure as a phase touches it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Which one ("lineorder.lo_discount", "hash(part)").
    pub structure: String,
    /// What kind of thing it is.
    pub class: StructureClass,
    /// Order of the accesses.
    pub pattern: Pattern,
    /// What is done.
    pub op: Op,
    /// 64-byte lines touched per tuple of the phase; may be below 1.
    pub lines_per_tuple: f64,
    /// Bytes that are touched before the same line comes round again: the size of a structure (over all workers).
    pub footprint_bytes: u64,
    /// Sequential: vector instructions. Random: batched with software prefetching.
    pub simd: bool,
}

impl Access {
    /// A column read in order: `bytes_per_tuple` bytes per tuple out of `footprint_bytes`, scalar.
    pub fn sequential_read(
        structure: impl Into<String>,
        bytes_per_tuple: f64,
        footprint_bytes: u64,
    ) -> Self {
        Access {
            structure: structure.into(),
            class: StructureClass::Column,
            pattern: Pattern::Sequential,
            op: Op::Read,
            lines_per_tuple: bytes_per_tuple / LINE_BYTES,
            footprint_bytes,
            simd: false,
        }
    }

    /// A hash table probed `lines_per_tuple` times per tuple at independent addresses, without prefetching.
    pub fn probe(structure: impl Into<String>, lines_per_tuple: f64, footprint_bytes: u64) -> Self {
        Access {
            structure: structure.into(),
            class: StructureClass::HashTable,
            pattern: Pattern::Random,
            op: Op::Read,
            lines_per_tuple,
            footprint_bytes,
            simd: false,
        }
    }

    /// The same with vector instructions (sequential) or software prefetching (random).
    pub fn vectorised(self) -> Self {
        Access { simd: true, ..self }
    }

    /// The same with another operation.
    pub fn with_op(self, op: Op) -> Self {
        Access { op, ..self }
    }

    /// The same on another class of structure.
    pub fn with_class(self, class: StructureClass) -> Self {
        Access { class, ..self }
    }
}

/// What a phase mainly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// Reads columns.
    Scan,
    /// Reads columns and drops rows.
    Filter,
    /// Builds a hash table.
    Build,
    /// Probes hash tables.
    Probe,
    /// Groups and aggregates.
    Aggregate,
    /// Partitions rows.
    Partition,
    /// Sorts.
    Sort,
    /// Writes results.
    Write,
    /// Anything else.
    Other,
}

/// A stretch of execution in which every worker does the same to every tuple.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name for people ("probe part").
    pub name: String,
    /// What it mainly does.
    pub kind: PhaseKind,
    /// Tuples that all workers together go through.
    pub tuples: f64,
    /// Processor time per tuple and worker without waiting for memory beyond the private caches, ns.
    pub compute_ns_per_tuple: f64,
    /// What is touched.
    pub accesses: Vec<Access>,
}

impl Phase {
    /// A phase without compute time and accesses, to be filled.
    pub fn new(name: impl Into<String>, kind: PhaseKind, tuples: f64) -> Self {
        Phase {
            name: name.into(),
            kind,
            tuples,
            compute_ns_per_tuple: 0.0,
            accesses: Vec::new(),
        }
    }

    /// The phase with this compute time per tuple and worker, ns.
    pub fn compute_ns(self, compute_ns_per_tuple: f64) -> Self {
        Phase {
            compute_ns_per_tuple,
            ..self
        }
    }

    /// The phase with one more access.
    pub fn access(mut self, access: Access) -> Self {
        self.accesses.push(access);
        self
    }

    /// The phase when every column it streams is first copied, morsel by morsel, into a small buffer per worker and read from there:
    /// the data stays on its (slow) tier and DRAM is a working buffer, the TIER variant of Huang et al., "Bandwidth Expansion via CXL"
    /// (ADMS 2024).
    ///
    /// The column is still read once from where it lies. The copy adds a write and a read of the buffer, which is [`MORSEL_BYTES`] per
    /// worker and so mostly stays in the private caches, and [`COPY_NS_PER_LINE`] of compute time. Place the buffer by
    /// [`StructureClass::Buffer`] or by the placement's default.
    pub fn through_buffer(mut self, workers: u32) -> Self {
        let footprint_bytes = MORSEL_BYTES * u64::from(workers.max(1));
        let is_streamed = |a: &&Access| {
            a.class == StructureClass::Column
                && a.pattern == Pattern::Sequential
                && a.op == Op::Read
        };
        let lines: f64 = self
            .accesses
            .iter()
            .filter(is_streamed)
            .map(|a| a.lines_per_tuple)
            .sum();
        if lines > 0.0 {
            let buffer = |op| Access {
                structure: "morsel buffer".into(),
                class: StructureClass::Buffer,
                pattern: Pattern::Sequential,
                op,
                lines_per_tuple: lines,
                footprint_bytes,
                simd: true,
            };
            self.accesses.extend([buffer(Op::Write), buffer(Op::Read)]);
            self.compute_ns_per_tuple += lines * COPY_NS_PER_LINE;
        }
        self
    }

    /// True if there is nothing to price: no tuples, or neither compute time nor lines.
    pub fn is_idle(&self) -> bool {
        self.tuples == 0.0
            || (self.compute_ns_per_tuple == 0.0
                && self.accesses.iter().all(|a| a.lines_per_tuple == 0.0))
    }

    /// Checks that tuples, compute time and lines are finite and not negative.
    ///
    /// # Errors
    /// [`ModelError::PhaseNumber`] names the phase and the number.
    pub fn check(&self) -> Result<(), ModelError> {
        let wrong = |field: String, found: f64| {
            Err(ModelError::PhaseNumber {
                phase: self.name.clone(),
                field,
                found,
            })
        };
        let is_wrong = |x: f64| !(x.is_finite() && x >= 0.0);
        if is_wrong(self.tuples) {
            return wrong("tuples".into(), self.tuples);
        }
        if is_wrong(self.compute_ns_per_tuple) {
            return wrong("compute time per tuple".into(), self.compute_ns_per_tuple);
        }
        let bad = self.accesses.iter().find(|a| is_wrong(a.lines_per_tuple));
        match bad {
            Some(a) => wrong(
                format!("lines per tuple of {}", a.structure),
                a.lines_per_tuple,
            ),
            None => Ok(()),
        }
    }
}
