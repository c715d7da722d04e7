//! Interleaving weights of tiers: pages per round, as the kernel and `numactl` count them.
//!
//! Whole numbers, because that is what interfaces of the kernel accept; the model itself works with
//! shares.

use crate::error::ModelError;
use crate::work::TierShares;
use std::fmt;
use std::str::FromStr;
use tierloom_text::{Place, Placement};

/// Integer weights of tiers, reduced by their greatest common divisor.
///
/// Tiers of weight 0 are left out, so equal ratios in the same order of tiers compare equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Weights(Vec<(String, u32)>);

impl Weights {
    /// Weights of the named tiers.
    ///
    /// # Errors
    /// [`ModelError::Weights`] if no weight is above 0, a tier has an empty name, or a tier is
    /// named twice.
    pub fn new<T: Into<String>>(
        weights: impl IntoIterator<Item = (T, u32)>,
    ) -> Result<Self, ModelError> {
        let all: Vec<(String, u32)> = weights.into_iter().map(|(t, w)| (t.into(), w)).collect();
        let fail = |reason| {
            let list: Vec<String> = all.iter().map(|(t, w)| format!("{t} {w}")).collect();
            let weights = format!("[{}]", list.join(", "));
            Err(ModelError::Weights { weights, reason })
        };
        let divisor = all.iter().fold(0, |d, (_, w)| gcd(d, *w));
        if divisor == 0 {
            return fail("no weight is above 0");
        }
        if all.iter().any(|(tier, _)| tier.is_empty()) {
            return fail("a tier has no name");
        }
        if (1..all.len()).any(|i| all[..i].iter().any(|(tier, _)| *tier == all[i].0)) {
            return fail("a tier is named twice");
        }
        let used = all.into_iter().filter(|(_, w)| *w > 0);
        Ok(Weights(used.map(|(t, w)| (t, w / divisor)).collect()))
    }

    /// Parses weights of some of `tiers`, in any order and in every spelling of weights that
    /// [`tierloom_text::Placement`] has; one tier alone gets all.
    ///
    /// The result has the order of `tiers`.
    ///
    /// # Errors
    /// [`ModelError::Text`] for text that is no placement, [`ModelError::Weights`] if it has no
    /// weights, names nodes, or names a tier that is not in `tiers`.
    pub fn parse(text: &str, tiers: &[String]) -> Result<Self, ModelError> {
        let named: Weights = text.parse()?;
        if named.0.iter().any(|(tier, _)| !tiers.contains(tier)) {
            let weights = format!("{text:?} for {}", tiers.join(", "));
            let reason = "a tier that is not among those";
            return Err(ModelError::Weights { weights, reason });
        }
        Weights::new(tiers.iter().map(|tier| (tier.clone(), named.weight(tier))))
    }

    /// Weight of `tier`; 0 if it holds no pages.
    pub fn weight(&self, tier: &str) -> u32 {
        self.0
            .iter()
            .find(|(t, _)| t == tier)
            .map_or(0, |(_, w)| *w)
    }

    /// Share of the pages on `tier`, 0 to 1.
    pub fn share(&self, tier: &str) -> f64 {
        f64::from(self.weight(tier)) / self.total()
    }

    /// Tiers with their weights, all above 0.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(tier, weight)| (tier.as_str(), *weight))
    }

    /// The weights as shares that sum to 1.
    pub fn shares(&self) -> TierShares {
        let weights: Vec<(&str, f64)> = self.iter().map(|(t, w)| (t, f64::from(w))).collect();
        // The constructor has ruled out every error; the fallback only avoids a panic.
        TierShares::from_weights(&weights).unwrap_or_else(|_| TierShares::all(self.0[0].0.clone()))
    }

    /// Shares in the order of `tiers`; 0 for tiers without a weight.
    pub(crate) fn shares_of(&self, tiers: &[String]) -> Vec<f64> {
        tiers.iter().map(|tier| self.share(tier)).collect()
    }

    fn total(&self) -> f64 {
        self.0.iter().map(|(_, w)| f64::from(*w)).sum()
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.iter().map(|(t, w)| format!("{t} {w}")).collect();
        f.pad(&parts.join(", "))
    }
}

/// Parses weights of tiers as [`tierloom_text::Placement`] writes them, and as they are printed:
/// `3:2`, `dram:3,cxl:2`, `dram 3, cxl 2`.
impl FromStr for Weights {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let fail = |reason| {
            let weights = format!("{text:?}");
            Err(ModelError::Weights { weights, reason })
        };
        let weights = match text.parse().map_err(ModelError::Text)? {
            Placement::Weights(weights) => weights,
            Placement::All(place) => vec![(place, 1)],
            Placement::Parts(_) => {
                return fail("contiguous parts are no weights of interleaved pages");
            }
            Placement::Default => return fail("the default has no weights"),
        };
        if weights
            .iter()
            .any(|(place, _)| matches!(place, Place::Node(_)))
        {
            return fail("weights are of tiers here, and not of nodes");
        }
        Weights::new(weights.into_iter().map(|(place, w)| (place.to_string(), w)))
    }
}

/// Greatest common divisor; gcd(0, x) is x.
pub(super) fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers() -> Vec<String> {
        vec!["dram".into(), "cxl".into()]
    }

    #[test]
    fn weights_are_read_in_every_form_and_reduced() {
        let three_two = Weights::new([("dram", 3), ("cxl", 2)]).unwrap();
        for text in [
            "3:2",
            "6:4",
            "dram:3,cxl:2",
            "cxl:2, dram:3",
            "dram 3, cxl 2",
        ] {
            assert_eq!(Weights::parse(text, &tiers()).unwrap(), three_two, "{text}");
        }
        assert_eq!(three_two.to_string(), "dram 3, cxl 2");
        assert_eq!(
            Weights::parse("1:0", &tiers()).unwrap().to_string(),
            "dram 1"
        );
        assert_eq!(Weights::parse("cxl", &tiers()).unwrap().share("cxl"), 1.0);
    }

    #[test]
    fn wrong_weights_are_named() {
        for (text, reason) in [
            ("0:0", "no weight is above 0"),
            ("1:2:3", "two numbers"),
            ("hbm:1", "not among those"),
            ("dram:1,dram:2", "named twice"),
            ("dram=3,cxl=2", "a colon"),
            ("dram=60%,cxl=40%", "contiguous parts"),
            ("dram:-1", "whole number"),
            ("0:3,2:2", "not of nodes"),
            ("5", "not of nodes"),
            ("default", "no weights"),
            ("", "missing"),
            ("3:2.5", "whole number"),
        ] {
            let message = Weights::parse(text, &tiers()).unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }
}
