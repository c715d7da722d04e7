//! The random number generator.

/// A pseudorandom generator. All choices of a case follow from its seed.
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Rng(fastrand::Rng::with_seed(seed))
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        self.0.i64(low..=high)
    }

    /// True with a probability of `percent` per cent.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(..100) < percent
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// An index into `weights`, chosen with a probability proportional to its weight.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.0.f64() * weights.iter().sum::<f64>();
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.len() - 1
    }

    /// 64 random bits, for example as a seed.
    pub fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }
}

/// A seed that is different in each run.
pub fn drawn() -> u64 {
    fastrand::u64(..1 << 32)
}
