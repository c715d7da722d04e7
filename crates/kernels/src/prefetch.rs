//! Software prefetch.

/// Prefetches the cache line of `slice[index]` into all cache levels.
///
/// An index outside the slice is harmless, so callers may look ahead without a bounds check.
#[inline(always)]
pub fn prefetch_read<T>(slice: &[T], index: usize) {
    let address = slice.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it reads nothing into registers and cannot fault, whatever the
    // address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Prefetches the cache line of `slice[index]` to be written: it is requested for this core alone.
///
/// An index outside the slice is harmless, as for [`prefetch_read`].
#[inline(always)]
pub fn prefetch_write<T>(slice: &[T], index: usize) {
    let address = slice.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above; processors without the instruction take it for one without effect.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
