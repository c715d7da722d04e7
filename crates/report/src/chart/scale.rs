//! Linear and logarithmic axes: the mapping from values to pixels, and ticks.

/// A logarithmic axis over positive values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogScale {
    low: f64,
    high: f64,
    from: i32,
    to: i32,
}

impl LogScale {
    /// Maps `low` to pixel `from` and `high` to pixel `to`; both values are positive and differ.
    pub fn new((low, high): (f64, f64), (from, to): (i32, i32)) -> LogScale {
        LogScale {
            low,
            high,
            from,
            to,
        }
    }

    /// The pixel of a value, limited to the ends of the axis.
    pub fn pixel(&self, value: f64) -> i32 {
        let share = ((value / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0);
        self.from + (share * f64::from(self.to - self.from)).round() as i32
    }

    /// Ticks of a ratio axis, at least `apart` pixels from each other: 1 always, then round values.
    pub fn ratio_ticks(&self, apart: i32) -> Vec<f64> {
        let mut candidates = vec![
            1.0, 2.0, 0.5, 4.0, 0.25, 8.0, 0.125, 1.5, 0.75, 1.25, 0.8, 3.0, 0.3, 0.4, 1.1, 0.9,
            1.05, 0.95, 1.02, 0.98, 1.01, 0.99,
        ];
        candidates.extend((4..40).flat_map(|power| [2f64.powi(power), 0.5f64.powi(power)]));
        let mut chosen: Vec<f64> = Vec::new();
        for tick in candidates {
            let clear = chosen
                .iter()
                .all(|other| (self.pixel(*other) - self.pixel(tick)).abs() >= apart);
            if tick >= self.low && tick <= self.high && clear {
                chosen.push(tick);
            }
        }
        chosen.sort_by(f64::total_cmp);
        chosen
    }

    /// Powers of ten, then 2, 5 and other multiples where there is room, at least `apart` pixels
    /// apart.
    fn decade_ticks(&self, apart: i32) -> Vec<f64> {
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        let mut chosen: Vec<f64> = Vec::new();
        for digit in [1.0, 2.0, 5.0, 3.0, 1.5, 4.0, 7.0] {
            for tick in (first..=last).map(|power| digit * 10f64.powi(power)) {
                let clear = chosen
                    .iter()
                    .all(|other| (self.pixel(*other) - self.pixel(tick)).abs() >= apart);
                if tick >= self.low && tick <= self.high && clear {
                    chosen.push(tick);
                }
            }
        }
        chosen.sort_by(f64::total_cmp);
        chosen
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Scale {
    Linear {
        low: f64,
        /// Value at pixel `to`; differs from `low`.
        high: f64,
        from: i32,
        to: i32,
    },
    Log(LogScale),
}

impl Scale {
    /// The pixel of a value, limited to the ends of the axis.
    pub fn pixel(&self, value: f64) -> i32 {
        match *self {
            Scale::Linear {
                low,
                high,
                from,
                to,
            } => {
                let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
                from + (share * f64::from(to - from)).round() as i32
            }
            Scale::Log(scale) => scale.pixel(value),
        }
    }

    /// Round values at least `apart` pixels from each other, ascending.
    pub fn ticks(&self, apart: i32) -> Vec<f64> {
        match *self {
            Scale::Linear {
                low,
                high,
                from,
                to,
            } => {
                let most = f64::from(((to - from).abs() / apart).max(1));
                let step = round_step((high - low) / most);
                let first = (low / step).ceil();
                // Multiples of the step instead of sums, so that no label is 0.30000000000000004.
                (0..=most as u32)
                    .map(|i| (first + f64::from(i)) * step)
                    .filter(|tick| tick.is_finite() && *tick <= high * (1.0 + 1e-9))
                    .collect()
            }
            Scale::Log(scale) => scale.decade_ticks(apart),
        }
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// The range of positive values with a margin; it always contains 1 and is never empty.
pub(crate) fn range_around_one(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (1.0f64, 1.0f64);
    for value in values.into_iter().filter(|v| v.is_finite() && *v > 0.0) {
        low = low.min(value);
        high = high.max(value);
    }
    // The range is at least 10% wide: differences of a few per cent must not fill the chart.
    ((low * 0.98).min(0.95), (high * 1.02).max(1.05))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_are_equally_far_from_one() {
        let scale = LogScale::new((0.25, 4.0), (0, 400));
        assert_eq!(
            (scale.pixel(0.5), scale.pixel(1.0), scale.pixel(2.0)),
            (100, 200, 300)
        );
        assert_eq!((scale.pixel(0.0), scale.pixel(100.0)), (0, 400));
    }

    #[test]
    fn ticks_keep_their_distance_and_name_one() {
        for range in [(0.95, 1.05), (0.5, 2.0), (0.01, 300.0), (0.9, 1e9)] {
            let scale = LogScale::new(range, (0, 400));
            let ticks = scale.ratio_ticks(40);
            assert!(ticks.contains(&1.0), "{range:?}: {ticks:?}");
            assert!(
                ticks
                    .windows(2)
                    .all(|t| scale.pixel(t[1]) - scale.pixel(t[0]) >= 40),
                "{range:?}: {ticks:?}"
            );
        }
    }

    #[test]
    fn linear_ticks_are_round_and_inside() {
        for (low, high) in [(0.0, 31.7), (0.0, 0.0042), (0.0, 9e7), (250.0, 700.0)] {
            let (from, to) = (272, 14);
            let scale = Scale::Linear {
                low,
                high,
                from,
                to,
            };
            let ticks = scale.ticks(30);
            assert!((3..=9).contains(&ticks.len()), "{low}..{high}: {ticks:?}");
            assert!(ticks.iter().all(|t| (low..=high * 1.001).contains(t)));
            assert!(
                ticks
                    .windows(2)
                    .all(|t| scale.pixel(t[0]) - scale.pixel(t[1]) >= 29),
                "{ticks:?}"
            );
        }
    }

    #[test]
    fn decades_come_first_on_a_logarithmic_axis() {
        let scale = Scale::Log(LogScale::new((80.0, 120_000.0), (0, 300)));
        let ticks = scale.ticks(60);
        assert_eq!(ticks, [100.0, 1000.0, 10_000.0, 100_000.0]);
        assert!(scale.ticks(20).contains(&200.0));
    }

    #[test]
    fn the_range_of_nothing_and_of_nonsense_is_still_a_range() {
        let (low, high) = range_around_one([f64::NAN, -1.0, 0.0]);
        assert!(low < 1.0 && high > 1.0);
    }
}
