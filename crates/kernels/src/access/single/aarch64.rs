//! Blocks for aarch64.
//!
//! Registers: `x0` place, `x1` instructions left, `x2` image, `x3` pattern, `x4` first reading of
//! the clock, `x5` cache operation, `x6` and `x7` the lines it is for, `x8` result, `x9` to `x11`
//! scratch, `v0` and `v1` values.
//!
//! With full fences the clock is read after `dsb; isb`: the first waits until all loads have their
//! values and all stores are visible, the second keeps the reading from being made early, and an
//! `isb` after the reading keeps the access from starting early. Without fences, the value of a
//! load is first used by a branch, which must be resolved before `isb` lets the reading begin.

use std::arch::asm;
use std::ptr::null_mut;

use super::{AccessTarget, Blocks};
use crate::access::Operation;

/// One block. The lists are: instructions before the first reading, that reading, one round of the
/// access, and what follows the last round, up to the result in `x8`.
macro_rules! block {
    ($name:ident, setup [$($setup:tt)*], begin [$($begin:tt)*], round [$($round:tt)*], end [$($end:tt)*]) => {
        /// # Safety
        /// Same as [`super::Block`].
        pub(super) unsafe fn $name(at: *mut u8, place: &AccessTarget) -> u64 {
            let result: u64;
            // SAFETY: touches only the bytes of the place, as the caller allows. All changed
            // registers are operands or in the ABI's clobber list.
            unsafe {
                asm!(
                    "mov x8, xzr",
                    "mov x10, xzr",
                    $($setup)*
                    $($begin)*
                    "2:",
                    $($round)*
                    "subs x1, x1, #1",
                    "b.ne 2b",
                    // Selects the cache operation. The branches go the same way at every access, so
                    // they are predicted.
                    "cbz x5, 9f",
                    "cmp x5, #1",
                    "b.ne 4f",
                    "3:", "dc cvac, x6", "add x6, x6, #64", "subs x7, x7, #1", "b.ne 3b", "b 9f",
                    // Both kinds of flush are the same instruction here.
                    "4:", "dc civac, x6", "add x6, x6, #64", "subs x7, x7, #1", "b.ne 4b",
                    "9:",
                    $($end)*
                    inout("x0") at => _,
                    inout("x1") place.units => _,
                    inout("x2") place.to => _,
                    in("x3") &raw const place.pattern,
                    in("x5") u64::from(place.cache_op),
                    inout("x6") place.cache_at => _,
                    inout("x7") place.cache_lines => _,
                    out("x8") result,
                    clobber_abi("C"),
                    options(nostack),
                );
            }
            result
        }
    };
}

/// The four blocks of a kind of access, and a function that returns them. Rounds leave a value in
/// `x8`, or nothing; those of sums add to `x10` or `v0`.
macro_rules! access {
    ($name:ident, setup [$($setup:tt)*], round [$($round:tt)*], sum [$($sum_round:tt)*] [$($sum:tt)*], word [$($word:tt)*]) => {
        pub(super) mod $name {
            use super::*;

            block!(sum, setup [$($setup)*], begin [], round [$($sum_round)*], end [$($sum)*]);
            block!(word, setup [$($setup)*], begin [], round [$($round)*], end [$($word)*]);
            block!(fenced, setup [$($setup)*],
                begin ["dsb sy", "isb", "mrs x4, cntvct_el0", "isb",],
                round [$($round)*],
                end ["dsb sy", "isb", "mrs x9, cntvct_el0", "sub x8, x9, x4",]);
            block!(free, setup [$($setup)*],
                begin ["isb", "mrs x4, cntvct_el0",],
                round [$($round)*],
                end [$($word)* "cbnz x8, 5f", "5:", "isb", "mrs x9, cntvct_el0", "sub x8, x9, x4",]);

            pub(in super::super) fn blocks() -> Blocks {
                Blocks { sum, word, fenced, free, empty_fenced: empty_after_stores, empty_free }
            }
        }
    };
}

macro_rules! store {
    ($name:ident, setup [$($setup:tt)*], round [$($round:tt)*]) => {
        access!($name, setup [$($setup)*], round [$($round)*], sum [$($round)*] [], word []);
    };
}

access!(read_4, setup [], round ["ldr w8, [x0]", "add x0, x0, #4",],
    sum ["ldr w8, [x0]", "add x0, x0, #4", "add x10, x10, x8",] ["mov x8, x10",], word []);
access!(read_8, setup [], round ["ldr x8, [x0], #8",],
    sum ["ldr x8, [x0], #8", "add x10, x10, x8",] ["mov x8, x10",], word []);

// Non-temporal loads come in pairs: here the two halves of a word.
access!(stream_read_8, setup [],
    round ["ldnp w8, w9, [x0]", "add x0, x0, #8", "orr x8, x8, x9, lsl #32",],
    sum ["ldnp w8, w9, [x0]", "add x0, x0, #8", "orr x8, x8, x9, lsl #32", "add x10, x10, x8",] ["mov x8, x10",],
    word []);

/// Loads of vectors: `v1` keeps the last one, `v0` has the sums.
macro_rules! vector_read {
    ($name:ident, [$($load:tt)*], [$($add:tt)*]) => {
        access!($name, setup ["movi v0.2d, #0",], round [$($load)*],
            sum [$($load)* $($add)*] ["addp d0, v0.2d", "fmov x8, d0",], word ["fmov x8, d1",]);
    };
}

vector_read!(
    read_16,
    ["ldr q1, [x0], #16",],
    ["add v0.2d, v0.2d, v1.2d",]
);
vector_read!(
    read_32,
    ["ldp q1, q2, [x0], #32",],
    ["add v0.2d, v0.2d, v1.2d", "add v0.2d, v0.2d, v2.2d",]
);
// Non-temporal pairs have no addressing mode with writeback, so the address is advanced separately.
vector_read!(
    stream_read_16,
    ["ldnp d1, d2, [x0]", "add x0, x0, #16",],
    ["add d0, d0, d1", "add d0, d0, d2",]
);
vector_read!(
    stream_read_32,
    ["ldnp q1, q2, [x0]", "add x0, x0, #32",],
    ["add v0.2d, v0.2d, v1.2d", "add v0.2d, v0.2d, v2.2d",]
);

store!(write_4, setup ["ldr w9, [x3]",], round ["str w9, [x0], #4",]);
store!(write_8, setup ["ldr x9, [x3]", "ldr x11, [x3, #64]",], round ["str x9, [x0], #8", "add x9, x9, x11",]);
store!(write_16, setup ["ldr q0, [x3]", "ldr q1, [x3, #64]",], round ["str q0, [x0], #16", "add v0.2d, v0.2d, v1.2d",]);
store!(write_32, setup ["ldp q0, q2, [x3]", "ldr q1, [x3, #64]",],
    round ["stp q0, q2, [x0], #32", "add v0.2d, v0.2d, v1.2d", "add v2.2d, v2.2d, v1.2d",]);
store!(stream_write_8, setup ["ldr x9, [x3]", "ldr x11, [x3, #64]",],
    round ["lsr x10, x9, #32", "stnp w9, w10, [x0]", "add x0, x0, #8", "add x9, x9, x11",]);
store!(stream_write_16, setup ["ldp d0, d2, [x3]", "ldr d1, [x3, #64]",],
    round ["stnp d0, d2, [x0]", "add x0, x0, #16", "add d0, d0, d1", "add d2, d2, d1",]);
store!(stream_write_32, setup ["ldp q0, q2, [x3]", "ldr q1, [x3, #64]",],
    round ["stnp q0, q2, [x0]", "add x0, x0, #32", "add v0.2d, v0.2d, v1.2d", "add v2.2d, v2.2d, v1.2d",]);

store!(copy_4, setup [], round ["ldr w9, [x0], #4", "str w9, [x2], #4",]);
store!(copy_8, setup [], round ["ldr x9, [x0], #8", "str x9, [x2], #8",]);
store!(copy_16, setup [], round ["ldr q0, [x0], #16", "str q0, [x2], #16",]);
store!(copy_32, setup [], round ["ldp q0, q1, [x0], #32", "stp q0, q1, [x2], #32",]);
store!(stream_copy_8, setup [], round ["ldp w9, w10, [x0], #8", "stnp w9, w10, [x2]", "add x2, x2, #8",]);
store!(stream_copy_16, setup [], round ["ldr q0, [x0], #16", "mov d1, v0.d[1]", "stnp d0, d1, [x2]", "add x2, x2, #16",]);
store!(stream_copy_32, setup [], round ["ldp q0, q1, [x0], #32", "stnp q0, q1, [x2]", "add x2, x2, #32",]);

// Exclusive pairs (LL/SC), which every processor has; single-instruction atomics came with Armv8.1.
// A compare-and-swap loads the value it expects.
access!(compare_and_swap, setup [],
    round ["ldr x8, [x0]", "add x11, x8, #1", "6:", "ldaxr x9, [x0]", "cmp x9, x8", "b.ne 7f", "stlxr w10, x11, [x0]", "cbnz w10, 6b", "7:", "mov x8, x9",],
    sum ["ldr x8, [x0]", "add x11, x8, #1", "6:", "ldaxr x9, [x0]", "cmp x9, x8", "b.ne 7f", "stlxr w10, x11, [x0]", "cbnz w10, 6b", "7:", "mov x8, x9",] [], word []);
access!(fetch_add, setup [],
    round ["6:", "ldaxr x8, [x0]", "add x11, x8, #1", "stlxr w10, x11, [x0]", "cbnz w10, 6b",],
    sum ["6:", "ldaxr x8, [x0]", "add x11, x8, #1", "stlxr w10, x11, [x0]", "cbnz w10, 6b",] [], word []);
store!(nop, setup [], round []);

/// The blocks of an operation with instructions of this many bytes; `None` for mixes.
pub(super) fn choose(operation: Operation, unit_bytes: usize) -> Option<Blocks> {
    macro_rules! by_unit {
        ($($unit:literal $name:ident),*; $last:ident) => {
            match unit_bytes {
                $($unit => $name::blocks(),)*
                _ => $last::blocks(),
            }
        };
    }
    Some(match operation {
        Operation::Read => by_unit!(4 read_4, 8 read_8, 16 read_16; read_32),
        Operation::StreamRead => by_unit!(8 stream_read_8, 16 stream_read_16; stream_read_32),
        Operation::Write => by_unit!(4 write_4, 8 write_8, 16 write_16; write_32),
        Operation::StreamWrite => by_unit!(8 stream_write_8, 16 stream_write_16; stream_write_32),
        Operation::Copy => by_unit!(4 copy_4, 8 copy_8, 16 copy_16; copy_32),
        Operation::StreamCopy => by_unit!(8 stream_copy_8, 16 stream_copy_16; stream_copy_32),
        Operation::CompareAndSwap => compare_and_swap::blocks(),
        Operation::FetchAdd => fetch_add::blocks(),
        Operation::Nop => nop::blocks(),
        Operation::Mix { .. } => return None,
    })
}

/// A fenced empty sample. The fences are the same after loads and stores here.
pub(in super::super) fn empty_after_loads() -> u64 {
    // SAFETY: the block touches no memory.
    unsafe { nop::fenced(null_mut(), &AccessTarget::nowhere()) }
}

/// A fenced empty sample, with the fences of stores.
pub(in super::super) fn empty_after_stores() -> u64 {
    empty_after_loads()
}

/// An empty sample without fences.
pub(in super::super) fn empty_free() -> u64 {
    // SAFETY: the block touches no memory.
    unsafe { nop::free(null_mut(), &AccessTarget::nowhere()) }
}

/// Writes back and evicts the line of a byte.
///
/// # Safety
/// The byte is mapped.
pub(in super::super) unsafe fn flush(at: *mut u8) {
    // SAFETY: contents do not change, the caller guarantees that the byte is mapped, and Linux
    // allows the instruction in user mode.
    unsafe { asm!("dc civac, {}", in(reg) at, options(nostack, preserves_flags)) };
}

/// Loads a byte, and with it its line.
///
/// # Safety
/// The byte may be read.
pub(in super::super) unsafe fn preload(at: *mut u8) {
    // SAFETY: the caller guarantees that the byte may be read.
    unsafe {
        asm!("ldrb {0:w}, [{0}]", inout(reg) at => _, options(nostack, preserves_flags, readonly))
    };
}

/// Waits until all earlier loads, stores and flushes are complete.
pub(in super::super) fn full_fence() {
    // SAFETY: barriers access nothing.
    unsafe { asm!("dsb sy", "isb", options(nostack, preserves_flags)) };
}

/// Makes earlier stores and flushes globally visible before later ones.
pub(in super::super) fn store_fence() {
    // SAFETY: a barrier accesses nothing.
    unsafe { asm!("dsb st", options(nostack, preserves_flags)) };
}
