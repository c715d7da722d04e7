//! Description of an access, as data: operation, order, sizes, vector width.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Simd;

pub(crate) const MIN_ACCESS_BYTES: usize = 4;
pub(crate) const MAX_ACCESS_BYTES: usize = 64 << 10;
/// Largest distance of software prefetches.
pub(crate) const MAX_PREFETCH_BYTES: usize = 64 << 10;

/// What one access does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Loads with ordinary instructions.
    Read,
    /// Non-temporal loads (`movntdqa`); processors treat them as ordinary loads on write-back
    /// memory.
    StreamRead,
    /// Stores; each line is read first, for ownership.
    Write,
    /// Non-temporal stores: past the caches, without a read for ownership.
    StreamWrite,
    /// Loads from the first half of the memory, and stores to the same place in the second half.
    Copy,
    /// Same as `Copy`, with non-temporal stores.
    StreamCopy,
    /// Reads and writes in one stream, evenly interleaved.
    Mix {
        /// Reads per 100 accesses, 0 to 100.
        read_percent: u8,
        /// Whether the writes are non-temporal.
        stream: bool,
    },
    /// Compare-and-swap of the 8 bytes at the start of the access, from the value loaded just
    /// before to that value plus one.
    CompareAndSwap,
    /// Atomic add of one to the 8 bytes at the start of the access.
    FetchAdd,
    /// No access: the loop alone, to measure its overhead.
    Nop,
}

impl Operation {
    /// Whether any of its instructions is non-temporal.
    pub(crate) fn is_stream(self) -> bool {
        matches!(
            self,
            Self::StreamRead
                | Self::StreamWrite
                | Self::StreamCopy
                | Self::Mix { stream: true, .. }
        )
    }

    /// Whether any access stores.
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

    /// Whether it is an atomic read-modify-write of one word.
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

/// Cache operation on the lines of an access, right after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheOp {
    /// The lines are left in the caches.
    #[default]
    None,
    /// Write back; the line may stay cached. `clwb` (aarch64: `dc cvac`).
    WriteBack,
    /// Write back and evict, in order with other flushes. `clflush` (aarch64: `dc civac`).
    Flush,
    /// Write back and evict, in any order. `clflushopt` (aarch64: `dc civac`).
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

/// Distribution of random accesses over the memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All places are equally likely.
    Uniform,
    /// Place k has a probability proportional to 1 / k^alpha. The places are in a shuffled order,
    /// so that hot ones do not share pages.
    Zipf {
        /// Exponent above 0; key-value benchmarks use 0.99, CXL-Bench's default is 0.9.
        alpha: f64,
    },
}

/// Order in which places are visited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From front to back.
    Ascending,
    /// From back to front.
    Descending,
    /// Random, each access independent of the others.
    Random(Distribution),
}

/// State of the lines of a timed access before its time begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineState {
    /// Left as they are.
    AsIs,
    /// Loaded, so that the access hits the caches.
    Preloaded,
    /// Flushed, so that the access goes to memory.
    Flushed,
}

/// Fences around a timed access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceMode {
    /// A full fence before the time begins. It ends when loads have their values (load fence), or
    /// when stores and flushes are complete (store fence).
    Full,
    /// No fence: the time ends when the instruction has been issued and its result, if any, has
    /// arrived.
    None,
}

/// Order of the lines of a pointer chase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChaseLocality {
    /// Any line may follow any other: every load also pays for a TLB miss.
    Random,
    /// All lines of a group of 64 base pages (256 KiB) before the next group: address translations
    /// mostly hit the TLB.
    Pages,
}

/// One step of a custom chain of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStep {
    /// Region that it accesses: 0 or 1.
    pub region: u8,
    /// Whether it is a write, otherwise a read.
    pub write: bool,
    /// Size of the access in bytes, a power of two from 8.
    pub size_bytes: usize,
    /// Cache operation after a write.
    pub cache_op: CacheOp,
    /// Whether stores are non-temporal.
    pub stream: bool,
    /// Writes only: place relative to the previous step; `None` for an independent place.
    pub offset_bytes: Option<i64>,
}

/// One kind of memory access.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// What each access does.
    pub operation: Operation,
    /// Order of the places.
    pub order: Order,
    /// Size of one access in bytes, a power of two from 4 B to 64 KiB. Atomics use 8 bytes of it.
    pub access_bytes: usize,
    /// Distance between the starts of neighbouring places, at least `access_bytes`.
    ///
    /// To skip k records of b bytes, it is (k + 1) * b. Random accesses start at multiples of it.
    pub stride_bytes: usize,
    /// Cache operation after each access.
    pub cache_op: CacheOp,
    /// Distance of software prefetches in sequential loops, in bytes; 0 for none.
    ///
    /// Random loops prefetch as many accesses ahead as fit into these bytes (at most 64).
    pub prefetch_bytes: usize,
    /// Vector width of the instructions.
    pub simd: Simd,
}

impl Access {
    /// Whether the accesses are adjacent and nothing else happens between them, so that they can be
    /// merged into one large access.
    pub(crate) fn is_seamless(&self) -> bool {
        self.order == Order::Ascending
            && self.stride_bytes == self.access_bytes
            && self.cache_op == CacheOp::None
            && !self.operation.is_atomic()
            && !matches!(self.operation, Operation::Mix { .. })
    }

    /// `operation` from front to back over all memory, in accesses of 64 bytes with the widest
    /// vectors available.
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

    /// Same as [`Self::sequential`], at uniformly random lines.
    pub fn random(operation: Operation) -> Self {
        Self {
            order: Order::Random(Distribution::Uniform),
            ..Self::sequential(operation)
        }
    }

    /// Refuses what no kernel supports on any processor.
    ///
    /// # Errors
    /// [`AccessError::Invalid`] with the field that is wrong.
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
    /// The access is not valid on any processor.
    Invalid {
        /// Name of the field, as in workload files.
        field: &'static str,
        /// What is wrong, and what would be accepted.
        problem: String,
    },
    /// This processor lacks an instruction.
    Unsupported {
        /// The instruction or instruction set that is missing ("avx512", "clwb").
        missing: &'static str,
        /// What to use instead.
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
