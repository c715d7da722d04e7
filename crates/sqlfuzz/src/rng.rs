//! Choices.

/// A source of choices that a seed decides.
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// The choices of `seed`.
    pub fn new(seed: u64) -> Self {
        Rng(fastrand::Rng::with_seed(seed))
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// A number from `low` up to and with `high`.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        self.0.i64(low..=high)
    }

    /// True in `percent` of 100.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(..100) < percent
    }

    /// One of `items`, which are not none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// The index of one of `weights`, as often as its weight says.
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

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }
}

/// A seed that is another one in each run.
pub fn drawn() -> u64 {
    fastrand::u64(..1 << 32)
}
