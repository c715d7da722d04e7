//! What a tiering policy sees of the machine: counters and samples with errors.

use super::activity::Activity;
use tierloom_model::search::SplitMix;

/// Relative standard deviations of a tier's measured rate of lines and latency over one interval.
const RATE_ERROR: f64 = 0.03;
pub(super) const LATENCY_ERROR: f64 = 0.05;

/// Lines per sampled access: the period of HeMem (Raybuck et al., "HeMem: Scalable Tiered Memory
/// Management for Big Data Applications and Real NVM", SOSP 2021).
const LINES_PER_SAMPLE: f64 = 5000.0;

/// Counters of one tier over one interval.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TierCounters {
    pub latency_ns: f64,
    /// Lines per second that the process accessed on it.
    pub lines_per_s: f64,
}

/// What was counted over one interval.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    pub elapsed_s: f64,
    /// The fast and the slow tier.
    pub tiers: [TierCounters; 2],
    /// Sampled accesses of each structure, scaled to lines: on the fast and on the slow tier.
    pub lines: Vec<[f64; 2]>,
    /// Mean number of lines that a core waits for at a time.
    pub lines_in_flight: f64,
}

/// Adds up what happens in an interval.
#[derive(Debug, Clone)]
pub(super) struct Counting {
    elapsed_ns: f64,
    /// Lines of each tier, and lines times latency.
    tier_lines: [f64; 2],
    latency: [f64; 2],
    /// Latency over time, for tiers without a line.
    idle_latency: [f64; 2],
    lines: Vec<[f64; 2]>,
    in_flight: f64,
}

impl Counting {
    pub fn new(structures: usize) -> Self {
        Counting {
            elapsed_ns: 0.0,
            tier_lines: [0.0; 2],
            latency: [0.0; 2],
            idle_latency: [0.0; 2],
            lines: vec![[0.0; 2]; structures],
            in_flight: 0.0,
        }
    }

    /// Counts `took_ns` of a phase; `tiers` are the indices of the fast and the slow tier.
    pub fn add(&mut self, activity: &Activity, tiers: [usize; 2], took_ns: f64) {
        self.elapsed_ns += took_ns;
        for (at, tier) in tiers.into_iter().enumerate() {
            let tier = &activity.tiers[tier];
            let lines = tier.lines_per_ns * took_ns;
            self.tier_lines[at] += lines;
            self.latency[at] += lines * tier.latency_ns;
            self.idle_latency[at] += tier.latency_ns * took_ns;
        }
        self.in_flight += activity.lines_in_flight * took_ns;
    }

    /// Counts accesses of one structure.
    pub fn add_lines(&mut self, structure: usize, slow: f64, lines: f64) {
        self.lines[structure][0] += lines * (1.0 - slow);
        self.lines[structure][1] += lines * slow;
    }

    pub fn elapsed_ns(&self) -> f64 {
        self.elapsed_ns
    }

    /// Ends the interval: what a policy reads, with errors.
    pub fn read(&mut self, random: &mut SplitMix) -> Counters {
        let counted = std::mem::replace(self, Counting::new(self.lines.len()));
        let elapsed_ns = counted.elapsed_ns.max(1.0);
        let mut tiers = [TierCounters::default(); 2];
        for (at, tier) in tiers.iter_mut().enumerate() {
            let lines = counted.tier_lines[at];
            let latency_ns = if lines > 0.0 {
                counted.latency[at] / lines
            } else {
                counted.idle_latency[at] / elapsed_ns
            };
            let error = (1.0 + RATE_ERROR * random.normal()).max(0.0);
            *tier = TierCounters {
                latency_ns: latency_ns * (1.0 + LATENCY_ERROR * random.normal()).max(0.1),
                lines_per_s: lines / elapsed_ns * 1e9 * error,
            };
        }
        let sampled = |lines: f64, random: &mut SplitMix| {
            LINES_PER_SAMPLE * poisson(lines / LINES_PER_SAMPLE, random)
        };
        Counters {
            elapsed_s: elapsed_ns / 1e9,
            tiers,
            lines: counted
                .lines
                .iter()
                .map(|[fast, slow]| [sampled(*fast, random), sampled(*slow, random)])
                .collect(),
            lines_in_flight: counted.in_flight / elapsed_ns,
        }
    }
}

/// A number of events with this mean; above 30 the normal distribution stands in.
fn poisson(mean: f64, random: &mut SplitMix) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    if mean > 30.0 {
        return (mean + mean.sqrt() * random.normal()).round().max(0.0);
    }
    // Knuth's method: the number of uniform factors until their product falls below e^-mean.
    let (least, mut product, mut events) = ((-mean).exp(), random.uniform(), 0.0);
    while product > least {
        product *= random.uniform();
        events += 1.0;
    }
    events
}
