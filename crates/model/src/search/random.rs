//! Seeded pseudorandom numbers, so that results are the same in every run.

/// SplitMix64 generator (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
/// OOPSLA 2014).
///
/// Good enough for sampling, unsuitable for cryptography.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Generator with this seed; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Self {
        SplitMix(seed)
    }

    /// Next 64 bits, uniform over all values.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform on [0, 1), with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box-Muller transform; the second number of each pair is dropped).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// 0 to `count - 1` in random order (Fisher-Yates shuffle).
    pub(super) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            let other = (self.uniform() * (i + 1) as f64) as usize;
            order.swap(i, other.min(i));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_published_ones_spread_evenly() {
        // First outputs for seed 1234567 of the authors' reference code.
        let mut random = SplitMix::new(1234567);
        assert_eq!(random.next_u64(), 6457827717110365317);
        assert_eq!(random.next_u64(), 3203168211198807973);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..10_000 {
            let x = random.normal();
            (sum, squares) = (sum + x, squares + x * x);
        }
        assert!((sum / 1e4).abs() < 0.05 && (squares / 1e4 - 1.0).abs() < 0.05);
    }

    #[test]
    fn shuffling_keeps_every_number() {
        let mut order = SplitMix::new(1).shuffled(50);
        assert_ne!(order, (0..50).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
