//! Copying with ordinary or with non-temporal (NT) stores.

use crate::Simd;

/// Least size for NT stores: a copy of this size does not stay in the caches anyway, and NT stores
/// save the read of the target's lines (read for ownership).
const NON_TEMPORAL_FROM_BYTES: usize = 16 << 20;
/// Least bytes per thread: below it, starting a thread costs more than it saves.
const MIN_BYTES_PER_THREAD: usize = 4 << 20;

/// Kind of the stores of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyKind {
    /// Ordinary stores: the target's lines are first read into the caches, and stay there.
    Cached,
    /// Non-temporal stores: the target is written to memory past the caches.
    ///
    /// On processors without AVX2 these are ordinary stores as well.
    NonTemporal,
}

/// Copies `source` to `target`, choosing the kind of stores by size.
///
/// Returns the bytes copied: the shorter of the two lengths.
pub fn copy(target: &mut [u8], source: &[u8]) -> usize {
    let kind = if target.len().min(source.len()) >= NON_TEMPORAL_FROM_BYTES {
        CopyKind::NonTemporal
    } else {
        CopyKind::Cached
    };
    copy_with(kind, target, source)
}

/// Same as [`copy`], with a chosen kind of stores.
///
/// After either kind the bytes are visible to other threads as after any other write.
pub fn copy_with(kind: CopyKind, target: &mut [u8], source: &[u8]) -> usize {
    let len = target.len().min(source.len());
    let (target, source) = (&mut target[..len], &source[..len]);
    match (kind, Simd::detect()) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `detect` returned this width, so the processor has it; both slices have length
        // `len`.
        (CopyKind::NonTemporal, Simd::Avx512) => unsafe { x86::stream_avx512(target, source) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (CopyKind::NonTemporal, Simd::Avx2) => unsafe { x86::stream_avx2(target, source) },
        _ => target.copy_from_slice(source),
    }
    len
}

/// Copies `source` to `target` with up to `threads` threads (0: one per available CPU), each a
/// contiguous part.
///
/// Returns the bytes copied. The kind of stores is chosen by the whole size, not by that of a part.
pub fn parallel_fill_copy(target: &mut [u8], source: &[u8], threads: usize) -> usize {
    let len = target.len().min(source.len());
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        asked => asked,
    };
    let threads = threads.min(len / MIN_BYTES_PER_THREAD).max(1);
    if threads == 1 {
        return copy(target, source);
    }
    let kind = if len >= NON_TEMPORAL_FROM_BYTES {
        CopyKind::NonTemporal
    } else {
        CopyKind::Cached
    };
    // Parts of whole pages: in an aligned target, no page is touched by two threads.
    let part_bytes = len.div_ceil(threads).next_multiple_of(4096);
    let parts = target[..len]
        .chunks_mut(part_bytes)
        .zip(source[..len].chunks(part_bytes));
    std::thread::scope(|scope| {
        for (target, source) in parts {
            scope.spawn(move || copy_with(kind, target, source));
        }
    });
    len
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256, _mm512_loadu_si512,
        _mm512_stream_si512,
    };

    /// Bytes before the first cache line of the target, and bytes of the whole lines after it. NT
    /// stores need an aligned target.
    fn split(target: &[u8]) -> (usize, usize) {
        let head_bytes = target.as_ptr().align_offset(64).min(target.len());
        (head_bytes, (target.len() - head_bytes) / 64 * 64)
    }

    /// # Safety
    /// The processor must have AVX-512F; both slices must have the same length.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn stream_avx512(target: &mut [u8], source: &[u8]) {
        let (head_bytes, body_bytes) = split(target);
        let tail_start = head_bytes + body_bytes;
        target[..head_bytes].copy_from_slice(&source[..head_bytes]);
        for offset in (head_bytes..tail_start).step_by(64) {
            // SAFETY: `offset + 64 <= tail_start`, which is inside both slices, and `target` is
            // aligned to 64 at `offset`, as the head ends at a line.
            unsafe {
                let line = _mm512_loadu_si512(source.as_ptr().add(offset).cast::<__m512i>());
                _mm512_stream_si512(target.as_mut_ptr().add(offset).cast::<__m512i>(), line);
            }
        }
        // NT stores are weakly ordered: without the fence, another thread that is told of the copy
        // could still read old bytes.
        _mm_sfence();
        target[tail_start..].copy_from_slice(&source[tail_start..]);
    }

    /// # Safety
    /// The processor must have AVX2; both slices must have the same length.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn stream_avx2(target: &mut [u8], source: &[u8]) {
        let (head_bytes, body_bytes) = split(target);
        let tail_start = head_bytes + body_bytes;
        target[..head_bytes].copy_from_slice(&source[..head_bytes]);
        for offset in (head_bytes..tail_start).step_by(32) {
            // SAFETY: `offset + 32 <= tail_start`, which is inside both slices, and `target` is
            // aligned to 32 at `offset`.
            unsafe {
                let half_line = _mm256_loadu_si256(source.as_ptr().add(offset).cast::<__m256i>());
                _mm256_stream_si256(target.as_mut_ptr().add(offset).cast::<__m256i>(), half_line);
            }
        }
        // As above.
        _mm_sfence();
        target[tail_start..].copy_from_slice(&source[tail_start..]);
    }

    #[cfg(test)]
    pub(super) fn stream_avx2_if_there(target: &mut [u8], source: &[u8]) {
        if crate::Simd::Avx2.available() && target.len() == source.len() {
            // SAFETY: both conditions were just checked.
            unsafe { stream_avx2(target, source) };
        } else {
            target.copy_from_slice(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn copies_are_equal_at_any_length_and_alignment(source in prop::collection::vec(any::<u8>(), 0..2000), skip in 0_usize..70) {
            for kind in [CopyKind::Cached, CopyKind::NonTemporal] {
                let mut target = vec![0; source.len() + skip + 5];
                prop_assert_eq!(copy_with(kind, &mut target[skip..], &source), source.len());
                prop_assert_eq!(&target[skip..skip + source.len()], source.as_slice());
                prop_assert!(target[..skip].iter().chain(&target[skip + source.len()..]).all(|byte| *byte == 0));
            }
            #[cfg(target_arch = "x86_64")]
            {
                let mut target = vec![0; source.len() + skip];
                x86::stream_avx2_if_there(&mut target[skip..], &source);
                prop_assert_eq!(&target[skip..], source.as_slice());
            }
        }
    }

    #[test]
    fn parallel_copies_are_equal_and_stop_at_the_shorter_end() {
        let source: Vec<u8> = (0..(20 << 20) + 123_u32)
            .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for threads in [0, 1, 3] {
            let mut target = vec![0; source.len()];
            assert_eq!(
                parallel_fill_copy(&mut target, &source, threads),
                source.len()
            );
            assert!(target == source);
        }
        let mut short = vec![0; 10 << 20];
        assert_eq!(parallel_fill_copy(&mut short, &source, 2), 10 << 20);
        assert!(short == source[..10 << 20]);
        assert_eq!(parallel_fill_copy(&mut [], &source, 2), 0);
    }
}
