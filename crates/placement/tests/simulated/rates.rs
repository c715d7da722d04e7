//! Confidence bounds of rates of rare events.

/// Binomial probability of at most `events` events in `trials` trials.
fn at_most(events: u64, trials: u64, rate: f64) -> f64 {
    let (n, p) = (trials as f64, rate.clamp(1e-300, 1.0 - 1e-15));
    // Each term follows from the previous one; in logarithms, as binomial coefficients overflow.
    let mut ln_term = n * (-p).ln_1p();
    let mut sum = ln_term.exp();
    for k in 1..=events {
        let k = k as f64;
        ln_term += ((n - k + 1.0) / k).ln() + p.ln() - (-p).ln_1p();
        sum += ln_term.exp();
    }
    sum.min(1.0)
}

/// One-sided upper confidence bound of a rate.
///
/// Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the
/// Binomial", Biometrika 26(4), 1934.
pub fn upper(events: u64, trials: u64, confidence: f64) -> f64 {
    if events >= trials {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if at_most(events, trials, middle) > 1.0 - confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[test]
fn the_bound_is_the_published_one() {
    // No event: 1 - (1 - confidence)^(1/n); the rule of three.
    assert!((upper(0, 30_000, 0.95) - 9.985e-5).abs() < 1e-7);
    // Published tables of the interval: 1 of 10, one-sided 95%.
    assert!((upper(1, 10, 0.95) - 0.3942).abs() < 1e-4);
    assert!((upper(5, 1000, 0.95) - 0.010_485).abs() < 1e-5);
    assert_eq!(upper(3, 3, 0.95), 1.0);
}
