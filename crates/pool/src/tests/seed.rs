//! Random numbers that are drawn anew in every run and can be drawn again.

/// Environment variable with the seed of an earlier run.
const SEED: &str = "TIERLOOM_POOL_SEED";

/// A generator whose seed is printed, so that a failure shows it.
pub(crate) fn rng(test: &str) -> fastrand::Rng {
    let given = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("{test}: {SEED}={seed}");
    fastrand::Rng::with_seed(seed)
}
