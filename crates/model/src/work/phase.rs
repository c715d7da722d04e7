//! Access phases: stretches of execution with one access pattern per structure.
//!
//! A phase describes work per tuple, so the solver needs no trace. It has no order of accesses
//! within a tuple.

use crate::error::ModelError;
use serde::{Deserialize, Serialize};

/// Bytes of a cache line: the unit of memory traffic in the model.
pub const LINE_BYTES: f64 = 64.0;

/// Bytes of one worker's working buffer for data that is staged in DRAM: a morsel that fits in a
/// private cache of 2 MiB.
pub const MORSEL_BYTES: u64 = 1 << 20;

/// Compute time to copy one cached line with vector instructions, ns.
///
/// Assumed: one 64-byte load and one 64-byte store that goes to the second-level cache at 32 bytes
/// per cycle; with loop and address arithmetic about 4 cycles at 3 GHz.
pub const COPY_NS_PER_LINE: f64 = 1.3;

/// Operation on a line, which decides its traffic.
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

/// Order in which lines are accessed, which decides prefetching, lines in flight and page walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One line after the other, as in a scan.
    Sequential,
    /// Every `lines`-th line in order (1 is the same as sequential).
    ///
    /// Skipped lines cost nothing unless prefetchers fetch them.
    Strided {
        /// Distance between two accessed lines, in lines.
        lines: u32,
    },
    /// Random lines; each address is known without the result of the previous access.
    Random,
    /// Pieces of `lines` consecutive lines, each at a random address.
    Runs {
        /// Length of a piece, in lines.
        lines: u32,
    },
    /// Random lines; each address is known only from the result of the previous access (pointer
    /// chasing).
    Dependent,
    /// Written in order to one of `partitions` output positions that the tuple chooses, as in radix
    /// partitioning.
    ///
    /// Each tuple appends `lines_per_tuple` lines to one position. While the current lines of all
    /// positions stay in the private cache, only full lines are written; while their pages stay in
    /// the TLB, no page is walked.
    Scatter {
        /// Number of output positions.
        partitions: u32,
    },
    /// Written as [`Pattern::Scatter`], but all workers append to the same positions.
    ///
    /// Every store waits until its line comes from the core that wrote it last; lines move from
    /// cache to cache and hardly reach memory.
    Contended {
        /// Number of output positions.
        partitions: u32,
    },
}

/// Class of structures, by which placements and problems can select them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StructureClass {
    /// Column of a table.
    Column,
    /// Hash table of a join.
    HashTable,
    /// Group table of an aggregation.
    GroupTable,
    /// Sorted run, or data that is being sorted.
    SortRun,
    /// Small buffer that is written and soon read again, one part per worker.
    Buffer,
}

/// Accesses of a phase to one structure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Name of the structure, by which placements find it ("lineorder.lo_discount", "hash(part)").
    pub structure: String,
    /// Class of the structure.
    pub class: StructureClass,
    /// Order in which its lines are accessed.
    pub pattern: Pattern,
    /// Operation on each line.
    pub op: Op,
    /// 64-byte lines accessed per tuple of the phase; may be below 1.
    pub lines_per_tuple: f64,
    /// Bytes accessed before the same line is accessed again: the size of the structure, over all
    /// workers.
    pub footprint_bytes: u64,
    /// Sequential: a loop over one array, with vector instructions or a few scalar ones; false for
    /// an engine that handles one tuple at a time. Random: batched with software prefetching.
    pub simd: bool,
}

impl Access {
    /// Scalar sequential read of a column of `footprint_bytes`, `bytes_per_tuple` bytes per tuple.
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

    /// Probe of a hash table: `lines_per_tuple` lines per tuple at independent addresses, without
    /// prefetching.
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

    /// The same access with vector instructions (sequential) or software prefetching (random).
    pub fn vectorised(self) -> Self {
        Access { simd: true, ..self }
    }

    /// The same access with another operation.
    pub fn with_op(self, op: Op) -> Self {
        Access { op, ..self }
    }

    /// The same access to another class of structure.
    pub fn with_class(self, class: StructureClass) -> Self {
        Access { class, ..self }
    }
}

/// Main activity of a phase. The solver ignores it; callers select and label phases by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// Read of columns that keeps all rows.
    Scan,
    /// Read of columns that drops rows.
    Filter,
    /// Build of a hash table.
    Build,
    /// Probe of hash tables.
    Probe,
    /// Aggregation of rows into groups.
    Aggregate,
    /// Partitioning of rows, for instance radix partitioning.
    Partition,
    /// Sort of rows, runs and merges alike.
    Sort,
    /// Write of results or temporary tables.
    Write,
    /// None of the others.
    Other,
}

/// Stretch of execution in which every worker does the same to every tuple.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name shown in results and errors ("probe part").
    pub name: String,
    /// Main activity; has no effect on the solution.
    pub kind: PhaseKind,
    /// Tuples that all workers together process.
    pub tuples: f64,
    /// Compute time per tuple and worker, ns, hits in private caches included, waits for anything
    /// beyond them not.
    pub compute_ns_per_tuple: f64,
    /// Accesses of one tuple, one entry per structure and pattern.
    pub accesses: Vec<Access>,
}

impl Phase {
    /// Phase without compute time and accesses; add them with [`Phase::compute_ns`] and
    /// [`Phase::access`].
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

    /// The phase with every streamed column copied, morsel by morsel, into a small buffer per
    /// worker and read from there.
    ///
    /// The data stays on its (slow) tier and DRAM is a working buffer: the TIER variant of Huang et
    /// al., "Bandwidth Expansion via CXL" (ADMS 2024). The column is still read once from its tier.
    /// The copy adds a write and a read of the buffer, which is [`MORSEL_BYTES`] per worker and so
    /// mostly stays in the private caches, and [`COPY_NS_PER_LINE`] of compute time. Place the
    /// buffer by [`StructureClass::Buffer`] or by the placement's default.
    pub fn through_buffer(mut self, workers: u32) -> Self {
        let footprint_bytes = MORSEL_BYTES * u64::from(workers.max(1));
        // Only plain reads are copied; random and written columns are used in place.
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

    /// True if the phase takes no time: no tuples, or neither compute time nor lines.
    pub fn is_idle(&self) -> bool {
        self.tuples == 0.0
            || (self.compute_ns_per_tuple == 0.0
                && self.accesses.iter().all(|a| a.lines_per_tuple == 0.0))
    }

    /// Checks that tuples, compute time and lines are finite and not negative.
    ///
    /// # Errors
    /// [`ModelError::PhaseNumber`] names the phase and its first invalid number.
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
