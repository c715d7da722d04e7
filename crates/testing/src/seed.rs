//! Seeds that are drawn anew in every run and can be drawn again.

use std::hash::{BuildHasher, RandomState};

/// Environment variable with the seed of an earlier run.
const SEED: &str = "TIERLOOM_SEED";

/// A new seed in each run, which is printed, or the one in `TIERLOOM_SEED`.
///
/// # Panics
/// If the variable is not a number.
pub fn seed() -> u64 {
    // The standard library has no random numbers, but seeds its hash maps at random.
    let seed = number(SEED).unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    eprintln!("{SEED}={seed} repeats this run");
    seed
}

/// The number in an environment variable, if it is set.
///
/// # Panics
/// If it is not a number.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number")))
}
