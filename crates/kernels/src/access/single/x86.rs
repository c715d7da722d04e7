//! Blocks for x86-64.
//!
//! Registers: `rdi` place, `rsi` instructions left, `r8` image, `r9` pattern, `r10` first reading
//! of the clock, `r11` cache operation, `r12` and `r13` the lines it is for, `r14` and `r15`
//! scratch that survives readings, `zmm0` to `zmm2` values.
//!
//! Fenced readings of the clock follow the Intel Software Developer's Manual ("RDTSC"): `mfence;
//! lfence; rdtsc` reads it after all earlier stores are globally visible and all other earlier
//! instructions have finished, and an `lfence` after it keeps later instructions from starting.
//! After loads `lfence` alone is enough. `sfence` would not do after stores: it orders them, but
//! nothing waits for it. On AMD processors, too, `lfence` waits for all earlier instructions
//! ("dispatch serializing"; Linux turns that on where it is optional).

use std::arch::asm;
use std::ptr::null_mut;

use super::{AccessTarget, Blocks};
use crate::access::Operation;

/// One block. The lists are: instructions before the first reading, that reading, one round of the
/// access, and what follows the last round, up to the result in `rax`.
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
                    $($setup)*
                    $($begin)*
                    "2:",
                    $($round)*
                    "sub rsi, 1",
                    "jnz 2b",
                    // Selects the cache operation. The branches go the same way at every access, so
                    // they are predicted.
                    "test r11d, r11d",
                    "jz 9f",
                    "cmp r11d, 2",
                    "je 4f",
                    "ja 5f",
                    "3:", "clwb [r12]", "add r12, 64", "sub r13, 1", "jnz 3b", "jmp 8f",
                    "4:", "clflush [r12]", "add r12, 64", "sub r13, 1", "jnz 4b", "jmp 8f",
                    "5:", "clflushopt [r12]", "add r12, 64", "sub r13, 1", "jnz 5b",
                    $($end)*
                    inout("rdi") at => _,
                    inout("rsi") place.units => _,
                    inout("r8") place.to => _,
                    in("r9") &raw const place.pattern,
                    in("r11") u64::from(place.cache_op),
                    inout("r12") place.cache_at => _,
                    inout("r13") place.cache_lines => _,
                    out("r14") _,
                    out("r15") _,
                    out("rax") result,
                    clobber_abi("sysv64"),
                    options(nostack),
                );
            }
            result
        }
    };
}

/// The four blocks of a kind of access, and a function that returns them.
macro_rules! access {
    (
        $name:ident, $fence:ident,
        setup [$($setup:tt)*], round [$($round:tt)*],
        sum [$($zero:tt)*] [$($sum_round:tt)*] [$($sum:tt)*], word [$($word:tt)*], tidy [$($tidy:tt)*]
    ) => {
        pub(super) mod $name {
            use super::*;

            block!(sum, setup [$($setup)* $($zero)*], begin [], round [$($sum_round)*], end ["8:", "9:", $($sum)* $($tidy)*]);
            block!(word, setup [$($setup)*], begin [], round [$($round)*], end ["8:", "9:", $($word)* $($tidy)*]);
            access!(@timed $fence, setup [$($setup)*], round [$($round)*], tidy [$($tidy)*]);
            block!(free, setup [$($setup)*],
                begin ["rdtscp", "shl rdx, 32", "lea r10, [rdx + rax]",],
                round [$($round)*],
                end ["8:", "9:", "rdtscp", "shl rdx, 32", "or rax, rdx", "sub rax, r10", $($tidy)*]);

            pub(in super::super) fn blocks() -> Blocks {
                access!(@blocks $fence)
            }
        }
    };
    (@timed loads, setup [$($setup:tt)*], round [$($round:tt)*], tidy [$($tidy:tt)*]) => {
        block!(fenced, setup [$($setup)*],
            begin ["mfence", "lfence", "rdtsc", "shl rdx, 32", "lea r10, [rdx + rax]", "lfence",],
            round [$($round)*],
            // Label 8 is reached only after a cache operation; plain loads skip the `mfence`.
            end ["8:", "mfence", "9:", "lfence", "rdtsc", "shl rdx, 32", "or rax, rdx", "sub rax, r10", $($tidy)*]);
    };
    (@timed stores, setup [$($setup:tt)*], round [$($round:tt)*], tidy [$($tidy:tt)*]) => {
        block!(fenced, setup [$($setup)*],
            begin ["mfence", "lfence", "rdtsc", "shl rdx, 32", "lea r10, [rdx + rax]", "lfence",],
            round [$($round)*],
            end ["8:", "9:", "mfence", "lfence", "rdtsc", "shl rdx, 32", "or rax, rdx", "sub rax, r10", $($tidy)*]);
    };
    (@blocks loads) => {
        Blocks { sum, word, fenced, free, empty_fenced: empty_after_loads, empty_free }
    };
    (@blocks stores) => {
        Blocks { sum, word, fenced, free, empty_fenced: empty_after_stores, empty_free }
    };
}

/// Accesses that store or return nothing: the untimed blocks are alike.
macro_rules! store {
    ($name:ident, setup [$($setup:tt)*], round [$($round:tt)*], tidy [$($tidy:tt)*]) => {
        access!($name, stores, setup [$($setup)*], round [$($round)*],
            sum [] [$($round)*] ["xor eax, eax",], word ["xor eax, eax",], tidy [$($tidy)*]);
    };
}

access!(read_4, loads, setup [], round ["mov eax, [rdi]",],
    sum ["xor r14d, r14d",] ["mov eax, [rdi]", "add r14, rax", "add rdi, 4",] ["mov rax, r14",], word [], tidy []);
access!(read_8, loads, setup [], round ["mov rax, [rdi]", "add rdi, 8",],
    sum ["xor r14d, r14d",] ["mov rax, [rdi]", "add r14, rax", "add rdi, 8",] ["mov rax, r14",], word [], tidy []);

/// Loads of vectors; sums are folded in half until one word is left.
macro_rules! vector_read {
    ($name:ident, $load:literal, 16) => {
        vector_read!(@ $name, [concat!($load, " xmm1, [rdi]"), "add rdi, 16",], "vpaddq xmm0, xmm0, xmm1", []);
    };
    ($name:ident, $load:literal, 32) => {
        vector_read!(@ $name, [concat!($load, " ymm1, [rdi]"), "add rdi, 32",], "vpaddq ymm0, ymm0, ymm1",
            ["vextracti128 xmm1, ymm0, 1", "vpaddq xmm0, xmm0, xmm1",]);
    };
    ($name:ident, $load:literal, 64) => {
        vector_read!(@ $name, [concat!($load, " zmm1, [rdi]"), "add rdi, 64",], "vpaddq zmm0, zmm0, zmm1",
            ["vextracti64x4 ymm1, zmm0, 1", "vpaddq ymm0, ymm0, ymm1", "vextracti128 xmm1, ymm0, 1", "vpaddq xmm0, xmm0, xmm1",]);
    };
    (@ $name:ident, [$($round:tt)*], $add:literal, [$($fold:tt)*]) => {
        access!($name, loads, setup [], round [$($round)*],
            sum ["vpxor xmm0, xmm0, xmm0",] [$($round)* $add,]
                [$($fold)* "vpsrldq xmm1, xmm0, 8", "vpaddq xmm0, xmm0, xmm1", "vmovq rax, xmm0",],
            word ["vmovq rax, xmm1",], tidy ["vzeroupper",]);
    };
}

vector_read!(read_16, "vmovdqu", 16);
vector_read!(read_32, "vmovdqu", 32);
vector_read!(read_64, "vmovdqu64", 64);
vector_read!(stream_read_16, "vmovntdqa", 16);
vector_read!(stream_read_32, "vmovntdqa", 32);
vector_read!(stream_read_64, "vmovntdqa", 64);

/// Stores of words; the next word of the pattern is computed after the store.
macro_rules! word_write {
    ($name:ident, $store:literal, 4) => {
        store!($name, setup ["mov r14d, [r9]",], round [concat!($store, " [rdi], r14d"),], tidy []);
    };
    ($name:ident, $store:literal, 8) => {
        store!($name, setup ["mov r14, [r9]", "mov r15, [r9 + 64]",],
            round [concat!($store, " [rdi], r14"), "add rdi, 8", "add r14, r15",], tidy []);
    };
}

word_write!(write_4, "mov", 4);
word_write!(write_8, "mov", 8);
word_write!(stream_write_4, "movnti", 4);
word_write!(stream_write_8, "movnti", 8);

/// Stores of vectors; the next vector of the pattern is computed after the store.
macro_rules! vector_write {
    ($name:ident, $load:literal, $store:literal, $register:literal, $next:literal, $bytes:literal) => {
        store!($name,
            setup [concat!($load, " ", $register, "0, [r9]"), concat!($load, " ", $register, "1, [r9 + 64]"),],
            round [
                concat!($store, " [rdi], ", $register, "0"), concat!("add rdi, ", $bytes),
                concat!($next, " ", $register, "0, ", $register, "0, ", $register, "1"),
            ],
            tidy ["vzeroupper",]);
    };
}

vector_write!(write_16, "vmovdqa", "vmovdqu", "xmm", "vpaddq", "16");
vector_write!(write_32, "vmovdqa", "vmovdqu", "ymm", "vpaddq", "32");
vector_write!(write_64, "vmovdqa64", "vmovdqu64", "zmm", "vpaddq", "64");
vector_write!(
    stream_write_16,
    "vmovdqa",
    "vmovntdq",
    "xmm",
    "vpaddq",
    "16"
);
vector_write!(
    stream_write_32,
    "vmovdqa",
    "vmovntdq",
    "ymm",
    "vpaddq",
    "32"
);
vector_write!(
    stream_write_64,
    "vmovdqa64",
    "vmovntdq",
    "zmm",
    "vpaddq",
    "64"
);

/// Loads with stores of the loaded bytes.
macro_rules! copy {
    ($name:ident, $load:literal, $store:literal, $register:literal, $bytes:literal, tidy [$($tidy:tt)*]) => {
        store!($name, setup [],
            round [
                concat!($load, " ", $register, ", [rdi]"), concat!($store, " [r8], ", $register),
                concat!("add rdi, ", $bytes), concat!("add r8, ", $bytes),
            ],
            tidy [$($tidy)*]);
    };
}

copy!(copy_4, "mov", "mov", "eax", "4", tidy []);
copy!(copy_8, "mov", "mov", "rax", "8", tidy []);
copy!(copy_16, "vmovdqu", "vmovdqu", "xmm0", "16", tidy ["vzeroupper",]);
copy!(copy_32, "vmovdqu", "vmovdqu", "ymm0", "32", tidy ["vzeroupper",]);
copy!(copy_64, "vmovdqu64", "vmovdqu64", "zmm0", "64", tidy ["vzeroupper",]);
copy!(stream_copy_4, "mov", "movnti", "eax", "4", tidy []);
copy!(stream_copy_8, "mov", "movnti", "rax", "8", tidy []);
copy!(stream_copy_16, "vmovdqu", "vmovntdq", "xmm0", "16", tidy ["vzeroupper",]);
copy!(stream_copy_32, "vmovdqu", "vmovntdq", "ymm0", "32", tidy ["vzeroupper",]);
copy!(stream_copy_64, "vmovdqu64", "vmovntdq", "zmm0", "64", tidy ["vzeroupper",]);

// A compare-and-swap loads the value it expects, as programs do, and is timed with that load.
// Locked instructions are full fences by themselves.
access!(compare_and_swap, loads, setup [],
    round ["mov rax, [rdi]", "lea r14, [rax + 1]", "lock cmpxchg [rdi], r14",],
    sum [] ["mov rax, [rdi]", "lea r14, [rax + 1]", "lock cmpxchg [rdi], r14",] [], word [], tidy []);
access!(fetch_add, loads, setup [], round ["mov eax, 1", "lock xadd [rdi], rax",],
    sum [] ["mov eax, 1", "lock xadd [rdi], rax",] [], word [], tidy []);
access!(nop, loads, setup [], round [], sum [] [] ["xor eax, eax",], word ["xor eax, eax",], tidy []);
mod nop_store {
    use super::*;

    access!(@timed stores, setup [], round [], tidy []);
}

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
        Operation::Read => by_unit!(4 read_4, 8 read_8, 16 read_16, 32 read_32; read_64),
        Operation::StreamRead => by_unit!(16 stream_read_16, 32 stream_read_32; stream_read_64),
        Operation::Write => by_unit!(4 write_4, 8 write_8, 16 write_16, 32 write_32; write_64),
        Operation::StreamWrite => {
            by_unit!(4 stream_write_4, 8 stream_write_8, 16 stream_write_16, 32 stream_write_32; stream_write_64)
        }
        Operation::Copy => by_unit!(4 copy_4, 8 copy_8, 16 copy_16, 32 copy_32; copy_64),
        Operation::StreamCopy => {
            by_unit!(4 stream_copy_4, 8 stream_copy_8, 16 stream_copy_16, 32 stream_copy_32; stream_copy_64)
        }
        Operation::CompareAndSwap => compare_and_swap::blocks(),
        Operation::FetchAdd => fetch_add::blocks(),
        Operation::Nop => nop::blocks(),
        Operation::Mix { .. } => return None,
    })
}

/// A fenced empty sample, with the fences of loads.
pub(in super::super) fn empty_after_loads() -> u64 {
    // SAFETY: the block touches no memory.
    unsafe { nop::fenced(null_mut(), &AccessTarget::nowhere()) }
}

/// A fenced empty sample, with the fences of stores.
pub(in super::super) fn empty_after_stores() -> u64 {
    // SAFETY: the block touches no memory.
    unsafe { nop_store::fenced(null_mut(), &AccessTarget::nowhere()) }
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
    // SAFETY: contents do not change, and the caller guarantees that the byte is mapped.
    unsafe { asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags)) };
}

/// Loads a byte, and with it its line.
///
/// # Safety
/// The byte may be read.
pub(in super::super) unsafe fn preload(at: *mut u8) {
    // SAFETY: the caller guarantees that the byte may be read.
    unsafe {
        asm!("movzx {0:e}, byte ptr [{0}]", inout(reg) at => _, options(nostack, preserves_flags, readonly));
    }
}

/// Waits until all earlier loads, stores and flushes are complete.
pub(in super::super) fn full_fence() {
    // SAFETY: fences access nothing.
    unsafe { asm!("mfence", "lfence", options(nostack, preserves_flags)) };
}

/// Makes earlier stores and flushes globally visible before later ones.
pub(in super::super) fn store_fence() {
    // SAFETY: a fence accesses nothing.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}
