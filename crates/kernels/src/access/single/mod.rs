//! Single accesses, each in its own block of assembly: for latency samples and chains.
//!
//! A block contains everything from the first reading of the clock to the last, so the compiler can
//! put nothing in between. What the access needs besides its address (pattern, counts) is in
//! registers before the first reading.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use aarch64 as machine;
#[cfg(target_arch = "x86_64")]
use x86 as machine;

pub(super) use machine::{
    empty_after_loads, empty_after_stores, empty_free, flush, full_fence, preload, store_fence,
};

use super::kernel::Kernel;
use super::places::span_bytes;
use super::touched::{PATTERN_STEP, pattern_word};
use super::{Access, AccessError, CacheOp, Operation, SharedBytes, loops};

/// Size of a cache line, for operations on lines.
const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = LINE_BYTES / 8;

/// Operands of a store loop that writes the pattern.
#[repr(C, align(64))]
pub(super) struct PatternLine {
    /// The words at the place (for 4-byte stores, the half word in the lower half).
    words: [u64; LINE_WORDS],
    /// What each lane of a vector grows by from one vector to the next.
    growth: [u64; LINE_WORDS],
}

/// The target of an access, in the form that the blocks use. All of its bytes are inside a
/// [`SharedBytes`], for as long as that is borrowed.
pub(super) struct AccessTarget {
    /// First byte that is accessed.
    pub(super) at: *mut u8,
    /// First byte of the image of a copy.
    to: *mut u8,
    /// Number of instructions of the access.
    units: usize,
    /// Bytes of the access.
    access_bytes: usize,
    /// First byte whose line gets the cache operation.
    cache_at: *mut u8,
    /// Number of lines that get it.
    cache_lines: usize,
    /// 0 none, 1 write back, 2 flush, 3 flush in any order.
    cache_op: u32,
    pattern: PatternLine,
}

impl AccessTarget {
    /// A place for blocks that touch no memory.
    fn nowhere() -> Self {
        Self {
            at: std::ptr::null_mut(),
            to: std::ptr::null_mut(),
            units: 1,
            access_bytes: 0,
            cache_at: std::ptr::null_mut(),
            cache_lines: 0,
            cache_op: 0,
            pattern: PatternLine {
                words: [0; LINE_WORDS],
                growth: [0; LINE_WORDS],
            },
        }
    }

    /// Calls `act` with an accessed byte of each line of the access, and of its image if `copies`.
    pub(super) fn for_each_line(&self, copies: bool, mut act: impl FnMut(*mut u8)) {
        let mut lines_of = |start: *mut u8| {
            let within = start.addr() % LINE_BYTES;
            for line in 0..(within + self.access_bytes).div_ceil(LINE_BYTES) {
                // The first accessed byte in that line.
                act(start.wrapping_add((line * LINE_BYTES).saturating_sub(within)));
            }
        };
        lines_of(self.at);
        if copies {
            lines_of(self.to);
        }
    }
}

/// A block of assembly: makes the access at the place, and returns a value or a number of ticks.
/// The address is passed in a register, since in chains everything waits for it.
///
/// # Safety
/// The bytes of the place may be accessed, the place is aligned as [`Single`] says, and the
/// processor has the instructions.
pub(super) type Block = unsafe fn(at: *mut u8, place: &AccessTarget) -> u64;

/// The blocks of one kind of access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    /// Untimed; returns the wrapping sum of the words read, or what an atomic found.
    pub(super) sum: Block,
    /// Untimed; returns one word read, as soon as it arrives.
    pub(super) word: Block,
    /// Returns ticks, with full fences.
    pub(super) fenced: Block,
    /// Returns ticks, without fences.
    pub(super) free: Block,
    /// The fenced block without an access.
    pub(super) empty_fenced: fn() -> u64,
    /// The block without fences and without an access.
    pub(super) empty_free: fn() -> u64,
}

/// The memory from its first whole line on.
#[inline]
pub(super) fn whole_lines(memory: SharedBytes<'_>) -> SharedBytes<'_> {
    let skip = memory.as_ptr().align_offset(LINE_BYTES).min(memory.len());
    memory.part(skip, memory.len() - skip)
}

/// One kind of access, compiled for this processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Single {
    access: Access,
    /// Bytes that one instruction moves.
    unit_bytes: usize,
    align_bytes: usize,
    pub(super) blocks: Blocks,
}

impl Single {
    /// # Errors
    /// Same as [`Kernel::new`], and [`AccessError::Invalid`] for mixes, which are not a single
    /// access.
    pub(super) fn new(access: Access) -> Result<Self, AccessError> {
        Kernel::new(access)?;
        let unit_bytes = match access.operation {
            Operation::CompareAndSwap | Operation::FetchAdd => 8,
            _ => loops::unit_bytes(&access),
        };
        let Some(blocks) = machine::choose(access.operation, unit_bytes) else {
            return Err(AccessError::Invalid {
                field: "operation",
                problem: format!(
                    "{} is not one access; measure reads and writes in separate tasks",
                    access.operation
                ),
            });
        };
        let blocks = if access.cache_op == CacheOp::None {
            blocks
        } else {
            // Flushes are waited for like stores, so the overhead is that of stores.
            Blocks {
                empty_fenced: empty_after_stores,
                ..blocks
            }
        };
        let align_bytes = match access.operation {
            Operation::StreamRead | Operation::StreamWrite | Operation::StreamCopy => unit_bytes,
            Operation::CompareAndSwap | Operation::FetchAdd => 8,
            // The pattern consists of 8-byte words.
            Operation::Write if unit_bytes > 8 => 8,
            Operation::Write => unit_bytes,
            _ => 1,
        };
        Ok(Self {
            access,
            unit_bytes,
            align_bytes,
            blocks,
        })
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// Whether it has an image in the second half of the memory.
    pub(super) fn copies(&self) -> bool {
        matches!(
            self.access.operation,
            Operation::Copy | Operation::StreamCopy
        )
    }

    /// The access at `offset` of `memory`, which begins with a whole line ([`whole_lines`]). The
    /// offset is reduced to one that is aligned and inside the memory; `None` if there is none.
    #[inline]
    pub(super) fn place(&self, memory: SharedBytes<'_>, offset: usize) -> Option<AccessTarget> {
        let access_bytes = self.access.access_bytes;
        let span = span_bytes(&self.access, memory.len());
        let last = span.checked_sub(access_bytes)?;
        let offset = offset.min(last) & !(self.align_bytes - 1);
        let at = memory.as_ptr().wrapping_add(offset);
        let to = if self.copies() {
            at.wrapping_add(span)
        } else {
            at
        };
        let touched_bytes = if self.access.operation.is_atomic() {
            8
        } else {
            access_bytes
        };
        Some(AccessTarget {
            at,
            to,
            units: touched_bytes / self.unit_bytes,
            access_bytes: touched_bytes,
            cache_at: to,
            cache_lines: (to.addr() % LINE_BYTES + touched_bytes).div_ceil(LINE_BYTES),
            cache_op: match self.access.cache_op {
                CacheOp::None => 0,
                CacheOp::WriteBack => 1,
                CacheOp::Flush => 2,
                CacheOp::FlushOpt => 3,
            },
            pattern: self.pattern(offset),
        })
    }

    fn pattern(&self, offset: usize) -> PatternLine {
        let mut words = [0; LINE_WORDS];
        let mut word = pattern_word(offset);
        if self.unit_bytes == 4 && offset & 4 != 0 {
            word >>= 32;
        }
        for slot in &mut words {
            *slot = word;
            word = word.wrapping_add(PATTERN_STEP);
        }
        let growth = PATTERN_STEP.wrapping_mul((self.unit_bytes / 8) as u64);
        PatternLine {
            words,
            growth: [growth; LINE_WORDS],
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod machine_code;
