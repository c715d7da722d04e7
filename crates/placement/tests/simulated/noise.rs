//! Noise of measured times.

use tierloom_model::search::SplitMix;

/// Error of measured times; trials are shorter than the rest of their phase and noisier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoiseKind {
    /// Normal, 1% and 2%, as in the controller's default settings.
    Expected,
    /// Normal, 0.5% to 5%; for a trial up to twice as much.
    Normal,
    /// Lognormal, 1% to 4%.
    Lognormal,
    /// Normal, 1% and 2%; in addition one query in 50 takes 30% longer as a whole.
    SlowRuns,
    /// Normal, 1% and 2%; in addition one time in 50, of a phase or a trial, is 30% longer.
    SlowParts,
    /// Student's t distribution with three degrees of freedom.
    HeavyTails,
    /// Normal; in addition the whole machine slowly becomes up to 10% slower and faster.
    Drift,
    /// Normal; in addition all times of a query share an error of 3% that decays over several runs.
    Correlated,
}

pub const NOISES: [NoiseKind; 8] = [
    NoiseKind::Expected,
    NoiseKind::Normal,
    NoiseKind::Lognormal,
    NoiseKind::SlowRuns,
    NoiseKind::SlowParts,
    NoiseKind::HeavyTails,
    NoiseKind::Drift,
    NoiseKind::Correlated,
];

fn between(random: &mut SplitMix, low: f64, high: f64) -> f64 {
    low + (high - low) * random.uniform()
}

#[derive(Debug)]
pub struct Noise {
    kind: NoiseKind,
    random: SplitMix,
    whole: f64,
    trial: f64,
    /// ln of the error that all times of the present run share.
    common: f64,
    runs: f64,
    period: f64,
    phase: f64,
}

impl Noise {
    pub fn new(kind: NoiseKind, seed: u64) -> Self {
        let mut random = SplitMix::new(seed ^ 0x5eed);
        let mut more = SplitMix::new(seed ^ 0x006e_6f69_7365);
        let (whole, trial) = match kind {
            NoiseKind::Normal => {
                let whole = 0.005 * 10_f64.powf(more.uniform());
                (whole, whole * between(&mut more, 1.0, 2.0))
            }
            NoiseKind::Lognormal => {
                let whole = between(&mut more, 0.01, 0.04);
                (whole, 1.5 * whole)
            }
            _ => (0.01, 0.02),
        };
        if kind != NoiseKind::Expected {
            random = SplitMix::new(more.next_u64());
        }
        Noise {
            kind,
            random,
            whole,
            trial,
            common: 0.0,
            runs: 0.0,
            period: between(&mut more, 10.0, 200.0),
            phase: more.uniform(),
        }
    }

    /// Starts the next run of a query.
    pub fn next_run(&mut self) {
        self.runs += 1.0;
        self.common = match self.kind {
            NoiseKind::SlowRuns if self.random.uniform() < 0.02 => 1.3_f64.ln(),
            NoiseKind::Drift => {
                let turns = self.runs / self.period + self.phase;
                0.1 * (std::f64::consts::TAU * turns).sin()
            }
            NoiseKind::Correlated => {
                let kept = 0.9_f64;
                kept * self.common + 0.03 * (1.0 - kept * kept).sqrt() * self.random.normal()
            }
            _ => 0.0,
        };
    }

    pub fn of_phase(&mut self) -> f64 {
        self.factor(self.whole)
    }

    /// Of a trial on this share of a phase: the shortest ones are noisier than the others.
    pub fn of_trial(&mut self, share: f64) -> f64 {
        self.factor(self.trial * (0.01 / share).sqrt().max(1.0))
    }

    fn factor(&mut self, spread: f64) -> f64 {
        let r = &mut self.random;
        let own = match self.kind {
            NoiseKind::Lognormal => (spread * r.normal()).exp(),
            NoiseKind::HeavyTails => {
                let squares: f64 = (0..3).map(|_| r.normal().powi(2)).sum();
                // `spread` scales the centre of the distribution; the standard deviation is larger
                // by its tails.
                (spread * r.normal() / (squares / 3.0).sqrt()).exp()
            }
            NoiseKind::SlowParts => {
                let slow = if r.uniform() < 0.02 { 1.3 } else { 1.0 };
                slow * (1.0 + spread * r.normal())
            }
            _ => 1.0 + spread * r.normal(),
        };
        own.max(0.2) * self.common.exp()
    }
}
