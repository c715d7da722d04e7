//! Noise of measured times, estimated from repeated measurements.

/// Weight of the prior, in number of observed differences.
const EXPECTED_COUNTS: f64 = 6.0;

/// Number of differences kept; older ones are overwritten.
const REMEMBERED: usize = 200;

/// Standard deviation of a normal distribution over its median absolute deviation.
const OF_MEDIAN: f64 = 1.4826;

/// Lower limit of the estimate, as a share of the prior.
///
/// A few lucky repeats must not make noise look negligible.
const LEAST: f64 = 0.5;

/// Estimator of the relative standard deviation of a single measurement, from repeated ones.
///
/// It uses the median absolute difference, so that a few outliers (another program ran, many page
/// faults) do not inflate the estimate.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    expected: f64,
    differences: Vec<f64>,
    next: usize,
}

impl Noise {
    pub fn new(expected: f64) -> Self {
        Noise {
            expected,
            differences: Vec::new(),
            next: 0,
        }
    }

    /// Adds two measurements of the same quantity, as logarithms.
    pub fn note(&mut self, one: f64, other: f64) {
        // The difference of two independent measurements has twice the variance of one.
        let difference = (one - other).abs() / std::f64::consts::SQRT_2;
        if self.differences.len() < REMEMBERED {
            self.differences.push(difference);
        } else {
            self.differences[self.next] = difference;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    /// Estimated standard deviation of one measurement, prior included.
    pub fn std_dev(&self) -> f64 {
        let count = self.differences.len() as f64;
        let own = OF_MEDIAN * median(&mut self.differences.clone()).unwrap_or(0.0);
        let squares = EXPECTED_COUNTS * self.expected.powi(2) + count * own * own;
        let std_dev = (squares / (EXPECTED_COUNTS + count)).sqrt();
        std_dev.max(LEAST * self.expected)
    }
}

/// Median, the mean of the middle two for an even count; `None` for an empty slice.
pub(super) fn median(numbers: &mut [f64]) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        count if count % 2 == 1 => Some(numbers[middle]),
        _ => Some(0.5 * (numbers[middle - 1] + numbers[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::search::SplitMix;

    #[test]
    fn noise_is_estimated_from_the_times_and_a_few_outliers_do_not_hide_it() {
        let mut random = SplitMix::new(7);
        for (true_std_dev, outliers) in [(0.002, 0.0), (0.01, 0.05), (0.05, 0.05)] {
            let mut noise = Noise::new(0.01);
            assert_eq!(noise.std_dev(), 0.01);
            for _ in 0..150 {
                let mut time = || {
                    let slow = if random.uniform() < outliers {
                        0.3
                    } else {
                        0.0
                    };
                    slow + true_std_dev * random.normal()
                };
                let (one, other) = (time(), time());
                noise.note(one, other);
            }
            let ratio = noise.std_dev() / true_std_dev.max(0.005);
            assert!((0.75..1.4).contains(&ratio), "{true_std_dev}: {ratio}");
        }
    }
}
