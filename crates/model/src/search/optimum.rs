//! Maximum of a rate over real-valued shares: a grid, then golden-section or pattern search.
//!
//! The objective is treated as a black box without derivatives, because it has kinks where a tier
//! saturates.

use crate::error::ModelError;

/// Shares of the tiers in the order of the problem, and the rate there.
#[derive(Debug, Clone)]
pub(super) struct Peak {
    pub shares: Vec<f64>,
    pub rate: f64,
}

/// Objective: the rate at shares that sum to 1.
pub(super) type RateOf<'f> = dyn FnMut(&[f64]) -> Result<f64, ModelError> + 'f;

/// Resolution of a share.
///
/// It is fine because of small tiers: once one is full, the rate falls in proportion to its share.
const SHARE_STEP: f64 = 5e-5;

/// Steps of the grid over the share of the second of two tiers.
const GRID: usize = 16;

/// Local maxima of the grid below this part of the highest one are not refined.
const WORTH_CLIMBING: f64 = 0.9;

/// Best shares of `tiers` tiers.
///
/// Two tiers take about 40 evaluations, three about 200, four about 400.
pub(super) fn climb(tiers: usize, rate: &mut RateOf<'_>) -> Result<Peak, ModelError> {
    match tiers {
        1 => Ok(Peak {
            rate: rate(&[1.0])?,
            shares: vec![1.0],
        }),
        2 => along_a_line(rate),
        _ => in_a_simplex(tiers, rate),
    }
}

/// Two tiers: golden-section search around every local maximum of a grid.
///
/// A maximum that is narrower than a step of the grid can be missed.
fn along_a_line(rate: &mut RateOf<'_>) -> Result<Peak, ModelError> {
    let mut at = |share: f64| rate(&[1.0 - share, share]);
    let grid: Vec<f64> = (0..=GRID)
        .map(|i| at(i as f64 / GRID as f64))
        .collect::<Result<_, _>>()?;
    let top = grid.iter().copied().fold(0.0, f64::max);
    // The grid includes both ends of the interval, which golden section never evaluates.
    let mut best = (0.0, grid[0]);
    for (i, here) in grid.iter().copied().enumerate() {
        let step = |to: usize| to as f64 / GRID as f64;
        if here > best.1 {
            best = (step(i), here);
        }
        let (left, right) = (i.saturating_sub(1), (i + 1).min(GRID));
        // Of a plateau, only the left end counts, so that it is refined once.
        let is_hill = grid[right] <= here && (i == 0 || grid[left] < here);
        if is_hill && here >= WORTH_CLIMBING * top {
            let found = golden(&mut at, step(left), step(right))?;
            if found.1 > best.1 {
                best = found;
            }
        }
    }
    Ok(Peak {
        shares: vec![1.0 - best.0, best.0],
        rate: best.1,
    })
}

/// Golden-section search (J. Kiefer, "Sequential Minimax Search for a Maximum", Proceedings of the
/// AMS 4, 1953): place and value.
fn golden(
    at: &mut dyn FnMut(f64) -> Result<f64, ModelError>,
    mut low: f64,
    mut high: f64,
) -> Result<(f64, f64), ModelError> {
    let ratio = 0.5 * (5f64.sqrt() - 1.0);
    let (mut a, mut b) = (high - ratio * (high - low), low + ratio * (high - low));
    let (mut rate_a, mut rate_b) = (at(a)?, at(b)?);
    while high - low > SHARE_STEP {
        if rate_a >= rate_b {
            (high, b, rate_b) = (b, a, rate_a);
            a = high - ratio * (high - low);
            rate_a = at(a)?;
        } else {
            (low, a, rate_a) = (a, b, rate_b);
            b = low + ratio * (high - low);
            rate_b = at(b)?;
        }
    }
    Ok(if rate_a >= rate_b {
        (a, rate_a)
    } else {
        (b, rate_b)
    })
}

/// Three or more tiers: pattern search from the two best points of a coarse grid, with the step
/// halved when no move helps.
///
/// A move takes from some tiers in proportion to their shares and gives to others likewise. Moves
/// between single tiers would get stuck where two tiers are saturated at once.
fn in_a_simplex(tiers: usize, rate: &mut RateOf<'_>) -> Result<Peak, ModelError> {
    // 28 grid points for three tiers, 35 for four.
    let steps = if tiers == 3 { 6 } else { 4 };
    let mut starts = Vec::new();
    for counts in compositions(tiers, steps) {
        let shares: Vec<f64> = counts
            .iter()
            .map(|c| f64::from(*c) / f64::from(steps))
            .collect();
        starts.push(Peak {
            rate: rate(&shares)?,
            shares,
        });
    }
    starts.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let mut best: Option<Peak> = None;
    let top = starts[0].rate;
    for start in starts
        .into_iter()
        .take(2)
        .filter(|s| s.rate >= WORTH_CLIMBING * top)
    {
        // Half a grid step, because the neighbours on the grid have been evaluated.
        let peak = step_up(start, 0.5 / f64::from(steps), rate)?;
        if best.as_ref().is_none_or(|b| peak.rate > b.rate) {
            best = Some(peak);
        }
    }
    Ok(best.unwrap_or_else(|| Peak {
        shares: vec![1.0 / tiers as f64; tiers],
        rate: 0.0,
    }))
}

fn step_up(mut here: Peak, mut step: f64, rate: &mut RateOf<'_>) -> Result<Peak, ModelError> {
    let tiers = here.shares.len();
    while step > SHARE_STEP {
        let mut next: Option<Peak> = None;
        for (from, to) in moves(tiers) {
            let Some(shares) = shift(&here.shares, &from, &to, step) else {
                continue;
            };
            let height = rate(&shares)?;
            // Require a minimum gain: smaller ones would lead along a plateau without end.
            let least = next.as_ref().map_or(here.rate * (1.0 + 1e-6), |n| n.rate);
            if height > least {
                next = Some(Peak {
                    shares,
                    rate: height,
                });
            }
        }
        match next {
            Some(peak) => here = peak,
            None => step *= 0.5,
        }
    }
    Ok(here)
}

/// Moves as (givers, takers): single tiers, and every set of tiers with its complement.
fn moves(tiers: usize) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut moves = Vec::new();
    for from in 0..tiers {
        for to in (0..tiers).filter(|to| *to != from) {
            moves.push((vec![from], vec![to]));
        }
    }
    for set in 1..(1usize << tiers) - 1 {
        let (from, to): (Vec<usize>, Vec<usize>) = (0..tiers).partition(|i| set >> i & 1 == 1);
        if from.len() > 1 || to.len() > 1 {
            moves.push((from, to));
        }
    }
    moves
}

/// Shifts `amount` from `from` to `to`, each side in proportion to its shares (evenly if it has
/// none); `None` if `from` is empty.
fn shift(shares: &[f64], from: &[usize], to: &[usize], amount: f64) -> Option<Vec<f64>> {
    let sum = |of: &[usize]| of.iter().map(|i| shares[*i]).sum::<f64>();
    let (have, get) = (sum(from), sum(to));
    if have <= 0.0 {
        return None;
    }
    let amount = amount.min(have);
    let mut moved = shares.to_vec();
    for i in from {
        moved[*i] = (moved[*i] - amount * shares[*i] / have).max(0.0);
    }
    for i in to {
        moved[*i] += amount
            * if get > 0.0 {
                shares[*i] / get
            } else {
                1.0 / to.len() as f64
            };
    }
    Some(moved)
}

/// All ways to write `total` as an ordered sum of `parts` numbers from 0.
pub(super) fn compositions(parts: usize, total: u32) -> Vec<Vec<u32>> {
    if parts <= 1 {
        return vec![vec![total]];
    }
    let mut all = Vec::new();
    for first in 0..=total {
        for mut rest in compositions(parts - 1, total - first) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compositions_are_complete() {
        assert_eq!(compositions(3, 6).len(), 28);
        assert_eq!(compositions(4, 4).len(), 35);
        assert!(
            compositions(4, 4)
                .iter()
                .all(|c| c.iter().sum::<u32>() == 4)
        );
    }

    #[test]
    fn the_top_of_full_tiers_is_found_wherever_it_is() {
        // A saturated machine: the fullest tier decides. The maximum is where shares are in the
        // ratio of the peaks.
        for peaks in [
            vec![100.0, 3.0],
            vec![50.0, 50.0],
            vec![10.0, 90.0, 35.0],
            vec![270.0, 8.0, 60.0, 30.0],
        ] {
            let sum: f64 = peaks.iter().sum();
            let mut evaluations = 0;
            let mut rate = |shares: &[f64]| {
                evaluations += 1;
                let full = shares
                    .iter()
                    .zip(&peaks)
                    .map(|(s, p)| if *s > 0.0 { p / s } else { f64::INFINITY });
                Ok(full.fold(f64::INFINITY, f64::min))
            };
            let peak = climb(peaks.len(), &mut rate).unwrap();
            assert!(peak.rate > sum * 0.999, "{peaks:?}: {peak:?}");
            assert!(evaluations < 1500, "{peaks:?}: {evaluations}");
        }
    }

    #[test]
    fn the_higher_of_two_hills_is_climbed() {
        let hill =
            |x: f64, at: f64, height: f64| height * (1.0 - ((x - at) * 6.0).powi(2)).max(0.0);
        let mut rate = |s: &[f64]| Ok(1.0 + hill(s[1], 0.21, 1.0) + hill(s[1], 0.74, 1.02));
        let peak = climb(2, &mut rate).unwrap();
        assert!((peak.shares[1] - 0.74).abs() < 1e-3, "{peak:?}");
    }
}
