//! Cache instructions on single lines.
//!
//! They are safe on any mapped address, since none changes what the processor itself reads.

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

#[cfg(target_arch = "x86_64")]
mod processor {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid_count, _mm_mfence};
    use std::sync::OnceLock;

    #[derive(Clone, Copy)]
    struct Has {
        clflushopt: bool,
        clwb: bool,
    }

    fn has() -> Has {
        static HAS: OnceLock<Has> = OnceLock::new();
        *HAS.get_or_init(|| {
            // CPUID leaf 7 (structured extended features), EBX.
            let features = __cpuid_count(7, 0).ebx;
            Has {
                clflushopt: features >> 23 & 1 == 1,
                clwb: features >> 24 & 1 == 1,
            }
        })
    }

    /// # Safety
    /// `at` is mapped.
    pub(super) unsafe fn write_back(at: *const u8) {
        if has().clwb {
            // SAFETY: the processor has the instruction, and the caller mapped the line.
            unsafe { asm!("clwb [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
        } else {
            // SAFETY: as the caller promises.
            unsafe { evict(at) };
        }
    }

    /// # Safety
    /// `at` is mapped.
    pub(super) unsafe fn evict(at: *const u8) {
        if has().clflushopt {
            // SAFETY: the processor has the instruction, and the caller mapped the line.
            unsafe {
                asm!("clflushopt [{at}]", at = in(reg) at, options(nostack, preserves_flags))
            };
        } else {
            // SAFETY: every x86-64 processor has the instruction, and the caller mapped the line.
            unsafe { asm!("clflush [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
        }
    }

    pub(super) fn fence() {
        // Not `sfence`: a later load must not pass an earlier store either.
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { _mm_mfence() };
    }
}

#[cfg(target_arch = "aarch64")]
mod processor {
    //! `dc cvac` and `dc civac` are privileged by default; Linux lets programs use them (it sets
    //! `SCTLR_EL1.UCI`).

    use std::arch::asm;

    /// # Safety
    /// `at` is mapped.
    pub(super) unsafe fn write_back(at: *const u8) {
        // SAFETY: as the caller promises.
        unsafe { asm!("dc cvac, {at}", at = in(reg) at, options(nostack, preserves_flags)) };
    }

    /// # Safety
    /// `at` is mapped.
    pub(super) unsafe fn evict(at: *const u8) {
        // SAFETY: as the caller promises.
        unsafe { asm!("dc civac, {at}", at = in(reg) at, options(nostack, preserves_flags)) };
    }

    pub(super) fn fence() {
        // SAFETY: a barrier accesses no memory.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }
}

/// Writes the line of `at` back to memory; the line may stay cached. Done after the next [`fence`].
///
/// # Safety
/// `at` is mapped.
pub(super) unsafe fn write_back(at: *const u8) {
    // SAFETY: as the caller promises.
    unsafe { processor::write_back(at) };
}

/// Writes the line of `at` back if it is dirty and removes it from all caches of this host. Done
/// after the next [`fence`].
///
/// # Safety
/// `at` is mapped.
pub(super) unsafe fn evict(at: *const u8) {
    // SAFETY: as the caller promises.
    unsafe { processor::evict(at) };
}

/// Orders all loads, stores and cache instructions before it with all after it.
pub(super) fn fence() {
    // Also for the compiler.
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    processor::fence();
}
