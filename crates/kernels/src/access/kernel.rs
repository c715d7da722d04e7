//! Kernels: access loops that this processor can run.

use std::ops::Range;

use super::loops;
use super::places::{places_in, span_bytes};
use super::{Access, AccessError, CacheOp, Operation, Order, Places, SharedBytes, Touched};
use crate::Simd;

/// An access that was checked against this processor, ready to run.
///
/// ```
/// use tierloom_kernels::access::{Access, Kernel, Operation, Places, SharedBytes};
///
/// let mut memory = vec![1_u8; 1 << 20];
/// let kernel = Kernel::new(Access::sequential(Operation::Read))?;
/// let mut places = Places::new(kernel.access(), memory.len(), 1, 0);
/// let touched = kernel.run(SharedBytes::new(&mut memory), 0..1 << 20, &mut places);
/// assert!(touched.read_bytes >= (1 << 20) - 64);
/// # Ok::<(), tierloom_kernels::access::AccessError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    access: Access,
}

impl Kernel {
    /// Checks that `access` is valid and that this processor has the instructions for it.
    ///
    /// # Errors
    /// [`AccessError::Invalid`] for what [`Access::check`] refuses, and for non-temporal accesses
    /// whose places are not aligned to their vectors; [`AccessError::Unsupported`] with the
    /// instruction that is missing.
    pub fn new(access: Access) -> Result<Self, AccessError> {
        access.check()?;
        if !access.simd.available() {
            return Err(AccessError::Unsupported {
                missing: match access.simd {
                    Simd::Avx2 => "avx2",
                    Simd::Avx512 => "avx512",
                    Simd::Neon => "neon",
                    Simd::Scalar => "scalar instructions",
                },
                next_step: format!("choose simd {} or narrower", Simd::detect()),
            });
        }
        loops::check_cache_op(access.cache_op)?;
        if access.operation.writes()
            && access.access_bytes >= 8
            && !access.stride_bytes.is_multiple_of(8)
        {
            // The pattern that is stored consists of 8-byte words.
            return Err(AccessError::Invalid {
                field: "stride",
                problem: format!(
                    "{} bytes; writes of 8 bytes or more need a multiple of 8",
                    access.stride_bytes
                ),
            });
        }
        let unit_bytes = loops::unit_bytes(&access);
        if is_stream(access.operation) {
            loops::check_stream(&access, unit_bytes)?;
            if !access.stride_bytes.is_multiple_of(unit_bytes) {
                return Err(AccessError::Invalid {
                    field: "stride",
                    problem: format!(
                        "{} bytes; {} with {} instructions of {unit_bytes} bytes needs a multiple of {unit_bytes}",
                        access.stride_bytes, access.operation, access.simd
                    ),
                });
            }
        }
        Ok(Self { access })
    }

    /// The access that the kernel makes.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Number of accesses in a batch of `batch_len` bytes.
    pub fn places_in(&self, batch_len: usize) -> u64 {
        places_in(&self.access, batch_len)
    }

    /// Bytes that batches may cover in memory of `memory_len` bytes: all of them; for copies the
    /// first half, in whole lines.
    pub fn span_bytes(&self, memory_len: usize) -> usize {
        span_bytes(&self.access, memory_len)
    }

    /// Makes the accesses of one batch; on return, all stores and write-backs of the batch are
    /// complete for other threads.
    ///
    /// Ascending and descending orders visit each place of `memory[batch]` once: places start at
    /// the start of the batch, are `stride_bytes` apart, and are entirely inside the batch. Random
    /// orders make as many accesses, anywhere in `memory`. Copies read places in the first half of
    /// `memory` and write the same places in the second half, which starts at [`Self::span_bytes`].
    ///
    /// Offsets count from the first whole cache line of the memory (regions start with one). A
    /// batch starts at the next line boundary, and is cut off at the end of the memory. `places` of
    /// another access or memory length are reset.
    pub fn run(
        &self,
        memory: SharedBytes<'_>,
        batch: Range<usize>,
        places: &mut Places,
    ) -> Touched {
        let skip = memory.as_ptr().align_offset(64).min(memory.len());
        let memory = memory.part(skip, memory.len() - skip);
        // Places of another memory could be outside of this one.
        places.fit(&self.access, memory.len());
        let span = self.span_bytes(memory.len());
        let start = batch.start.min(span).next_multiple_of(64);
        let len = batch.end.min(span).saturating_sub(start);
        let mut count = self.places_in(len);
        if places.place_count() == 0 {
            count = 0;
        }
        if count == 0 {
            return Touched::default();
        }
        loops::run(&self.access, memory, start, count, places)
    }
}

/// Whether any of its instructions is non-temporal.
pub(crate) fn is_stream(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::StreamRead
            | Operation::StreamWrite
            | Operation::StreamCopy
            | Operation::Mix { stream: true, .. }
    )
}

/// Whether the accesses are adjacent and nothing else happens between them, so that they can be
/// merged into one large access.
pub(crate) fn is_seamless(access: &Access) -> bool {
    access.order == Order::Ascending
        && access.stride_bytes == access.access_bytes
        && access.cache_op == CacheOp::None
        && !access.operation.is_atomic()
        && !matches!(access.operation, Operation::Mix { .. })
}
