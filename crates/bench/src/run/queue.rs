//! The queue that distributes the batches of a region over threads.
//!
//! Taking a batch is one atomic increment. The queue counts batches over all passes, so passes need
//! no barrier between them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Divides a span of bytes into batches and hands them out, pass after pass, to any number of
/// threads.
#[derive(Debug)]
pub(super) struct BatchQueue {
    span_bytes: usize,
    batch_bytes: usize,
    batches_per_pass: u64,
    next: AtomicU64,
    limit: AtomicU64,
    /// Bytes of the last batch before the limit, which may be less than a whole batch.
    last_bytes: AtomicU64,
}

impl BatchQueue {
    /// A queue over `span_bytes` with batches of about `batch_bytes`.
    ///
    /// A batch is a whole number of strides, at least one, so that no access crosses two batches.
    pub(super) fn new(span_bytes: usize, batch_bytes: usize, stride_bytes: usize) -> Self {
        let batch_bytes = (batch_bytes.min(span_bytes) / stride_bytes).max(1) * stride_bytes;
        Self {
            span_bytes,
            batch_bytes,
            batches_per_pass: (span_bytes.div_ceil(batch_bytes) as u64).max(1),
            next: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            last_bytes: AtomicU64::new(batch_bytes as u64),
        }
    }

    /// Starts again at the first batch, and ends after `bytes`, counted over all passes.
    ///
    /// `None` never ends. No thread may take batches at the same time.
    pub(super) fn restart(&self, bytes: Option<u64>) {
        let (limit, last_bytes) = match bytes {
            None => (u64::MAX, self.batch_bytes as u64),
            Some(bytes) => {
                let span = (self.span_bytes as u64).max(1);
                let (passes, rest) = (bytes / span, bytes % span);
                let batch = self.batch_bytes as u64;
                let limit = passes
                    .saturating_mul(self.batches_per_pass)
                    .saturating_add(rest.div_ceil(batch));
                let last = match rest % batch {
                    0 => batch,
                    part => part,
                };
                (limit, last)
            }
        };
        // `next` is stored last, with release order: a thread that sees it also sees the new limit.
        self.last_bytes.store(last_bytes, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
        self.next.store(0, Ordering::Release);
    }

    /// The next batch; `None` once the limit is reached.
    pub(super) fn next(&self) -> Option<Range<usize>> {
        // Past the limit the counter keeps growing, which 64 bits allow.
        let index = self.next.fetch_add(1, Ordering::AcqRel);
        let limit = self.limit.load(Ordering::Relaxed);
        if index >= limit {
            return None;
        }
        let start = (index % self.batches_per_pass) as usize * self.batch_bytes;
        let len = if index + 1 == limit {
            self.last_bytes.load(Ordering::Relaxed) as usize
        } else {
            self.batch_bytes
        };
        Some(start..(start + len).min(self.span_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_is_handed_out_as_often_as_asked(places in 1_usize..500, stride in 1_usize..200, batch in 1_usize..5000, share in 0.0_f64..3.0) {
            let span = places * stride;
            let queue = BatchQueue::new(span, batch, stride);
            let bytes = (places as f64 * share) as usize * stride;
            queue.restart(Some(bytes as u64));
            let mut touched = vec![0_usize; span];
            while let Some(batch) = queue.next() {
                prop_assert!(batch.start % stride == 0 && batch.end <= span && !batch.is_empty());
                touched[batch].iter_mut().for_each(|count| *count += 1);
            }
            prop_assert_eq!(touched.iter().sum::<usize>(), bytes);
            let (passes, rest) = (bytes / span, bytes % span);
            prop_assert!(touched.iter().enumerate().all(|(at, count)| *count == passes + usize::from(at < rest)));
        }
    }

    #[test]
    fn without_a_limit_passes_follow_one_another() {
        let queue = BatchQueue::new(100, 64, 1);
        queue.restart(None);
        let first: Vec<_> = (0..4).filter_map(|_| queue.next()).collect();
        assert_eq!(first, [0..64, 64..100, 0..64, 64..100]);
    }

    #[test]
    fn a_batch_smaller_than_a_place_is_one_place() {
        let queue = BatchQueue::new(4096, 64, 1024);
        queue.restart(Some(4096));
        let all: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(all, [0..1024, 1024..2048, 2048..3072, 3072..4096]);
    }
}
