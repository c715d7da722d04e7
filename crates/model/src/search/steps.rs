//! Choice of the next point to measure.
//!
//! Model-based optimisation: the fitted model plus interpolated residuals is the surrogate,
//! expected improvement over draws from the posterior the acquisition function, and bisection of
//! gaps the fallback when the surrogate is not to be trusted.

use super::best::simplest;
use super::correct::{Corrected, MeasuredShares};
use super::optimum::{Peak, RateOf, climb};
use super::random::SplitMix;
use super::searched::{MeasuredPoint, SearchError, SearchLimits, Searched, Why};
use super::{Problem, SIMPLER_WITHIN, Weights};
use crate::error::ModelError;

/// Standard deviation of the model error that no factor removes, so the fit never follows points
/// more closely than this.
const MODEL_NOISE: f64 = 0.01;

/// Length scale, as a share, over which the residual at one point applies to others.
const NEIGHBOURHOOD: f64 = 0.12;

/// Points whose shares differ by less are the same.
const SAME_PLACE: f64 = 0.004;

/// Distance of a point measured beside the best one, as a share.
const BESIDE: f64 = 0.15;

/// From this many points on, a model whose residuals exceed the noise by this factor is not used as
/// a guide.
const LOST_AFTER: usize = 5;
const LOST: f64 = 3.0;

/// After this many guided points in a row without a gain, one is measured without the model.
const IN_VAIN: usize = 3;

/// Widest gap that is then left beside the best point, as a share.
const LOST_REACH: f64 = 0.06;

/// Draws from the posterior per decision.
const DRAWS: usize = 16;

/// State of the search between two points.
pub(super) struct Search<'p> {
    problem: &'p Problem<'p>,
    limits: &'p SearchLimits,
    corrected: Corrected<'p>,
    pub points: Vec<MeasuredPoint>,
    seen: Vec<MeasuredShares>,
    /// Residuals of the corrected model at the points, as logarithms.
    misses: Vec<f64>,
}

impl<'p> Search<'p> {
    pub fn new(problem: &'p Problem<'p>, limits: &'p SearchLimits) -> Self {
        Search {
            problem,
            limits,
            corrected: Corrected::new(problem),
            points: Vec::new(),
            seen: Vec::new(),
            misses: Vec::new(),
        }
    }

    /// Standard deviation of a point around the corrected model: measurement noise and model error,
    /// which are independent.
    fn noise(&self) -> f64 {
        self.limits.noise.max(1e-4).hypot(MODEL_NOISE)
    }

    pub fn take(&mut self, weights: Weights, rate: f64, why: Why) -> Result<(), ModelError> {
        let shares = weights.shares_of(&self.problem.tiers);
        let modelled = self.problem.rate_on(self.problem.machine, &shares)?;
        // Logarithms, because errors of rates are relative.
        self.seen.push((shares, rate.ln()));
        self.points.push(MeasuredPoint {
            weights,
            rate,
            modelled,
            why,
        });
        self.corrected.fit(&self.seen, self.noise())?;
        self.misses = self.corrected.residuals(&self.seen)?;
        Ok(())
    }

    fn misfit(&self) -> f64 {
        let squares: f64 = self.misses.iter().map(|m| m * m).sum();
        (squares / self.misses.len().max(1) as f64).sqrt()
    }

    /// Index of the best point and the logarithm of its rate.
    ///
    /// Rates are shrunk towards the corrected model by the ratio of variances,
    /// `misfit^2 / (misfit^2 + noise^2)`, so that a lucky measurement does not win.
    fn leader(&self) -> (usize, f64) {
        let trust = self.misfit().max(MODEL_NOISE).powi(2);
        let trust = trust / (trust + self.limits.noise.powi(2));
        let mut best = (0, f64::NEG_INFINITY);
        for (i, ((_, log), miss)) in self.seen.iter().zip(&self.misses).enumerate() {
            let drawn = log - miss + trust * miss;
            if drawn > best.1 {
                best = (i, drawn);
            }
        }
        best
    }

    /// Next point to measure; `None` if no point promises a gain.
    pub fn next(&mut self) -> Result<Option<(Weights, Why)>, ModelError> {
        if self.points.is_empty() {
            let problem = self.problem;
            let mut rate = |s: &[f64]| problem.rate_on(problem.machine, s);
            let peak = climb(problem.tiers.len(), &mut rate)?;
            let weights = round(problem, &peak, &mut rate)?;
            return Ok(Some((weights, Why::Model)));
        }
        let first = self.problem.on_first()?;
        // Gains are relative to this point, and it is the safe choice if interleaving does not pay.
        if self.points.len() == 1 && self.points[0].weights != first {
            return Ok(Some((first, Why::First)));
        }
        if self.problem.tiers.len() == 1 {
            return Ok(None);
        }
        if self.is_lost()
            && let Some(weights) = self.beside()?
        {
            return Ok(Some((weights, Why::Beside)));
        }
        if let Some(weights) = self.promising()? {
            return Ok(Some((weights, Why::Corrected)));
        }
        if let Some(weights) = self.expected_improvement()? {
            return Ok(Some((weights, Why::ExpectedImprovement)));
        }
        Ok(self.beside()?.map(|weights| (weights, Why::Beside)))
    }

    /// True if the model is not a guide any more.
    ///
    /// Either it still misses the points by much more than noise after [`LOST_AFTER`] of them, or
    /// the last points it asked for gained nothing.
    fn is_lost(&self) -> bool {
        let since_best = self.points.len() - 1 - self.leader().0;
        let guided = self
            .points
            .iter()
            .rev()
            .take_while(|p| p.why != Why::Beside);
        let in_vain = since_best.min(guided.count()) >= IN_VAIN;
        in_vain || (self.points.len() >= LOST_AFTER && self.misfit() > LOST * self.noise())
    }

    /// Best weights of the corrected model, if they are new and promise a sufficient gain over the
    /// best point.
    fn promising(&mut self) -> Result<Option<Weights>, ModelError> {
        let (_, leading) = self.leader();
        let (problem, seen, misses) = (self.problem, &self.seen, &self.misses);
        let corrected = &mut self.corrected;
        let mut rate = |s: &[f64]| Ok(corrected.rate(s)? * nearby(seen, misses, s).exp());
        let peak = climb(problem.tiers.len(), &mut rate)?;
        let weights = round(problem, &peak, &mut rate)?;
        let shares = weights.shares_of(&problem.tiers);
        let gain = rate(&shares)?.ln() - leading;
        let is_new = seen.iter().all(|(s, _)| distance(s, &shares) > SAME_PLACE);
        Ok((is_new && gain > self.limits.enough).then_some(weights))
    }

    /// Weights with the largest expected improvement over the best point.
    ///
    /// The expectation is over draws from the posterior (J. Mockus, "On Bayesian Methods for
    /// Seeking the Extremum", 1974). The candidates are the best weights of each draw.
    fn expected_improvement(&mut self) -> Result<Option<Weights>, ModelError> {
        let leader = self.seen[self.leader().0].0.clone();
        let mut random = SplitMix::new(self.points.len() as u64);
        let draws = self.corrected.draws(DRAWS, &mut random);
        let (problem, seen, misses) = (self.problem, &self.seen, &self.misses);
        let corrected = &mut self.corrected;
        let mut proposed = Vec::with_capacity(DRAWS);
        for logs in &draws {
            corrected.suppose(logs);
            let mut rate = |s: &[f64]| Ok(corrected.rate(s)? * nearby(seen, misses, s).exp());
            proposed.push(climb(problem.tiers.len(), &mut rate)?.shares);
        }
        proposed.retain(|p| seen.iter().all(|(s, _)| distance(s, p) > SAME_PLACE));
        // Every draw evaluates every candidate, so that the candidate of one extreme draw does not
        // win.
        let mut gains = vec![0.0; proposed.len()];
        for logs in &draws {
            corrected.suppose(logs);
            let leading = corrected.rate(&leader)?.ln() + nearby(seen, misses, &leader);
            for (gain, shares) in gains.iter_mut().zip(&proposed) {
                let here = corrected.rate(shares)?.ln() + nearby(seen, misses, shares);
                *gain += (here - leading).max(0.0) / DRAWS as f64;
            }
        }
        corrected.settle();
        let most = gains
            .iter()
            .zip(&proposed)
            .max_by(|a, b| a.0.total_cmp(b.0));
        match most {
            Some((gain, shares)) if *gain > self.limits.enough => {
                let weights = fine(problem, shares)?;
                let shares = weights.shares_of(&problem.tiers);
                let is_new = seen.iter().all(|(s, _)| distance(s, &shares) > SAME_PLACE);
                Ok(is_new.then_some(weights))
            }
            _ => Ok(None),
        }
    }

    /// A point in the widest gap beside the best one, if the gap is too wide.
    ///
    /// Where the model fits its points, it is trusted in between and a gap may be half of the
    /// shares; else gaps are halved, so that the search converges to a maximum without a model.
    fn beside(&self) -> Result<Option<Weights>, ModelError> {
        let here = &self.seen[self.leader().0].0;
        // Allowed gap, and longest step into one. A model that is lost limits no step, so gaps are
        // bisected.
        let (reach, longest) = if self.is_lost() {
            (LOST_REACH, 1.0)
        } else if self.misfit() > 2.0 * self.noise() {
            (BESIDE, BESIDE)
        } else {
            (0.5, BESIDE)
        };
        let mut gaps = Vec::new();
        for tier in (0..here.len()).rev() {
            for side in [1.0, -1.0] {
                let room = if side > 0.0 {
                    1.0 - here[tier]
                } else {
                    here[tier]
                };
                let measured = self.seen.iter().map(|(s, _)| (s[tier] - here[tier]) * side);
                let nearest = measured
                    .filter(|d| *d > SAME_PLACE)
                    .fold(f64::INFINITY, f64::min);
                if room > SAME_PLACE && nearest > reach {
                    gaps.push((nearest.min(room), tier, side));
                }
            }
        }
        gaps.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (gap, tier, side) in gaps {
            let step = longest.min(0.5 * gap).max(SAME_PLACE.min(gap));
            let shares = with_share(here, tier, here[tier] + side * step);
            let weights = coarse(self.problem, &shares)?;
            let shares = weights.shares_of(&self.problem.tiers);
            if self
                .seen
                .iter()
                .all(|(s, _)| distance(s, &shares) > SAME_PLACE)
            {
                return Ok(Some(weights));
            }
        }
        Ok(None)
    }

    pub fn finish<E>(mut self, is_sure: bool) -> Result<Searched, SearchError<E>> {
        if self.points.is_empty() {
            return Err(SearchError::NoPoints);
        }
        let best = &self.points[self.leader().0];
        Ok(Searched {
            weights: best.weights.clone(),
            rate: best.rate,
            factors: self.corrected.factors(),
            machine: self.corrected.machine().clone(),
            misfit: self.misfit(),
            points: self.points,
            is_sure,
        })
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    0.5 * a.iter().zip(b).map(|(x, y)| (x - y).abs()).sum::<f64>()
}

/// Interpolated residual at `shares`: a Gaussian kernel mean over the points, which tends to 0 away
/// from all of them.
fn nearby(seen: &[MeasuredShares], misses: &[f64], shares: &[f64]) -> f64 {
    // The constant acts as a prior point of residual 0 with weight 0.3.
    let (mut sum, mut weights) = (0.0, 0.3);
    for ((at, _), miss) in seen.iter().zip(misses) {
        let weight = (-(distance(at, shares) / NEIGHBOURHOOD).powi(2)).exp();
        sum += weight * miss;
        weights += weight;
    }
    sum / weights
}

/// The shares with that of one tier changed; the others keep their ratios.
fn with_share(shares: &[f64], tier: usize, share: f64) -> Vec<f64> {
    let rest = 1.0 - shares[tier];
    let others = shares.len() - 1;
    let scaled = |i: usize, s: f64| match i {
        i if i == tier => share,
        _ if rest > 0.0 => s * (1.0 - share) / rest,
        _ => (1.0 - share) / others as f64,
    };
    shares
        .iter()
        .enumerate()
        .map(|(i, s)| scaled(i, *s))
        .collect()
}

/// Small weights, at most 60 each, that match the shares within [`SAME_PLACE`].
fn fine(problem: &Problem<'_>, shares: &[f64]) -> Result<Weights, ModelError> {
    let mut off = |s: &[f64]| Ok(1.0 - distance(s, shares));
    let peak = Peak {
        shares: shares.to_vec(),
        rate: 1.0,
    };
    simplest(
        &problem.tiers,
        problem.max_weight.min(60),
        &peak,
        SAME_PLACE,
        &mut off,
    )
}

/// Small weights near the shares: a point beside the best one need not be exact.
fn coarse(problem: &Problem<'_>, shares: &[f64]) -> Result<Weights, ModelError> {
    let total = 20.0_f64.min(f64::from(problem.max_weight));
    let weights = shares.iter().map(|s| (s * total).round() as u32);
    Weights::new(problem.tiers.iter().cloned().zip(weights))
}

/// Weights with the smallest sum whose rate is close to that of the peak.
fn round(problem: &Problem<'_>, peak: &Peak, rate: &mut RateOf<'_>) -> Result<Weights, ModelError> {
    let (tiers, max) = (&problem.tiers, problem.max_weight);
    simplest(tiers, max, peak, 2.0 * SIMPLER_WITHIN, rate)
}
