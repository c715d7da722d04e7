//! Share of the second tier that maximises the rate.

use super::{Pricer, Search};
use crate::error::CalibrateError;
use crate::figures::{Experiment, parse::with_share};
use tierloom_model::Placement;

impl Pricer<'_> {
    pub(super) fn shared(
        &self,
        setting: &Experiment,
        share: f64,
    ) -> Result<Placement, CalibrateError> {
        let first = self
            .machine(setting)?
            .tiers
            .first()
            .map_or("dram", |t| t.name.as_str());
        with_share(
            &setting.placement,
            &setting.moves,
            first,
            &setting.tier,
            share,
        )
        .ok_or_else(|| {
            self.no_quantity(format!("{share} is no share"), "shares are between 0 and 1")
        })
    }

    pub(super) fn rate_with_share(
        &self,
        setting: &Experiment,
        share: f64,
    ) -> Result<f64, CalibrateError> {
        let placed = Experiment {
            placement: self.shared(setting, share)?,
            ..setting.clone()
        };
        self.rate(&placed, &placed.work)
    }

    /// Share of the second tier that maximises the rate, 0 to 1, and that rate.
    pub(super) fn best_share(
        &self,
        setting: &Experiment,
        search: Search,
    ) -> Result<(f64, f64), CalibrateError> {
        self.tier_index(setting)?;
        // A fit evaluates this thousands of times and refines the result, so a coarser grid
        // suffices. A maximum narrower than the grid can be missed.
        let step = if search == Search::Refined { 4 } else { 1 };
        let mut best = (0.0, f64::NEG_INFINITY);
        for percent in (0..=100).step_by(step) {
            let share = percent as f64 / 100.0;
            let rate = self.rate_with_share(setting, share)?;
            if rate > best.1 {
                best = (share, rate);
            }
        }
        match search {
            Search::Steps => Ok(best),
            Search::Refined => self.refined(setting, best, step as f64 / 100.0),
        }
    }

    /// Golden-section search within one grid step around the best share.
    fn refined(
        &self,
        setting: &Experiment,
        best: (f64, f64),
        step: f64,
    ) -> Result<(f64, f64), CalibrateError> {
        const GOLDEN: f64 = 0.618_033_988_749_895;
        let at = |share: f64| -> Result<(f64, f64), CalibrateError> {
            Ok((share, self.rate_with_share(setting, share)?))
        };
        let (mut low, mut high) = ((best.0 - step).max(0.0), (best.0 + step).min(1.0));
        let mut left = at(high - GOLDEN * (high - low))?;
        let mut right = at(low + GOLDEN * (high - low))?;
        // 22 steps shrink the interval by a factor of 4e4, far below the accuracy of any published
        // share.
        for _ in 0..22 {
            if left.1 >= right.1 {
                (high, right) = (right.0, left);
                left = at(high - GOLDEN * (high - low))?;
            } else {
                (low, left) = (left.0, right);
                right = at(low + GOLDEN * (high - low))?;
            }
        }
        let best_of = |a: (f64, f64), b: (f64, f64)| if b.1 > a.1 { b } else { a };
        Ok(best_of(best_of(best, left), right))
    }
}
