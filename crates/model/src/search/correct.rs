//! Correction of a machine profile by measured rates: a few factors on its numbers, fitted as a MAP
//! estimate.
//!
//! Each factor has a log-normal prior around 1; each measured rate is log-normal around the
//! model's. The fit maximises the posterior with Gauss-Newton steps, and the inverse of the matrix
//! of the normal equations approximates the posterior covariance (Laplace).

use super::Problem;
use super::linear::Cholesky;
use super::random::SplitMix;
use crate::error::ModelError;
use crate::machine::{Machine, Value};
use crate::work::Phase;

/// A fitted factor on numbers of the profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Factor {
    /// Scaled quantity, as text ("peak of cxl", "lines in flight").
    pub name: String,
    /// Posterior mode; 1 if the measurements agree with the profile.
    pub factor: f64,
    /// Posterior standard deviation of the logarithm of the factor.
    pub uncertainty: f64,
}

/// Numbers of the profile that share one factor.
#[derive(Debug, Clone, Copy)]
enum Scaled {
    /// Peak bandwidths of a tier.
    Peak(usize),
    /// Idle latency of a tier, switches and ownership included.
    Latency(usize),
    /// Rise of its latency under load: (ratio at peak - 1).
    Rise(usize),
    /// Lines in flight of all kinds of access.
    Lines,
    /// Compute time, latency of the last-level cache, page walks.
    Processor,
}

impl Scaled {
    fn name(self, machine: &Machine) -> String {
        let tier = |i: usize| machine.tiers.get(i).map_or("", |t| t.name.as_str());
        match self {
            Scaled::Peak(i) => format!("peak of {}", tier(i)),
            Scaled::Latency(i) => format!("latency of {}", tier(i)),
            Scaled::Rise(i) => format!("rise of the latency of {} under load", tier(i)),
            Scaled::Lines => "lines in flight".into(),
            Scaled::Processor => "processor time".into(),
        }
    }

    /// Standard deviation of the prior on the logarithm of the factor.
    fn prior(self) -> f64 {
        match self {
            Scaled::Peak(_) | Scaled::Latency(_) => 0.15,
            Scaled::Rise(_) => 0.3,
            Scaled::Lines | Scaled::Processor => 0.2,
        }
    }
}

/// Step of the finite differences, on logarithms.
const STEP: f64 = 0.01;

/// Gauss-Newton steps for each new point. Few suffice: the fit starts where the last one ended.
const FIT_STEPS: usize = 3;

/// Random starts where a fit misses its points, and how many of the best are followed.
const STARTS: usize = 48;
const DESCENTS: usize = 3;

/// A fit misses its points if the root of the sum of the squared residuals exceeds the noise by
/// this factor.
const MISSED: f64 = 2.0;

/// Limit on the logarithm of a factor: between 1/7 and 7. Beyond that it is a different machine.
const FURTHEST: f64 = 2.0;

/// A fit has converged when no logarithm moves by more than this.
const SETTLED: f64 = 2e-3;

/// Shares on which a rate was measured, and the logarithm of the rate.
pub(super) type MeasuredShares = (Vec<f64>, f64);

/// The model with fitted factors.
pub(super) struct Corrected<'p> {
    problem: &'p Problem<'p>,
    scaled: Vec<Scaled>,
    /// Logarithms of the factors.
    logs: Vec<f64>,
    /// Posterior precision of the logarithms, as its Cholesky factor.
    precision: Option<Cholesky>,
    machine: Machine,
    phases: Vec<Phase>,
}

impl<'p> Corrected<'p> {
    pub fn new(problem: &'p Problem<'p>) -> Self {
        let used = |i: &usize| {
            problem
                .machine
                .tiers
                .get(*i)
                .is_some_and(|t| problem.tiers.contains(&t.name))
        };
        let mut scaled: Vec<Scaled> = (0..problem.machine.tiers.len())
            .filter(used)
            .flat_map(|i| [Scaled::Peak(i), Scaled::Latency(i), Scaled::Rise(i)])
            .collect();
        scaled.extend([Scaled::Lines, Scaled::Processor]);
        Corrected {
            problem,
            logs: vec![0.0; scaled.len()],
            precision: None,
            scaled,
            machine: problem.machine.clone(),
            phases: problem.phases.to_vec(),
        }
    }

    pub fn machine(&mut self) -> &Machine {
        self.settle();
        &self.machine
    }

    pub fn factors(&self) -> Vec<Factor> {
        let prior = || self.scaled.iter().map(|s| s.prior()).collect();
        let left = self
            .precision
            .as_ref()
            .map_or_else(prior, Cholesky::deviations);
        let all = self.scaled.iter().zip(&self.logs).zip(left);
        all.map(|((scaled, log), left)| Factor {
            name: scaled.name(self.problem.machine),
            factor: log.exp(),
            uncertainty: left,
        })
        .collect()
    }

    /// Modelled rate at shares in the order of the problem's tiers.
    pub fn rate(&mut self, shares: &[f64]) -> Result<f64, ModelError> {
        self.problem.rate_of(&self.machine, &self.phases, shares)
    }

    /// Fits the factors to the points; `noise` is the standard deviation of the logarithm of a
    /// measured rate.
    ///
    /// A point where one tier is saturated carries no information on the others, so the gradient
    /// there cannot show that another tier is the bottleneck. If the points are missed by more than
    /// noise, the fit is repeated from the best of many random starts.
    pub fn fit(&mut self, seen: &[MeasuredShares], noise: f64) -> Result<(), ModelError> {
        let mut cost = self.descend(seen, noise)?;
        let missed: f64 = self.residuals(seen)?.iter().map(|r| r * r).sum();
        if missed.sqrt() < MISSED * noise {
            return Ok(());
        }
        let mut starts = self.starts(seen, noise)?;
        starts.truncate(DESCENTS);
        for (_, logs) in starts {
            let kept = (self.logs.clone(), self.precision.clone());
            self.logs = logs;
            let there = self.descend(seen, noise)?;
            if there < cost {
                cost = there;
            } else {
                (self.logs, self.precision) = kept;
            }
        }
        self.settle();
        Ok(())
    }

    /// Draws from the prior with their cost, those that fit the points best first.
    fn starts(
        &mut self,
        seen: &[MeasuredShares],
        noise: f64,
    ) -> Result<Vec<(f64, Vec<f64>)>, ModelError> {
        // Seeded by the number of points: reproducible, but with new starts for every point.
        let mut random = SplitMix::new(seen.len() as u64);
        let mut starts = Vec::with_capacity(STARTS);
        for _ in 0..STARTS {
            let draw = |s: &Scaled| s.prior() * random.normal();
            let logs: Vec<f64> = self.scaled.iter().map(draw).collect();
            self.apply(&logs);
            let residuals = self.residuals(seen)?;
            starts.push((self.cost(&residuals, noise, &logs), logs));
        }
        starts.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(starts)
    }

    /// Maximises the posterior by damped Gauss-Newton steps; returns the cost at the end.
    fn descend(&mut self, seen: &[MeasuredShares], noise: f64) -> Result<f64, ModelError> {
        for _ in 0..FIT_STEPS {
            let (residuals, slopes) = self.linear(seen)?;
            self.precision = Cholesky::of(&self.normal(&slopes, noise));
            let Some(precision) = &self.precision else {
                break;
            };
            let step = precision.solve(&self.pull(&residuals, &slopes, noise));
            let cost = self.cost(&residuals, noise, &self.logs);
            if !self.walk(seen, &step, cost, noise)? {
                break;
            }
        }
        let residuals = self.residuals(seen)?;
        Ok(self.cost(&residuals, noise, &self.logs))
    }

    /// Takes the step, or the largest fraction of it that lowers the cost; false once the fit has
    /// converged.
    fn walk(
        &mut self,
        seen: &[MeasuredShares],
        step: &[f64],
        cost: f64,
        noise: f64,
    ) -> Result<bool, ModelError> {
        // Backtracking line search. Steps are limited to a factor of e^0.5, because the model is
        // far from linear where another tier becomes the bottleneck.
        for length in [1.0, 0.4, 0.16, 0.06] {
            let moved = self.logs.iter().zip(step).map(|(log, step)| {
                (log + length * step.clamp(-0.5, 0.5)).clamp(-FURTHEST, FURTHEST)
            });
            let moved: Vec<f64> = moved.collect();
            self.apply(&moved);
            let residuals = self.residuals(seen)?;
            if self.cost(&residuals, noise, &moved) < cost {
                self.logs = moved;
                return Ok(step.iter().any(|s| s.abs() * length > SETTLED));
            }
        }
        self.settle();
        Ok(false)
    }

    /// Draws `count` sets of factors (as logarithms) from the Laplace approximation of the
    /// posterior.
    pub fn draws(&self, count: usize, random: &mut SplitMix) -> Vec<Vec<f64>> {
        let mut one = |logs: &[f64]| -> Vec<f64> {
            let noise = (0..logs.len()).map(|_| random.normal()).collect();
            // With precision L L', L'^-1 times standard normal noise has the covariance (L L')^-1.
            let off = match &self.precision {
                Some(precision) => precision.solve_upper(noise),
                None => vec![0.0; logs.len()],
            };
            let moved = logs.iter().zip(off).map(|(log, off)| log + off);
            moved.map(|log| log.clamp(-FURTHEST, FURTHEST)).collect()
        };
        (0..count).map(|_| one(&self.logs)).collect()
    }

    /// Evaluates with these factors until [`Corrected::settle`].
    pub fn suppose(&mut self, logs: &[f64]) {
        self.apply(logs);
    }

    /// Evaluates with the fitted factors again.
    pub fn settle(&mut self) {
        self.apply(&self.logs.clone());
    }

    /// Residuals: logarithms of measured over modelled rates.
    pub fn residuals(&mut self, seen: &[MeasuredShares]) -> Result<Vec<f64>, ModelError> {
        seen.iter()
            .map(|(shares, log)| Ok(log - self.rate(shares)?.ln()))
            .collect()
    }

    /// Residuals, and the derivatives of the modelled log rates by each log factor (forward
    /// differences).
    fn linear(&mut self, seen: &[MeasuredShares]) -> Result<(Vec<f64>, Vec<Vec<f64>>), ModelError> {
        let logs = self.logs.clone();
        self.settle();
        let residuals = self.residuals(seen)?;
        let mut slopes = Vec::with_capacity(logs.len());
        for k in 0..logs.len() {
            let mut moved = logs.clone();
            moved[k] += STEP;
            self.apply(&moved);
            let there = self.residuals(seen)?;
            let slope = residuals.iter().zip(&there).map(|(r, t)| (r - t) / STEP);
            slopes.push(slope.collect());
        }
        self.settle();
        Ok((residuals, slopes))
    }

    /// Twice the negative log posterior, up to a constant.
    fn cost(&self, residuals: &[f64], noise: f64, logs: &[f64]) -> f64 {
        let misses: f64 = residuals.iter().map(|r| (r / noise).powi(2)).sum();
        let changes = logs.iter().zip(&self.scaled);
        misses
            + changes
                .map(|(log, s)| (log / s.prior()).powi(2))
                .sum::<f64>()
    }

    /// Matrix of the normal equations: the posterior precision of the logarithms.
    fn normal(&self, slopes: &[Vec<f64>], noise: f64) -> Vec<Vec<f64>> {
        let row = |(i, a): (usize, &Vec<f64>)| {
            let entry = |(j, b): (usize, &Vec<f64>)| {
                let prior = if i == j {
                    self.scaled[i].prior().powi(-2)
                } else {
                    0.0
                };
                dot(a, b) / noise.powi(2) + prior
            };
            slopes.iter().enumerate().map(entry).collect()
        };
        slopes.iter().enumerate().map(row).collect()
    }

    /// Right-hand side of the normal equations: the negative gradient of the cost, halved.
    fn pull(&self, residuals: &[f64], slopes: &[Vec<f64>], noise: f64) -> Vec<f64> {
        let all = slopes.iter().zip(&self.scaled).zip(&self.logs);
        all.map(|((slope, scaled), log)| {
            dot(slope, residuals) / noise.powi(2) - log / scaled.prior().powi(2)
        })
        .collect()
    }

    /// Applies the factors with these logarithms to the numbers of the profile.
    fn apply(&mut self, logs: &[f64]) {
        // Always from the given profile, so that factors of earlier calls do not accumulate.
        let (from, to) = (self.problem.machine, &mut self.machine);
        for (scaled, log) in self.scaled.iter().zip(logs) {
            let f = log.exp();
            match *scaled {
                Scaled::Peak(i) => {
                    let (from, to) = (&from.tiers[i], &mut to.tiers[i]);
                    to.read_gbps.value = from.read_gbps.value * f;
                    to.write_gbps.value = from.write_gbps.value * f;
                    scale(&from.nt_write_gbps, &mut to.nt_write_gbps, f);
                }
                Scaled::Latency(i) => {
                    let (from, to) = (&from.tiers[i], &mut to.tiers[i]);
                    to.idle_latency_ns.value = from.idle_latency_ns.value * f;
                    scale(&from.switch_ns, &mut to.switch_ns, f);
                    scale(&from.ownership_ns, &mut to.ownership_ns, f);
                }
                Scaled::Rise(i) => {
                    let (from, to) = (&from.tiers[i].loaded, &mut to.tiers[i].loaded);
                    to.ratio_at_peak.value = 1.0 + (from.ratio_at_peak.value - 1.0) * f;
                }
                Scaled::Lines => {
                    let (from, to) = (&from.concurrency, &mut to.concurrency);
                    // Fewer than one line in flight is impossible; the factor on the latency takes
                    // over there.
                    let lines = |from: &Value| (from.value * f).max(1.0);
                    to.sequential_scalar.value = lines(&from.sequential_scalar);
                    to.sequential_simd.value = lines(&from.sequential_simd);
                    to.random.value = lines(&from.random);
                    to.random_prefetched.value = lines(&from.random_prefetched);
                    to.dependent.value = lines(&from.dependent);
                    for (from, to) in [
                        (&from.store, &mut to.store),
                        (&from.nt_store, &mut to.nt_store),
                    ] {
                        if let (Some(from), Some(to)) = (from, to) {
                            to.value = lines(from);
                        }
                    }
                }
                Scaled::Processor => {
                    to.cache.llc_latency_ns.value = from.cache.llc_latency_ns.value * f;
                    to.tlb.walk_ns.value = from.tlb.walk_ns.value * f;
                    for (from, to) in self.problem.phases.iter().zip(&mut self.phases) {
                        to.compute_ns_per_tuple = from.compute_ns_per_tuple * f;
                    }
                }
            }
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn scale(from: &Option<Value>, to: &mut Option<Value>, factor: f64) {
    if let (Some(from), Some(to)) = (from, to) {
        to.value = from.value * factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::work::{Stream, Work};
    use crate::{Options, profiles};

    #[test]
    fn a_wrong_peak_is_found_from_saturated_reads_and_the_rest_left_alone() {
        let machine = profiles::load("nus24").unwrap();
        let mut truth = machine.clone();
        truth.tiers[1].read_gbps.value *= 0.8;
        let (phases, options) = (
            Work::Read(Stream::default()).phases(32).unwrap(),
            Options::default(),
        );
        let problem = Problem::new(&machine, &phases, 32, &options);
        let seen: Vec<MeasuredShares> = [0.0, 0.4, 0.8]
            .map(|s| {
                (
                    vec![1.0 - s, s],
                    problem.rate_on(&truth, &[1.0 - s, s]).unwrap().ln(),
                )
            })
            .into();
        let mut corrected = Corrected::new(&problem);
        corrected.fit(&seen, 0.005).unwrap();
        let factor = |name: &str| {
            corrected
                .factors()
                .into_iter()
                .find(|f| f.name == name)
                .unwrap()
        };
        assert!(
            (factor("peak of cxl").factor - 0.8).abs() < 0.02,
            "{:?}",
            corrected.factors()
        );
        assert!((factor("peak of dram").factor - 1.0).abs() < 0.02);
        assert!(factor("peak of cxl").uncertainty < 0.02);
    }
}
