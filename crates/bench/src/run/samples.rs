//! Latency samples of a thread or a task, and the latency record made from them.
//!
//! Samples go into a histogram with fixed bounds, so that memory does not grow with their number
//! and the histograms of threads can be added.

use hdrhistogram::Histogram;
use tierloom_record::{Bucket, LatencyRecord, Percentile, Spread};

/// Histogram units per ns: the unit is a tenth of a nanosecond.
const UNITS_PER_NS: f64 = 10.0;
/// Largest latency that is kept apart from larger ones, ns: one hour.
const LONGEST_NS: f64 = 3.6e12;
/// Ratio of the upper bounds of two neighbouring histogram buckets in a record.
const BUCKET_GROWTH: f64 = 1.03;
/// Percentiles of a record; extreme ones are left out if fewer than one sample is beyond them.
const PERCENTILES: [f64; 11] = [
    1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99,
];

/// A histogram of latencies with three significant digits, from 0.1 ns to an hour.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    histogram: Histogram<u64>,
    sum_ns: f64,
}

impl Samples {
    pub(super) fn new() -> Self {
        let longest = (LONGEST_NS * UNITS_PER_NS) as u64;
        let histogram = Histogram::new_with_bounds(1, longest, 3).expect("constant bounds, tested");
        Self {
            histogram,
            sum_ns: 0.0,
        }
    }

    /// Adds a sample; a sample that became negative by subtracting the timer overhead counts as 0.
    pub(super) fn add(&mut self, ns: f64) {
        let ns = ns.clamp(0.0, LONGEST_NS);
        self.histogram
            .saturating_record((ns * UNITS_PER_NS).round() as u64);
        self.sum_ns += ns;
    }

    pub(super) fn merge(&mut self, other: &Samples) {
        // All histograms have the same bounds, so adding cannot fail.
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns += other.sum_ns;
    }

    pub(super) fn count(&self) -> u64 {
        self.histogram.len()
    }

    fn quantile_ns(&self, percent: f64) -> f64 {
        self.histogram.value_at_quantile(percent / 100.0) as f64 / UNITS_PER_NS
    }

    pub(super) fn median_ns(&self) -> f64 {
        self.quantile_ns(50.0)
    }

    /// The record of all samples; `None` without samples.
    ///
    /// `medians_ns` are the medians of the repetitions. They are kept because the histogram is over
    /// all repetitions together and cannot show how much these differ.
    pub(super) fn record(
        &self,
        what: &str,
        timer_overhead_ns: f64,
        medians_ns: Vec<f64>,
    ) -> Option<LatencyRecord> {
        let samples = self.count();
        if samples == 0 {
            return None;
        }
        let known = |percent: &&f64| {
            let tail = (100.0 - **percent).min(**percent) / 100.0;
            **percent == 50.0 || samples as f64 * tail >= 1.0
        };
        let percentiles = PERCENTILES
            .iter()
            .filter(known)
            .map(|percent| Percentile {
                percent: *percent,
                latency_ns: self.quantile_ns(*percent),
            })
            .collect();
        let histogram = self
            .histogram
            .iter_log(UNITS_PER_NS as u64, BUCKET_GROWTH)
            .filter(|bucket| bucket.count_since_last_iteration() > 0)
            .map(|bucket| Bucket {
                up_to_ns: bucket.value_iterated_to() as f64 / UNITS_PER_NS,
                count: bucket.count_since_last_iteration(),
            })
            .collect();
        Some(LatencyRecord {
            what: what.to_owned(),
            samples,
            timer_overhead_ns,
            mean_ns: self.sum_ns / samples as f64,
            min_ns: self.histogram.min() as f64 / UNITS_PER_NS,
            max_ns: self.histogram.max() as f64 / UNITS_PER_NS,
            percentiles,
            histogram,
            median_ns: Spread::of(medians_ns)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_in_one_bucket_and_percentiles_ascend() {
        let mut samples = Samples::new();
        for ns in 1..=10_000 {
            samples.add(f64::from(ns) * 0.7);
        }
        let record = samples.record("one access", 5.0, vec![3500.0]).unwrap();
        assert_eq!(
            record.histogram.iter().map(|b| b.count).sum::<u64>(),
            10_000
        );
        assert!(
            record
                .histogram
                .windows(2)
                .all(|b| b[0].up_to_ns < b[1].up_to_ns)
        );
        assert!(
            record
                .percentiles
                .windows(2)
                .all(|p| p[0].latency_ns <= p[1].latency_ns)
        );
        let p50 = record
            .percentiles
            .iter()
            .find(|p| p.percent == 50.0)
            .unwrap();
        assert!((p50.latency_ns - 3500.0).abs() < 8.0, "{p50:?}");
        assert!((record.mean_ns - 3500.35).abs() < 1.0);
    }

    #[test]
    fn a_percentile_needs_a_sample_beyond_it() {
        let mut samples = Samples::new();
        for ns in 1..=50 {
            samples.add(f64::from(ns));
        }
        let record = samples.record("x", 0.0, vec![25.0]).unwrap();
        let known: Vec<f64> = record.percentiles.iter().map(|p| p.percent).collect();
        assert_eq!(known, [5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0]);
        assert!(Samples::new().record("x", 0.0, vec![1.0]).is_none());
    }

    #[test]
    fn absurd_samples_are_kept_within_bounds() {
        let mut samples = Samples::new();
        for ns in [-5.0, f64::INFINITY, 1e300] {
            samples.add(ns);
        }
        let record = samples.record("x", 0.0, vec![0.0]).unwrap();
        assert_eq!((record.samples, record.min_ns), (3, 0.0));
        assert!(record.max_ns <= LONGEST_NS * 1.01);
    }
}
