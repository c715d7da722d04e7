//! What a trial or a move may lose at worst.

use super::controller::Controller;
use super::{Layout, PhaseDecision};
use crate::AdaptError;
use tierloom_model::{Machine, ModelError, Options, Phase, solve};

/// Assumed loss of a layout of which nothing was measured, however certain the model is: slope,
/// limit, minimum slope.
///
/// The loss is the first slope times the share of pages moved, up to the limit, but at least the
/// last slope times that share. A smaller one lost 1.3% of a run on a simulated machine whose other
/// tier was worse than all of [`super::distrust`].
const UNTRIED: (f64, f64, f64) = (2.2, 0.4, 1.6);

/// Least loss of a scout for each page that it moves.
const SCOUTED: f64 = 1.2;

/// Minimum loss assumed for any trial.
const LEAST_RISK: f64 = 0.02;

/// Worst-case loss of a trial, as a share of the trial's own time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Risk {
    pub loss: f64,
    /// The same of a scout, for which only the worst machine counts.
    pub of_scout: f64,
    /// Whether the loss stems from measurements of this layout.
    pub measured: bool,
}

impl Risk {
    pub const NONE: Risk = Risk {
        loss: 0.0,
        of_scout: 0.0,
        measured: false,
    };
}

impl Controller {
    /// Worst-case loss of a trial, as a share of the trial's own time.
    ///
    /// It comes from measurements of the layout if there are any. Otherwise it is the largest of
    /// the posterior's upper confidence bound, [`UNTRIED`], and the loss on the worst machine that
    /// was not ruled out. A loss above `limit` need not be exact.
    pub(super) fn risk(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        layout: &Layout,
        limit: f64,
    ) -> Result<Risk, AdaptError> {
        let certainty = self.settings.certainty;
        let state = self.states.get(&kept.key);
        let std_devs = self.std_devs();
        let measured = state.and_then(|s| s.evidence.alone(&kept.layout, layout, std_devs));
        let scouted = state.and_then(|s| s.evidence.scouted(&kept.layout, layout, std_devs));
        if let Some(shown) = measured.or(scouted) {
            let hidden = self.hidden_loss(kept, phase)?;
            let loss = (hidden - shown.least(certainty)).exp() - 1.0;
            let loss = loss.max(LEAST_RISK);
            return Ok(Risk {
                loss,
                of_scout: loss,
                measured: measured.is_some(),
            });
        }
        let far = kept.layout.distance(layout);
        let untried = (UNTRIED.0 * far).min(UNTRIED.1).max(UNTRIED.2 * far);
        let mut distrusted = 0.0_f64;
        for worst in self.distrust.worst(self.belief.machine(), layout) {
            distrusted = distrusted.max(self.loss_on(&worst, phase, &kept.layout, layout)?);
        }
        let mut loss = untried.max(distrusted).max(LEAST_RISK);
        // The confidence bound is expensive (two model evaluations per number and layout), so it is
        // computed only if it can decide.
        if loss <= limit {
            let gain = self.gain(&kept.key, phase, &kept.layout, layout)?;
            loss = loss.max((certainty * gain.std_dev - gain.mean).exp() - 1.0);
        }
        Ok(Risk {
            loss,
            of_scout: distrusted.max(SCOUTED * far),
            measured: false,
        })
    }

    /// Loss of trials that a disturbed run of their phase may have hidden, log scale.
    ///
    /// It is the excess of the run over the expected time while there is one run only; the fastest
    /// of several runs is not a disturbed one.
    fn hidden_loss(&self, kept: &PhaseDecision, phase: &Phase) -> Result<f64, AdaptError> {
        let state = self.states.get(&kept.key);
        let Some((only, 1)) = state.and_then(|s| s.evidence.whole(&kept.layout)) else {
            return Ok(0.0);
        };
        Ok(self.over_expected(kept, phase, only)?.max(0.0))
    }

    /// Excess of a measured time of a phase under its layout over the expected one, log scale.
    fn over_expected(
        &self,
        kept: &PhaseDecision,
        phase: &Phase,
        measured: f64,
    ) -> Result<f64, ModelError> {
        let workers = self.settings.workers;
        let reference = self.profile.time_ns(phase, &self.home, workers)?;
        let expected = self.belief.time_ns(phase, &kept.layout, workers)?;
        Ok(measured - (expected / reference).ln())
    }

    /// The worst machine for operator memory, of which nothing was measured off the first tier.
    ///
    /// Its first tier is as fast as the phase's own runs have shown. The corrected profile fits all
    /// phases, and for this one it may expect longer times.
    pub(super) fn worst_for_operators(
        &self,
        kept: &PhaseDecision,
        phase: &Phase,
    ) -> Result<Machine, ModelError> {
        let state = self.states.get(&kept.key);
        let faster = match state.and_then(|s| s.evidence.whole(&kept.layout)) {
            Some((measured, _)) => (-self.over_expected(kept, phase, measured)?).exp(),
            None => 1.0,
        };
        Ok(self
            .distrust
            .worst_unmeasured(self.belief.machine(), faster))
    }

    /// Extra time of `to` over `from` on a bad machine, relative to the expected time of `from`.
    pub(super) fn loss_on(
        &self,
        worst: &Machine,
        phase: &Phase,
        from: &Layout,
        to: &Layout,
    ) -> Result<f64, ModelError> {
        let workers = self.settings.workers;
        let time = |layout: &Layout| -> Result<f64, ModelError> {
            let placement = layout.placement(self.belief.reference_tier());
            Ok(solve(worst, phase, &placement, workers, &Options::default())?.time_ns)
        };
        let believed = self.belief.time_ns(phase, from, workers)?;
        Ok((time(to)? - time(from)?) / believed)
    }
}
