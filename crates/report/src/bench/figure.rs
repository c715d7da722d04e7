//! The main figure of a run, with its quantity and unit.

use crate::words;
use tierloom_record::{BenchRecord, Spread, TaskRecord};

/// The quantity that a memory benchmark measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BenchMetric {
    /// Bandwidth in GB/s; higher is better.
    Bandwidth,
    /// Latency in ns; lower is better.
    Latency,
    /// Operations per second; higher is better.
    Operations,
}

impl BenchMetric {
    /// The name in a sentence, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            BenchMetric::Bandwidth => "bandwidth",
            BenchMetric::Latency => "latency",
            BenchMetric::Operations => "operations",
        }
    }

    /// The name at the start of a heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            BenchMetric::Bandwidth => "Bandwidth",
            BenchMetric::Latency => "Latency",
            BenchMetric::Operations => "Operations",
        }
    }

    /// Whether a higher value is better.
    pub fn more_is_better(self) -> bool {
        self != BenchMetric::Latency
    }

    /// The divisor and unit that make a value easy to read.
    pub(crate) fn unit(self, value: f64) -> (f64, &'static str) {
        let value = value.abs();
        match self {
            BenchMetric::Bandwidth if value > 0.0 && value < 0.1 => (1e-3, "MB/s"),
            BenchMetric::Bandwidth => (1.0, "GB/s"),
            BenchMetric::Latency if value >= 1e9 => (1e9, "s"),
            BenchMetric::Latency if value >= 1e6 => (1e6, "ms"),
            BenchMetric::Latency if value >= 10_000.0 => (1e3, "µs"),
            BenchMetric::Latency => (1.0, "ns"),
            BenchMetric::Operations if value >= 1e9 => (1e9, "G/s"),
            BenchMetric::Operations if value >= 1e6 => (1e6, "M/s"),
            BenchMetric::Operations if value >= 1e3 => (1e3, "k/s"),
            BenchMetric::Operations => (1.0, "/s"),
        }
    }

    /// A value with its unit, "12.3 GB/s".
    pub(crate) fn text(self, value: f64) -> String {
        let (divisor, unit) = self.unit(value);
        format!("{} {unit}", words::ms(value / divisor))
    }

    /// "12.3 [12.1..12.4] GB/s", or a single value.
    pub(crate) fn spread(self, spread: &Spread) -> String {
        let (divisor, unit) = self.unit(spread.median);
        let formatted = |value: f64| words::ms(value / divisor);
        if spread.values.len() > 1 {
            let (low, high) = (formatted(spread.min), formatted(spread.max));
            format!("{} [{low}..{high}] {unit}", formatted(spread.median))
        } else {
            self.text(spread.median)
        }
    }
}

/// A figure with its repetitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure<'a> {
    pub quantity: BenchMetric,
    /// One value per repetition.
    pub spread: &'a Spread,
}

impl<'a> Figure<'a> {
    /// The main figure of a task; `None` if it has none.
    ///
    /// Throughput tasks report bandwidth first, all others latency first. A latency task also moves
    /// bytes, but its bandwidth is not what it measures.
    pub fn of(task: &'a TaskRecord) -> Option<Figure<'a>> {
        let latency = task.latency.as_ref().map(|l| Figure {
            quantity: BenchMetric::Latency,
            spread: &l.median_ns,
        });
        let bandwidth = task.bandwidth_gbps.as_ref().map(|spread| Figure {
            quantity: BenchMetric::Bandwidth,
            spread,
        });
        let operations = task.operations_per_s.as_ref().map(|spread| Figure {
            quantity: BenchMetric::Operations,
            spread,
        });
        if task.kind == "throughput" {
            bandwidth.or(operations).or(latency)
        } else {
            latency.or(operations).or(bandwidth)
        }
    }

    /// The figure of a run is that of its main task.
    pub fn of_run(record: &'a BenchRecord) -> Option<Figure<'a>> {
        Figure::of(record.tasks.first()?)
    }

    /// Smallest and largest repetition; `None` for a single one.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.spread.values.len() > 1).then_some((self.spread.min, self.spread.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_keep_figures_short() {
        assert_eq!(BenchMetric::Bandwidth.text(12.34), "12.3 GB/s");
        assert_eq!(BenchMetric::Bandwidth.text(0.0123), "12.3 MB/s");
        assert_eq!(BenchMetric::Bandwidth.text(0.0), "0.000 GB/s");
        assert_eq!(BenchMetric::Latency.text(98.76), "98.8 ns");
        assert_eq!(BenchMetric::Latency.text(2_345.6), "2,346 ns");
        assert_eq!(BenchMetric::Latency.text(45_678.0), "45.7 µs");
        assert_eq!(BenchMetric::Operations.text(12.3e6), "12.3 M/s");
    }

    #[test]
    fn a_spread_has_one_unit() {
        let spread = Spread::of(vec![9_900.0, 10_100.0, 10_300.0]).unwrap();
        assert_eq!(BenchMetric::Latency.spread(&spread), "10.1 [9.90..10.3] µs");
        let alone = Spread::of(vec![5.0]).unwrap();
        assert_eq!(BenchMetric::Bandwidth.spread(&alone), "5.00 GB/s");
    }
}
