//! Statistics of repeated measurements of one quantity.

use serde::{Deserialize, Serialize};

/// Repeated values of one quantity with their minimum, median and maximum.
///
/// All values are kept, so that a reader can apply other statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Minimum over all repetitions.
    pub min: f64,
    /// Median of `values`; the mean of the two middle ones for an even count.
    pub median: f64,
    /// Maximum over all repetitions.
    pub max: f64,
    /// All values, in the order they were measured.
    pub values: Vec<f64>,
}

impl Spread {
    /// The spread of `values`; `None` if there are none, or one is not finite.
    pub fn of(values: Vec<f64>) -> Option<Spread> {
        if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Spread {
            min: sorted[0],
            median,
            max: sorted[sorted.len() - 1],
            values,
        })
    }

    /// Range relative to the median: (max - min) / median.
    pub fn relative_range(&self) -> f64 {
        (self.max - self.min) / self.median
    }
}

/// The geometric mean of positive values; `None` if there are none, or one is not positive.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        if value.is_nan() || value <= 0.0 {
            return None;
        }
        sum += value.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_count_lies_between_the_middle_values() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.5, 4.0));
        assert_eq!(spread.values, [4.0, 1.0, 3.0, 2.0]);
    }

    #[test]
    fn nothing_and_not_a_number_have_no_spread_and_no_mean() {
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(Spread::of(vec![1.0, f64::NAN]), None);
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([2.0, 0.0]), None);
        assert!((geometric_mean([2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
    }
}
