//! Measured latencies of one phase under one layout, and the limits that they have shown.

use super::{Layout, TierLatencies};

/// Relative standard deviation of a latency that counters measure in one run.
const LATENCY_STD_DEV: f64 = 0.05;

/// Factor on the idle latency of a tier without pages, whose latency is not measured.
const UNMEASURED: f64 = 1.3;

/// What latencies have shown about the operator memory of one phase.
#[derive(Debug, Clone)]
pub(super) struct LatencySteps {
    under: Option<Layout>,
    /// Sums over the runs under that layout, of logarithms.
    first: f64,
    others: f64,
    runs: u32,
    others_runs: u32,
    /// Shares of the traffic off the first tier: the most that was shown to be too little, and the
    /// least that was shown to be too much.
    pub low: f64,
    pub high: f64,
    pub steps: u32,
}

impl LatencySteps {
    pub fn new() -> Self {
        LatencySteps {
            under: None,
            first: 0.0,
            others: 0.0,
            runs: 0,
            others_runs: 0,
            low: 0.0,
            high: 1.0,
            steps: 0,
        }
    }

    /// Takes the latencies of a run in.
    pub fn note(&mut self, layout: &Layout, latencies: &TierLatencies) {
        if self.under.as_ref() != Some(layout) {
            let kept = LatencySteps {
                under: Some(layout.clone()),
                low: self.low,
                high: self.high,
                steps: self.steps,
                ..LatencySteps::new()
            };
            *self = kept;
        }
        self.first += latencies.first_ns.ln();
        self.runs += 1;
        if let Some(others_ns) = latencies.others_ns {
            self.others += others_ns.ln();
            self.others_runs += 1;
        }
    }

    /// ln of the first tier's latency over the others', with its standard deviation.
    ///
    /// Tiers without pages count with `idle_ns`.
    pub fn excess(&self, layout: &Layout, idle_ns: f64) -> Option<(f64, f64)> {
        if self.under.as_ref() != Some(layout) || self.runs == 0 {
            return None;
        }
        let first = self.first / f64::from(self.runs);
        let of = |runs: u32| LATENCY_STD_DEV / f64::from(runs).sqrt();
        Some(match self.others_runs {
            0 => (first - (UNMEASURED * idle_ns).ln(), of(self.runs)),
            runs => {
                let others = self.others / f64::from(runs);
                (first - others, of(self.runs).hypot(of(runs)))
            }
        })
    }
}
