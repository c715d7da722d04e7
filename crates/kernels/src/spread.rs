//! The spread of repeated measurements.

use serde::Serialize;

/// Smallest, middle and largest of some samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle one (the mean of the two middle ones for an even number).
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// How many there were.
    pub samples: usize,
}

impl Spread {
    /// The spread of `samples`, in any order; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        } else {
            sorted[middle]
        };
        Some(Self {
            min,
            median,
            max,
            samples: sorted.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_even_and_empty() {
        let of = |samples: &[f64]| {
            Spread::of(samples)
                .map(|spread| (spread.min, spread.median, spread.max, spread.samples))
        };
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0, 3)));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some((1.0, 2.5, 4.0, 4)));
        assert_eq!(of(&[]), None);
    }
}
