//! Quantities that are compared, and how.
//!
//! Errors are relative (differences for shares), so that figures in GB/s, ns and per cent can be
//! fitted and summarised together.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Quantity that a figure states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes that the program reads and writes per time, GB/s.
    Gbps,
    /// Bytes of all groups over the mean time of their threads, GB/s: the result of tools that
    /// average over threads.
    MeanGbps,
    /// Tuples per time, 10^6 per second.
    Mops,
    /// Time of one tuple on one worker, ns.
    LatencyNs,
    /// Loaded latency of a tier, ns, averaged over the phases by their times.
    TierLatencyNs,
    /// Loaded over idle latency of a tier, averaged in the same way.
    LatencyRatio,
    /// Utilisation of a tier, 0 to 1, averaged over the phases by their times.
    Utilisation,
    /// Rate over that of the reference experiment.
    Ratio,
    /// Gain of rate over the reference experiment, per cent.
    GainPercent,
    /// Share of the second tier that maximises the rate, per cent of the pages, in whole per cent.
    BestShare,
    /// Gain of rate with that share over share 0, or over the reference experiment, per cent.
    BestGainPercent,
    /// Rate that the best share adds to that of the first tier alone, over the rate of the second
    /// tier alone, per cent.
    BestAddedShare,
}

impl Quantity {
    /// Unit for tables, such as "GB/s"; "x" for ratios.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Gbps | Quantity::MeanGbps => "GB/s",
            Quantity::Mops => "M/s",
            Quantity::LatencyNs | Quantity::TierLatencyNs => "ns",
            Quantity::LatencyRatio | Quantity::Ratio => "x",
            Quantity::Utilisation => "of peak",
            Quantity::GainPercent | Quantity::BestGainPercent => "%",
            Quantity::BestShare => "% on second tier",
            Quantity::BestAddedShare => "% of second tier",
        }
    }

    /// Whether the quantity is a gain, so its sign says whether something wins or loses.
    pub fn is_gain(self) -> bool {
        matches!(self, Quantity::GainPercent | Quantity::BestGainPercent)
    }

    /// Whether the share of the second tier is searched, so that no placement is given.
    pub fn is_searched(self) -> bool {
        self.is_share() || self == Quantity::BestGainPercent
    }

    /// Whether errors are points of a hundred and not relative.
    pub fn is_share(self) -> bool {
        matches!(self, Quantity::BestShare | Quantity::BestAddedShare)
    }

    /// Whether the quantity needs a reference experiment.
    pub fn is_relative(self) -> bool {
        matches!(self, Quantity::Ratio | Quantity::GainPercent)
    }

    /// The number on the scale of residuals; `None` if it does not exist there (a ratio of 0).
    ///
    /// Logarithms, for gains of the speed-up (+72 % is 1.72), because errors of rates and times are
    /// relative. Shares stay linear.
    pub fn scaled(self, value: f64) -> Option<f64> {
        let scaled = match self {
            Quantity::GainPercent | Quantity::BestGainPercent => (1.0 + value / 100.0).ln(),
            Quantity::BestShare | Quantity::BestAddedShare => value / 100.0,
            _ => value.ln(),
        };
        scaled.is_finite().then_some(scaled)
    }

    /// Relative error of `modelled`, `modelled / published - 1`; for gains that of the speed-ups;
    /// for shares the difference, as a share.
    pub fn error(self, published: f64, modelled: f64) -> Option<f64> {
        let error = match self {
            Quantity::GainPercent | Quantity::BestGainPercent => {
                (1.0 + modelled / 100.0) / (1.0 + published / 100.0) - 1.0
            }
            Quantity::BestShare | Quantity::BestAddedShare => (modelled - published) / 100.0,
            _ => modelled / published - 1.0,
        };
        error.is_finite().then_some(error)
    }

    /// Whether both values win or both lose.
    ///
    /// `None` if the quantity is no comparison, or the published change is within `noise_percent`,
    /// so that its sign is uncertain.
    pub fn same_sign(self, published: f64, modelled: f64, noise_percent: f64) -> Option<bool> {
        if !self.is_gain() && self != Quantity::Ratio {
            return None;
        }
        let (p, m) = (self.scaled(published)?, self.scaled(modelled)?);
        (p.abs() > (1.0 + noise_percent / 100.0).ln()).then_some(p * m > 0.0)
    }
}

/// Published relation without an exact number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Relation {
    /// Greater than this number.
    Above(f64),
    /// Less than this number.
    Below(f64),
    /// From the first to the second number, both included.
    Between(f64, f64),
    /// At most some distance from a number, on either side.
    Near {
        /// The number, in the unit of the quantity.
        value: f64,
        /// Largest distance from it, per cent.
        within_percent: f64,
    },
}

impl Relation {
    /// Interval that satisfies the relation, in the unit of the quantity.
    pub fn interval(self) -> (f64, f64) {
        match self {
            Relation::Above(low) => (low, f64::INFINITY),
            Relation::Below(high) => (f64::NEG_INFINITY, high),
            Relation::Between(low, high) => (low, high),
            Relation::Near {
                value,
                within_percent,
            } => {
                let away = value.abs() * within_percent / 100.0;
                (value - away, value + away)
            }
        }
    }

    /// Whether a modelled number satisfies the relation.
    pub fn holds(self, modelled: f64) -> bool {
        match self {
            Relation::Above(low) => modelled > low,
            Relation::Below(high) => modelled < high,
            _ => {
                let (low, high) = self.interval();
                (low..=high).contains(&modelled)
            }
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Relation::Above(low) => write!(f, "above {low}"),
            Relation::Below(high) => write!(f, "below {high}"),
            Relation::Between(low, high) => write!(f, "between {low} and {high}"),
            Relation::Near {
                value,
                within_percent,
            } => write!(f, "within {within_percent}% of {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_compared_as_speed_ups_and_shares_in_points() {
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} {b}");
        close(Quantity::GainPercent.error(72.0, 72.0), 0.0);
        close(Quantity::GainPercent.error(100.0, 80.0), -0.1);
        close(Quantity::BestShare.error(40.0, 37.0), -0.03);
        close(Quantity::Gbps.error(50.0, 55.0), 0.1);
    }

    #[test]
    fn a_change_within_the_noise_has_no_sign_to_miss() {
        let sign = |p, m| Quantity::GainPercent.same_sign(p, m, 3.0);
        assert_eq!(sign(-20.0, 1.0), Some(false));
        assert_eq!(sign(-20.0, -1.0), Some(true));
        assert_eq!(sign(1.0, -1.0), None);
        assert_eq!(Quantity::Gbps.same_sign(10.0, 1.0, 3.0), None);
        assert_eq!(Quantity::Ratio.same_sign(1.5, 0.9, 3.0), Some(false));
    }

    #[test]
    fn relations_hold_inside_their_interval() {
        assert!(Relation::Above(0.0).holds(0.1) && !Relation::Above(0.0).holds(0.0));
        assert!(Relation::Below(-1.0).holds(-2.0) && !Relation::Below(-1.0).holds(0.0));
        assert!(Relation::Between(1.0, 2.0).holds(2.0));
        let near = Relation::Near {
            value: -20.0,
            within_percent: 10.0,
        };
        assert!(near.holds(-18.5) && !near.holds(-17.0));
    }
}
