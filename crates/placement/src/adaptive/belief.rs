//! Bayesian estimate of the machine: the profile, corrected by measured times.
//!
//! Each uncertain number of the profile is scaled by a factor. The logarithms of the factors have a
//! joint normal distribution, at first independent and as wide as the profile's intervals. A
//! measured time of a phase is compared with the modelled one, and the residual updates the factors
//! that the time depends on, by an extended Kalman filter (Kalman, "A New Approach to Linear
//! Filtering and Prediction Problems", Journal of Basic Engineering 82(1), 1960). The model is
//! strongly non-linear where a tier saturates, so slopes are finite differences over most of a
//! standard deviation instead of derivatives, and the linearisation error counts as measurement
//! noise, as in Norgaard, Poulsen and Ravn, "New Developments in State Estimation for Nonlinear
//! Systems" (Automatica 36(11), 2000). All queries share one estimate, so a measurement of one
//! query improves predictions for the others.

use super::numbers::{Around, Number, dot, is_uncertain};
use super::{Gain, Layout};
use tierloom_model::search::{SplitMix, interval};
use tierloom_model::{Figure, Machine, ModelError, Options, Phase, solve};

/// Minimum step of a finite difference, in the logarithm of a factor.
const STEP: f64 = 0.01;

/// Limit of each factor, in prior standard deviations; weakly observable numbers would drift.
const MAX_DEVIATIONS: f64 = 2.5;

/// Innovations beyond this number of standard deviations are clipped to it.
const OUTLIER: f64 = 4.0;

/// Process noise (log-scale standard deviation) added per update, capped at the prior.
///
/// Linearisation errors do not average out as noise does, and machines drift.
const FORGETTING: f64 = 0.004;

/// Normal quantile of an interval's ends: a profile's interval is read as the central 90%.
const INTERVAL_QUANTILE: f64 = 1.645;

/// Posterior distribution of the machine's numbers.
#[derive(Debug, Clone)]
pub struct Belief {
    machine: Machine,
    reference_tier: String,
    numbers: Vec<Number>,
    mean: Vec<f64>,
    /// Row-major.
    covariance: Vec<f64>,
    /// Prior variance of each number.
    prior_variance: Vec<f64>,
    options: Options,
}

impl Belief {
    /// Starts from the profile; `std_dev` is the minimum prior standard deviation, as a share.
    ///
    /// # Errors
    /// [`ModelError`] if the profile is not valid.
    pub fn new(machine: &Machine, std_dev: f64) -> Result<Self, ModelError> {
        machine.check()?;
        let figures = machine.figures();
        // Workers stay on their own socket and never access the other socket's memory, so no time
        // could correct its numbers.
        let first = machine.tiers.first().map_or("", |t| t.name.as_str());
        let mut used = machine
            .tiers
            .iter()
            .map(|t| t.name == first || t.name != "remote");
        let never: Vec<String> = (0..machine.tiers.len())
            .filter(|_| !used.next().unwrap_or(true))
            .map(|index| format!("tiers[{index}]."))
            .collect();
        let is_used = |f: &&Figure| !never.iter().any(|tier| f.path.starts_with(tier));
        let uncertain = figures.iter().filter(|f| is_uncertain(f)).filter(is_used);
        let uncertain: Vec<&Figure> = uncertain.collect();
        let numbers: Vec<Number> = uncertain.iter().map(|f| Number::of(f)).collect();
        let count = numbers.len();
        let mut covariance = vec![0.0; count * count];
        for (i, figure) in uncertain.iter().enumerate() {
            let (low, high) = interval(figure);
            // An interval that reaches 0 or has no width has no logarithm; the minimum applies.
            let of_interval = if low > 0.0 && high > low {
                (high / low).ln() / (2.0 * INTERVAL_QUANTILE)
            } else {
                0.0
            };
            covariance[i * count + i] = of_interval.max(std_dev).powi(2);
        }
        Ok(Belief {
            reference_tier: machine
                .tiers
                .first()
                .map_or_else(String::new, |t| t.name.clone()),
            machine: machine.clone(),
            mean: vec![0.0; count],
            prior_variance: (0..count).map(|i| covariance[i * count + i]).collect(),
            numbers,
            covariance,
            options: Options::default(),
        })
    }

    /// The machine at the posterior mean.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Name of the profile's first tier, where every phase starts.
    pub fn reference_tier(&self) -> &str {
        &self.reference_tier
    }

    /// Modelled time of the phase at the posterior mean, ns.
    ///
    /// # Errors
    /// Same as [`solve()`].
    pub fn time_ns(&self, phase: &Phase, layout: &Layout, workers: u32) -> Result<f64, ModelError> {
        let placement = layout.placement(&self.reference_tier);
        Ok(solve(&self.machine, phase, &placement, workers, &self.options)?.time_ns)
    }

    /// Expected gain of `to` over `from`, with its standard deviation.
    ///
    /// # Errors
    /// Same as [`solve()`].
    pub fn gain(
        &mut self,
        phase: &Phase,
        from: &Layout,
        to: &Layout,
        workers: u32,
    ) -> Result<Gain, ModelError> {
        let before = self.around(phase, from, workers)?;
        let after = self.around(phase, to, workers)?;
        Ok(self.gain_between(&before, &after))
    }

    /// Times under one layout at and around the posterior mean.
    ///
    /// Two of them are the input of [`Belief::gain_between`].
    ///
    /// # Errors
    /// Same as [`solve()`].
    pub(super) fn around(
        &mut self,
        phase: &Phase,
        layout: &Layout,
        workers: u32,
    ) -> Result<Around, ModelError> {
        let placement = layout.placement(&self.reference_tier);
        let options = self.options.clone();
        let unused = self.unused(layout);
        self.look_around(&unused, &|machine| {
            Ok(solve(machine, phase, &placement, workers, &options)?
                .time_ns
                .ln())
        })
    }

    /// Path prefixes of numbers that cannot affect a time: those of tiers without pages.
    ///
    /// Skipping them saves two model evaluations per number.
    fn unused(&self, layout: &Layout) -> Vec<String> {
        let tiers = self.machine.tiers.iter().enumerate();
        let unused = tiers.filter(|(_, tier)| {
            let share = layout.columns.share(&tier.name) + layout.operators.share(&tier.name);
            tier.name != self.reference_tier && share <= 0.0
        });
        unused
            .map(|(index, _)| format!("tiers[{index}]."))
            .collect()
    }

    /// Expected gain of the second layout over the first; both must stem from the current estimate.
    pub(super) fn gain_between(&self, before: &Around, after: &Around) -> Gain {
        // Differencing before taking slopes keeps the correlation of both times: errors that affect
        // both alike cancel.
        let both = Around {
            here: before.here - after.here,
            sides: before
                .sides
                .iter()
                .zip(&after.sides)
                .map(|(b, a)| [b[0] - a[0], b[1] - a[1]])
                .collect(),
        };
        let (_, steep) = self.slopes(&both);
        Gain {
            mean: both.here,
            std_dev: self.variance(&steep).sqrt(),
        }
    }

    /// Updates the estimate with a measured time; `noise` is its relative standard deviation.
    ///
    /// Returns the normalised innovation: the residual in standard deviations of the prediction.
    ///
    /// # Errors
    /// Same as [`solve()`].
    pub fn learn(
        &mut self,
        phase: &Phase,
        layout: &Layout,
        workers: u32,
        time_ns: f64,
        noise: f64,
    ) -> Result<f64, ModelError> {
        let placement = layout.placement(&self.reference_tier);
        let options = self.options.clone();
        let answer = |machine: &Machine| {
            Ok(solve(machine, phase, &placement, workers, &options)?
                .time_ns
                .ln())
        };
        let unused = self.unused(layout);
        let around = self.look_around(&unused, &answer)?;
        let slope: Vec<f64> = (0..around.sides.len())
            .map(|i| (around.sides[i][0] - around.sides[i][1]) / (2.0 * self.step(i)))
            .collect();
        // Linearisation error counts as measurement noise.
        let noise = noise.hypot(around.curvature());
        let towards = self.times_covariance(&slope);
        let variance = dot(&slope, &towards) + noise * noise;
        let limit = OUTLIER * variance.sqrt();
        let off = time_ns.ln() - around.here;
        let surprise = off / variance.sqrt();
        let off = off.clamp(-limit, limit);
        for (i, towards) in towards.iter().enumerate() {
            let farthest = MAX_DEVIATIONS * self.prior_variance[i].sqrt();
            let moved = self.mean[i] + towards * off / variance;
            self.mean[i] = moved.clamp(-farthest, farthest);
        }
        self.correct();
        // The mean moves by the central slope, but the covariance shrinks only by the flatter of
        // the two one-sided slopes: see `slopes`.
        let (flat, _) = self.slopes(&around);
        let towards = self.times_covariance(&flat);
        let variance = dot(&flat, &towards) + noise * noise;
        let count = towards.len();
        for i in 0..count {
            for j in 0..count {
                self.covariance[i * count + j] -= towards[i] * towards[j] / variance;
            }
            let own = &mut self.covariance[i * count + i];
            *own = (*own + FORGETTING * FORGETTING).min(self.prior_variance[i].max(*own));
        }
        Ok(surprise)
    }

    /// Draws machines from the posterior distribution.
    pub fn sample(&self, count: usize, random: &mut SplitMix) -> Vec<Machine> {
        let root = self.root();
        let numbers = self.numbers.len();
        let mut machines = Vec::with_capacity(count);
        for _ in 0..count {
            let normal: Vec<f64> = (0..numbers).map(|_| random.normal()).collect();
            let mut other = self.clone();
            for (i, mean) in other.mean.iter_mut().enumerate() {
                *mean += dot(&root[i * numbers..(i + 1) * numbers], &normal);
            }
            other.correct();
            machines.push(other.machine);
        }
        machines
    }

    /// Cholesky factor of the covariance; directions whose variance is 0 or lost to rounding get 0.
    fn root(&self) -> Vec<f64> {
        let count = self.numbers.len();
        let mut root = vec![0.0; count * count];
        for i in 0..count {
            for j in 0..=i {
                let known: f64 = dot(
                    &root[i * count..i * count + j],
                    &root[j * count..j * count + j],
                );
                let left = self.covariance[i * count + j] - known;
                let diagonal = root[j * count + j];
                root[i * count + j] = if i == j {
                    left.max(0.0).sqrt()
                } else if diagonal > 1e-6 {
                    left / diagonal
                } else {
                    0.0
                };
            }
        }
        root
    }

    /// Evaluates `answer` at the posterior mean, and with each factor alone moved up and down.
    fn look_around(
        &mut self,
        unused: &[String],
        answer: &dyn Fn(&Machine) -> Result<f64, ModelError>,
    ) -> Result<Around, ModelError> {
        let here = answer(&self.machine)?;
        let mut sides = vec![[here; 2]; self.numbers.len()];
        for (i, sides) in sides.iter_mut().enumerate() {
            let path = &self.numbers[i].path;
            if unused.iter().any(|tier| path.starts_with(tier)) {
                continue;
            }
            let at = self.value(i, self.mean[i]);
            let step = self.step(i);
            for (side, step) in sides.iter_mut().zip([step, -step]) {
                let there = self.value(i, self.mean[i] + step);
                // A number at its limit cannot move further; the slope on that side is 0.
                if there != at {
                    self.put(i, there);
                    let answered = answer(&self.machine);
                    // Reset before an error is returned.
                    self.put(i, at);
                    *side = answered?;
                }
            }
        }
        Ok(Around { here, sides })
    }

    /// Step of a number's finite differences: most of its standard deviation.
    fn step(&self, i: usize) -> f64 {
        let std_dev = self.covariance[i * self.numbers.len() + i].max(0.0).sqrt();
        (0.7 * std_dev).max(STEP)
    }

    /// One-sided slopes of each factor: the one of smaller magnitude, and the one of larger.
    ///
    /// They differ where a tier is close to saturation. A time there bounds a number from one side
    /// only, which must not count as knowledge of the other side: the covariance update takes the
    /// flatter slope (0 if the signs differ), predicted uncertainty takes the steeper one.
    fn slopes(&self, around: &Around) -> (Vec<f64>, Vec<f64>) {
        let slopes = around.sides.iter().enumerate().map(|(i, [above, below])| {
            let step = self.step(i);
            let (up, down) = ((above - around.here) / step, (around.here - below) / step);
            let flat = if up * down > 0.0 {
                up.abs().min(down.abs()).copysign(up)
            } else {
                0.0
            };
            (flat, if up.abs() > down.abs() { up } else { down })
        });
        slopes.unzip()
    }

    fn value(&self, i: usize, ln_factor: f64) -> f64 {
        let number = &self.numbers[i];
        (number.at_profile * ln_factor.exp()).clamp(number.possible.0, number.possible.1)
    }

    fn put(&mut self, i: usize, x: f64) {
        self.machine.put(&self.numbers[i].path, x);
    }

    fn correct(&mut self) {
        for i in 0..self.numbers.len() {
            let x = self.value(i, self.mean[i]);
            self.put(i, x);
        }
    }

    fn times_covariance(&self, slope: &[f64]) -> Vec<f64> {
        let count = slope.len();
        (0..count)
            .map(|i| dot(&self.covariance[i * count..(i + 1) * count], slope))
            .collect()
    }

    /// Variance of a quantity with these slopes.
    fn variance(&self, slope: &[f64]) -> f64 {
        dot(slope, &self.times_covariance(slope)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind, profiles};

    fn scan() -> Phase {
        Phase::new("scan", PhaseKind::Scan, 1e9)
            .access(Access::sequential_read("t.c", 8.0, 8_000_000_000).vectorised())
    }

    #[test]
    fn a_measured_time_is_believed_and_moves_the_number_that_decides() {
        let machine = profiles::load("nus24").unwrap();
        let mut belief = Belief::new(&machine, 0.1).unwrap();
        let dram = Layout::on("dram").unwrap();
        let before = belief.time_ns(&scan(), &dram, 32).unwrap();
        let surprise = belief
            .learn(&scan(), &dram, 32, before * 1.1, 0.01)
            .unwrap();
        let after = belief.time_ns(&scan(), &dram, 32).unwrap();
        assert!(surprise > 0.5, "{surprise}");
        assert!(
            (after / before / 1.1 - 1.0).abs() < 0.01,
            "{}",
            after / before
        );
        let peak = belief.machine().tiers[0].read_gbps.value / machine.tiers[0].read_gbps.value;
        assert!(
            (peak * 1.1 - 1.0).abs() < 0.02,
            "the peak of DRAM decides: {peak}"
        );
        let cxl = belief.machine().tiers[1].read_gbps.value;
        assert_eq!(cxl, machine.tiers[1].read_gbps.value, "CXL was not used");
    }

    #[test]
    fn uncertainty_shrinks_with_measurements_and_never_grows() {
        let machine = profiles::load("nus24").unwrap();
        let mut belief = Belief::new(&machine, 0.1).unwrap();
        let dram = Layout::on("dram").unwrap();
        let both = Layout {
            columns: "dram 3, cxl 2".parse().unwrap(),
            ..dram.clone()
        };
        let mut std_dev = f64::INFINITY;
        for layout in [&dram, &both, &dram, &both] {
            let now = belief.gain(&scan(), &dram, &both, 32).unwrap().std_dev;
            assert!(now <= std_dev * 1.001, "{now} after {std_dev}");
            std_dev = now;
            let time_ns = belief.time_ns(&scan(), layout, 32).unwrap();
            belief.learn(&scan(), layout, 32, time_ns, 0.01).unwrap();
        }
        assert!(std_dev < 0.03, "{std_dev}");
    }

    #[test]
    fn one_absurd_measurement_does_not_break_the_machine() {
        let machine = profiles::load("epfl25-full-pf-on").unwrap();
        let mut belief = Belief::new(&machine, 0.1).unwrap();
        let dram = Layout::on("dram").unwrap();
        belief.learn(&scan(), &dram, 48, 1e15, 0.01).unwrap();
        belief.machine().check().unwrap();
        assert!(belief.time_ns(&scan(), &dram, 48).unwrap().is_finite());
    }
}
