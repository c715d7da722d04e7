//! Memory of operators, which no part of a phase can try.
//!
//! A hash table is there once, for all rows of a phase, so where it lies is a matter of the whole
//! phase. What a phase was shown to gain by its columns is what may be risked here: the part of the
//! way is taken that loses less than that on a machine whose other tiers are far worse than
//! believed, and the next run decides whether it stays.

use super::controller::Controller;
use super::deciding::CERTAINTY;
use super::evidence::Shown;
use super::{Layout, PhaseDecision};
use crate::AdaptError;
use tierloom_model::{Phase, StructureClass};

/// Parts of the way, the largest that may be risked is taken.
const PARTS: [f64; 6] = [1.0, 0.7, 0.45, 0.25, 0.12, 0.06];

/// Part of a shown gain that may be risked.
const RISKED: f64 = 0.6;

/// Least gain shown that anything is risked of.
const LEAST_SHOWN: f64 = 0.01;

/// Changes that are not spent on it.
const KEPT: u32 = 1;

const CLASSES: [StructureClass; 3] = [
    StructureClass::HashTable,
    StructureClass::GroupTable,
    StructureClass::SortRun,
];

impl Controller {
    /// Another place for the memory of operators that the model wants and that cannot lose more
    /// than was gained.
    pub(super) fn operators(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
    ) -> Result<Option<(Shown, Layout)>, AdaptError> {
        let most = self.settings.max_changes;
        let state = self.state(&kept.key);
        let allowed = RISKED * state.proven;
        if state.proven < LEAST_SHOWN || state.changes + 1 + KEPT >= most {
            return Ok(None);
        }
        let wanted = self.best_of(phase, &kept.layout, &CLASSES)?;
        let Some(operators) = wanted.filter(|w| *w != kept.layout.operators) else {
            return Ok(None);
        };
        let wanted = Layout {
            operators,
            ..kept.layout.clone()
        };
        let worst = self.distrust.worst_unmeasured(self.belief.machine());
        for part in PARTS {
            let there = self.part_way(&kept.layout, &wanted, part)?;
            if there == kept.layout || self.is_refused(&kept.key, &there) {
                continue;
            }
            if self.loss_on(&worst, phase, &kept.layout, &there)? > allowed {
                continue;
            }
            let gain = self.gain(&kept.key, phase, &kept.layout, &there)?;
            let worst = gain.mean - self.settings.certainty * gain.doubt;
            if worst < -allowed || gain.mean < self.settings.min_gain.max(gain.doubt) {
                continue;
            }
            // Nothing of it is shown yet: what was shown before is less what is risked.
            let hoped = Shown {
                mean: gain.mean,
                doubt: (gain.mean + allowed) / CERTAINTY,
                runs: 0,
            };
            return Ok(Some((hoped, there)));
        }
        Ok(None)
    }
}
