//! Placement of operator memory, which cannot be tried on a part of a phase.
//!
//! A hash table exists once for all rows of a phase, so moving it affects the whole phase. The risk
//! is therefore limited to a share of the gain that moving columns has already shown: of the steps
//! towards the proposed placement, the largest is taken that loses less than that on a machine
//! whose other tiers are far worse than the profile says. The next run decides whether it stays.

use super::controller::Controller;
use super::deciding::CERTAINTY;
use super::evidence::MeasuredGain;
use super::{Layout, OPERATOR_MEMORY, PhaseDecision};
use crate::AdaptError;
use tierloom_model::Phase;

/// Fractions of the way to the proposed placement, largest first.
const PARTS: [f64; 8] = [1.0, 0.7, 0.45, 0.25, 0.12, 0.06, 0.03, 0.015];

/// Share of the measured gain over the first tier that operator memory may put at risk.
const RISKED: f64 = 0.6;

/// Measured gain below which operator memory is left alone.
const LEAST_SHOWN: f64 = 0.01;

/// Changes held back, so that columns can still be moved afterwards.
const KEPT: u32 = 1;

impl Controller {
    /// A proposed placement of operator memory that cannot lose more than columns have gained.
    pub(super) fn operators(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
    ) -> Result<Option<(MeasuredGain, Layout)>, AdaptError> {
        let most = self.settings.max_changes;
        let state = self.state(&kept.key);
        let allowed = RISKED * state.proven;
        if state.proven < LEAST_SHOWN || state.changes + 1 + KEPT >= most {
            return Ok(None);
        }
        let proposed = self.best_of(phase, &kept.layout, &OPERATOR_MEMORY)?;
        let Some(operators) = proposed.filter(|w| *w != kept.layout.operators) else {
            return Ok(None);
        };
        let proposed = Layout {
            operators,
            ..kept.layout.clone()
        };
        // Trials of columns are sequential reads; they prove nothing about random accesses to hash
        // tables.
        let worst = self.worst_for_operators(kept, phase)?;
        for part in PARTS {
            let there = self.part_way(&kept.layout, &proposed, part)?;
            if there == kept.layout || self.is_refused(&kept.key, &there) {
                continue;
            }
            if self.loss_on(&worst, phase, &kept.layout, &there)? > allowed {
                continue;
            }
            let gain = self.gain(&kept.key, phase, &kept.layout, &there)?;
            let worst = gain.mean - self.settings.certainty * gain.std_dev;
            if worst < -allowed || gain.mean < self.settings.min_gain.max(gain.std_dev) {
                continue;
            }
            // No measurement backs this gain. With this uncertainty its lower bound is `-allowed`,
            // which is what `step` then subtracts from the proven gain.
            let hoped = MeasuredGain {
                mean: gain.mean,
                std_dev: (gain.mean + allowed) / CERTAINTY,
                runs: 0,
            };
            return Ok(Some((hoped, there)));
        }
        Ok(None)
    }
}
