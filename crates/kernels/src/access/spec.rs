//! What a kernel does, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Simd;

/// Smallest access.
pub(crate) const MIN_ACCESS_BYTES: usize = 4;
/// Largest access.
pub(crate) const MAX_ACCESS_BYTES: usize = 64 << 10;
/// Farthest software prefetch.
pub(crate) const MAX_PREFETCH_BYTES: usize = 64 << 10;

/// What one access does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Loads.
    Read,
    /// Non-temporal loads (`movntdqa`); on ordinary write-back memory processors treat them as
    /// loads.
    StreamRead,
    /// Stores: the line is read for ownership first.
    Write,
    /// Non-temporal stores: past the caches, no read for ownership.
    StreamWrite,
    /// Loads from the first half of the memory, stores to the same place in the second half.
    Copy,
    /// The same with non-temporal stores.
    StreamCopy,
    /// Reads and writes in one stream: of 100 accesses, evenly spread, this many read and the
    /// others write.
    Mix {
        /// Of 100 accesses, 0 to 100.
        read_percent: u8,
        /// Whether the writes are non-temporal.
        stream: bool,
    },
    /// A compare-and-swap of the 8 bytes at the start of the access: the value read before, to that
    /// value plus one.
    CompareAndSwap,
    /// An atomic add of one to the 8 bytes at the start of the access.
    FetchAdd,
    /// Nothing: the loop alone. Shows what the framework costs.
    Nop,
}

impl Operation {
    /// Whether any access writes.
    pub fn writes(self) -> bool {
        !matches!(
            self,
            Self::Read
                | Self::StreamRead
                | Self::Nop
                | Self::Mix {
                    read_percent: 100,
                    ..
                }
        )
    }

    /// Whether it is a read-modify-write of one word.
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::CompareAndSwap | Self::FetchAdd)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str("read"),
            Self::StreamRead => f.write_str("stream-read"),
            Self::Write => f.write_str("write"),
            Self::StreamWrite => f.write_str("stream-write"),
            Self::Copy => f.write_str("copy"),
            Self::StreamCopy => f.write_str("stream-copy"),
            Self::Mix {
                read_percent,
                stream,
            } => {
                let kind = if *stream { "stream-mix" } else { "mix" };
                write!(f, "{kind} {read_percent}:{}", 100 - read_percent.min(&100))
            }
            Self::CompareAndSwap => f.write_str("compare-and-swap"),
            Self::FetchAdd => f.write_str("fetch-and-add"),
            Self::Nop => f.write_str("nop"),
        }
    }
}

/// What is done to the lines of an access right after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheOp {
    /// Nothing.
    #[default]
    None,
    /// `clwb` (aarch64: `dc cvac`): written back, the line may stay.
    WriteBack,
    /// `clflush` (aarch64: `dc civac`): written back and thrown out, in order with other flushes.
    Flush,
    /// `clflushopt` (aarch64: `dc civac`): written back and thrown out, in any order.
    FlushOpt,
}

impl fmt::Display for CacheOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::WriteBack => "write-back",
            Self::Flush => "flush",
            Self::FlushOpt => "flush-opt",
        })
    }
}

/// How random accesses spread over the memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Every place as likely.
    Uniform,
    /// Place k (of the places in a shuffled order, so that hot ones do not share pages) with a
    /// probability proportional to 1 / k^alpha.
    Zipf {
        /// Above 0; 0.99 is what key-value benchmarks use, CXL-Bench's default is 0.9.
        alpha: f64,
    },
}

/// In which order places are visited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Front to back.
    Ascending,
    /// Back to front.
    Descending,
    /// By chance, each access independent of the others.
    Random(Distribution),
}

/// What is done to the lines of a timed access before its time begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineState {
    /// Nothing.
    AsIs,
    /// They are loaded, so the access hits the caches.
    Preloaded,
    /// They are flushed, so the access goes to memory.
    Flushed,
}

/// Fences around a timed access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceMode {
    /// A full fence before the time begins; the time ends when loads have their values (load fence)
    /// and stores and flushes are complete (store fence).
    Full,
    /// No fence: the time ends when the instruction has been issued and its result, if it has one,
    /// is there.
    None,
}

/// Order of the lines of a pointer chase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChaseLocality {
    /// Any line may follow any other: every load also pays for address translation.
    Random,
    /// All lines of a group of 64 base pages (256 KiB) before the next group: address translation
    /// mostly hits.
    Pages,
}

/// One step of a custom chain of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStep {
    /// Region: 0 or 1.
    pub region: u8,
    /// Write instead of read.
    pub write: bool,
    /// Bytes, a power of two from 64.
    pub size_bytes: usize,
    /// After a write.
    pub cache_op: CacheOp,
    /// Non-temporal stores.
    pub stream: bool,
    /// Writes only: place relative to the step before; `None` chooses a place of its own.
    pub offset_bytes: Option<i64>,
}

/// One kind of memory access.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// What is done.
    pub operation: Operation,
    /// Where to go next.
    pub order: Order,
    /// Bytes of one access, a power of two from 4 B to 64 KiB. Atomics use 8 bytes of it.
    pub access_bytes: usize,
    /// Distance between the starts of two neighbouring places, at least `access_bytes`; skipping k
    /// records of b bytes is (k + 1) * b. Random accesses start at multiples of it.
    pub stride_bytes: usize,
    /// What follows each access.
    pub cache_op: CacheOp,
    /// How far ahead sequential loops prefetch by software, bytes; 0 for none. Random loops
    /// prefetch the place that many accesses ahead that fit into these bytes (at most 64).
    pub prefetch_bytes: usize,
    /// Vector width.
    pub simd: Simd,
}

impl Access {
    /// `operation` front to back over whole memory in accesses of 64 bytes with the widest vectors
    /// there are.
    pub fn sequential(operation: Operation) -> Self {
        Self {
            operation,
            order: Order::Ascending,
            access_bytes: 64,
            stride_bytes: 64,
            cache_op: CacheOp::None,
            prefetch_bytes: 0,
            simd: Simd::detect(),
        }
    }

    /// The same at uniformly random lines.
    pub fn random(operation: Operation) -> Self {
        Self {
            order: Order::Random(Distribution::Uniform),
            ..Self::sequential(operation)
        }
    }

    /// Refuses what no kernel can do, here or anywhere.
    ///
    /// # Errors
    /// [`AccessError`] naming the field.
    pub fn check(&self) -> Result<(), AccessError> {
        let wrong = |field, problem: String| Err(AccessError::Invalid { field, problem });
        if !self.access_bytes.is_power_of_two()
            || !(MIN_ACCESS_BYTES..=MAX_ACCESS_BYTES).contains(&self.access_bytes)
        {
            return wrong(
                "access_size",
                format!(
                    "{} bytes; expected a power of two from 4 to 65536",
                    self.access_bytes
                ),
            );
        }
        if self.operation.is_atomic() && self.access_bytes < 8 {
            return wrong(
                "access_size",
                format!(
                    "{} bytes; {} needs 8 or more",
                    self.access_bytes, self.operation
                ),
            );
        }
        if self.stride_bytes < self.access_bytes
            || !self.stride_bytes.is_multiple_of(MIN_ACCESS_BYTES)
            || (self.operation.is_atomic() && !self.stride_bytes.is_multiple_of(8))
        {
            return wrong(
                "stride",
                format!(
                    "{} bytes; expected at least the access size ({}) and a multiple of {}",
                    self.stride_bytes,
                    self.access_bytes,
                    if self.operation.is_atomic() { 8 } else { 4 }
                ),
            );
        }
        if self.prefetch_bytes > MAX_PREFETCH_BYTES || !self.prefetch_bytes.is_multiple_of(64) {
            return wrong(
                "prefetch_distance",
                format!(
                    "{} bytes; expected a multiple of 64, at most 65536",
                    self.prefetch_bytes
                ),
            );
        }
        if let Operation::Mix { read_percent, .. } = self.operation
            && read_percent > 100
        {
            return wrong("read_percent", format!("{read_percent}; expected 0 to 100"));
        }
        if let Order::Random(Distribution::Zipf { alpha }) = self.order
            && !(alpha.is_finite() && alpha > 0.0 && alpha <= 10.0)
        {
            return wrong(
                "zipf_alpha",
                format!("{alpha}; expected a number above 0, at most 10"),
            );
        }
        Ok(())
    }
}

/// Why there is no kernel for an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessError {
    /// It makes no sense anywhere.
    Invalid {
        /// The key in workload files.
        field: &'static str,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// This processor cannot do it.
    Unsupported {
        /// The instruction set or instruction that is missing ("avx512", "clwb").
        missing: &'static str,
        /// What to do instead.
        next_step: String,
    },
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { field, problem } => write!(f, "{field}: {problem}"),
            Self::Unsupported { missing, next_step } => {
                write!(f, "this processor has no {missing}; {next_step}")
            }
        }
    }
}

impl std::error::Error for AccessError {}
