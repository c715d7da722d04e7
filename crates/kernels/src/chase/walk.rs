//! Inner loops of pointer chases.

/// Unrolled steps: the loop's own instructions are then negligible.
const UNROLL: u64 = 32;

/// One step of a chase: loads the pointer that is stored at `at`.
///
/// # Safety
/// `at` points to a readable, aligned pointer.
#[inline(always)]
unsafe fn step(at: *const u8) -> *const u8 {
    let mut next = at;
    // Inline assembly, so that it is one load with the simplest addressing mode: others take a
    // cycle more on some processors.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller guarantees a readable, aligned pointer at `at`.
    unsafe {
        std::arch::asm!("mov {0}, [{0}]", inout(reg) next, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller guarantees a readable, aligned pointer at `at`.
    unsafe {
        std::arch::asm!("ldr {0}, [{0}]", inout(reg) next, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    // SAFETY: the caller guarantees a readable, aligned pointer at `at`.
    unsafe {
        next = at.cast::<*const u8>().read_volatile();
    }
    next
}

/// Follows all pointers, `steps` loads each.
///
/// # Safety
/// Each points to a readable, aligned pointer to another such, for at least `steps` steps.
pub(super) unsafe fn walk(pointers: &mut [*const u8], steps: u64) {
    // Each number of chains that fits into registers has its own loop.
    macro_rules! by_count {
        ($($count:literal)*) => {
            match pointers.len() {
                0 => {}
                // SAFETY: the same contract as this function's.
                $($count => unsafe { side_by_side::<$count>(pointers, steps) },)*
                // SAFETY: the same contract as this function's.
                _ => unsafe { in_turn(pointers, steps) },
            }
        };
    }
    by_count!(1 2 3 4 5 6 7 8 9 10 11 12);
}

/// # Safety
/// Same as [`walk`].
unsafe fn side_by_side<const CHAINS: usize>(pointers: &mut [*const u8], steps: u64) {
    let Some(slots) = pointers.first_chunk_mut::<CHAINS>() else {
        return;
    };
    let mut at = *slots;
    for _ in 0..steps / UNROLL {
        for _ in 0..UNROLL {
            for pointer in &mut at {
                // SAFETY: the same contract as this function's.
                *pointer = unsafe { step(*pointer) };
            }
        }
    }
    for _ in 0..steps % UNROLL {
        for pointer in &mut at {
            // SAFETY: the same contract as this function's.
            *pointer = unsafe { step(*pointer) };
        }
    }
    *slots = at;
}

/// Keeps the pointers in memory, which costs a few more cycles per step.
///
/// # Safety
/// Same as [`walk`].
unsafe fn in_turn(pointers: &mut [*const u8], steps: u64) {
    for _ in 0..steps {
        for pointer in pointers.iter_mut() {
            // SAFETY: the same contract as this function's.
            *pointer = unsafe { step(*pointer) };
        }
    }
}
