//! The loops of pointer chases.

/// Steps written out one after another: the loop's own instructions are then lost behind them.
const UNROLL: u64 = 32;

/// One step of a chase: the pointer that is stored where `at` points.
///
/// # Safety
/// `at` points to a readable, aligned pointer.
#[inline(always)]
unsafe fn step(at: *const u8) -> *const u8 {
    let mut next = at;
    // Assembly, so that it is one load with the plainest address there is: others take a cycle more
    // on some processors.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: by this function's contract.
    unsafe {
        std::arch::asm!("mov {0}, [{0}]", inout(reg) next, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: by this function's contract.
    unsafe {
        std::arch::asm!("ldr {0}, [{0}]", inout(reg) next, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    // SAFETY: by this function's contract.
    unsafe {
        next = at.cast::<*const u8>().read_volatile();
    }
    next
}

/// Follows all pointers, `steps` loads each.
///
/// # Safety
/// Each points to a readable, aligned pointer to another such, for as many steps as wanted.
pub(super) unsafe fn walk(pointers: &mut [*const u8], steps: u64) {
    // As many as stay in registers together have a loop of their own.
    macro_rules! by_count {
        ($($count:literal)*) => {
            match pointers.len() {
                0 => {}
                // SAFETY: by this function's contract.
                $($count => unsafe { side_by_side::<$count>(pointers, steps) },)*
                // SAFETY: by this function's contract.
                _ => unsafe { in_turn(pointers, steps) },
            }
        };
    }
    by_count!(1 2 3 4 5 6 7 8 9 10 11 12);
}

/// # Safety
/// As [`walk`].
unsafe fn side_by_side<const CHAINS: usize>(pointers: &mut [*const u8], steps: u64) {
    let Some(slots) = pointers.first_chunk_mut::<CHAINS>() else {
        return;
    };
    let mut at = *slots;
    for _ in 0..steps / UNROLL {
        for _ in 0..UNROLL {
            for pointer in &mut at {
                // SAFETY: by this function's contract.
                *pointer = unsafe { step(*pointer) };
            }
        }
    }
    for _ in 0..steps % UNROLL {
        for pointer in &mut at {
            // SAFETY: by this function's contract.
            *pointer = unsafe { step(*pointer) };
        }
    }
    *slots = at;
}

/// The pointers stay in memory: a few cycles more per step.
///
/// # Safety
/// As [`walk`].
unsafe fn in_turn(pointers: &mut [*const u8], steps: u64) {
    for _ in 0..steps {
        for pointer in pointers.iter_mut() {
            // SAFETY: by this function's contract.
            *pointer = unsafe { step(*pointer) };
        }
    }
}
