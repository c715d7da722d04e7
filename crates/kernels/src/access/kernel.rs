//! Kernels: access loops that this processor can run.

use std::ops::Range;

use super::loops;
use super::places::{places_in, span_bytes};
use super::{Access, AccessError, Operation, Places, SharedBytes, Touched};
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
        if access.operation.is_stream() {
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
        let memory = from_whole_line(memory);
        let distance = self.span_bytes(memory.len());
        self.run_lines(memory, memory.len(), distance, batch, places)
    }

    /// Makes the copies of one batch from places in `source` to the same places in `target`; on
    /// return, all stores are complete for other threads.
    ///
    /// Batches may cover all of `source`, in whole lines, as far as `target` has as many. `places`
    /// are those of a memory of twice that length: as for [`Kernel::run`], half of it is copied.
    ///
    /// # Panics
    /// If the access is no copy.
    pub fn run_across(
        &self,
        source: SharedBytes<'_>,
        target: SharedBytes<'_>,
        batch: Range<usize>,
        places: &mut Places,
    ) -> Touched {
        assert!(is_copy(self.access.operation), "the access is no copy");
        let (source, target) = (from_whole_line(source), from_whole_line(target));
        let lines_bytes = source.len().min(target.len()) / 64 * 64;
        let distance = target.as_ptr().addr().wrapping_sub(source.as_ptr().addr());
        let source = source.part(0, lines_bytes);
        self.run_lines(source, 2 * lines_bytes, distance, batch, places)
    }

    /// Makes the accesses of one batch in memory that begins with a whole line. Images of copies
    /// are `distance` bytes from their places, and `places` those of `places_len` bytes.
    fn run_lines(
        &self,
        memory: SharedBytes<'_>,
        places_len: usize,
        distance: usize,
        batch: Range<usize>,
        places: &mut Places,
    ) -> Touched {
        // Places of another memory could be outside of this one.
        places.fit(&self.access, places_len);
        let span = self.span_bytes(places_len);
        let start = batch.start.min(span).next_multiple_of(64);
        let len = batch.end.min(span).saturating_sub(start);
        let mut count = self.places_in(len);
        if places.place_count() == 0 {
            count = 0;
        }
        if count == 0 {
            return Touched::default();
        }
        loops::run(&self.access, memory, distance, start, count, places)
    }
}

/// The memory from its first whole cache line on.
fn from_whole_line(memory: SharedBytes<'_>) -> SharedBytes<'_> {
    let skip = memory.as_ptr().align_offset(64).min(memory.len());
    memory.part(skip, memory.len() - skip)
}

/// Whether it copies.
fn is_copy(operation: Operation) -> bool {
    matches!(operation, Operation::Copy | Operation::StreamCopy)
}
