//! Interleaving weights of tiers: pages per round, as the kernel and `numactl` count them.
//!
//! Whole numbers, because that is what interfaces of the kernel accept; the model itself works with
//! shares.

use crate::error::ModelError;
use crate::work::TierShares;
use std::fmt;
use std::str::FromStr;

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

    /// Parses `3:2` for the first of `tiers`, or names in any order.
    ///
    /// Named weights are written `cxl=2,dram=3` or, as printed, `dram 3, cxl 2`. The result has the
    /// order of `tiers`.
    ///
    /// # Errors
    /// [`ModelError::Weights`] if the text has neither form, names a tier that is not in `tiers`,
    /// has more numbers than tiers, or has no weight above 0.
    pub fn parse(text: &str, tiers: &[String]) -> Result<Self, ModelError> {
        let fail = |reason| {
            let weights = format!("{text:?} for {}", tiers.join(", "));
            Err(ModelError::Weights { weights, reason })
        };
        let numbers: Option<Vec<u32>> = text.split(':').map(|n| n.trim().parse().ok()).collect();
        if let Some(numbers) = numbers {
            if numbers.len() > tiers.len() {
                return fail("more numbers than tiers");
            }
            return Weights::new(tiers.iter().cloned().zip(numbers));
        }
        let named: Weights = text.parse()?;
        if named.0.iter().any(|(tier, _)| !tiers.contains(tier)) {
            return fail("a tier that is not among those");
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

/// Parses weights by name: `dram=3,cxl=2` or, as printed, `dram 3, cxl 2`.
///
/// For bare numbers see [`Weights::parse`].
impl FromStr for Weights {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let part = |part: &str| {
            let part = part.trim();
            let (tier, weight) = part.split_once('=').or_else(|| part.rsplit_once(' '))?;
            Some((tier.trim().to_owned(), weight.trim().parse().ok()?))
        };
        let parts: Option<Vec<(String, u32)>> = text.split(',').map(part).collect();
        match parts {
            Some(parts) => Weights::new(parts),
            None => Err(ModelError::Weights {
                weights: format!("{text:?}"),
                reason: "expected tiers with whole numbers, as dram=3,cxl=2",
            }),
        }
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
            "dram=3,cxl=2",
            "cxl=2, dram=3",
            "dram 3, cxl 2",
        ] {
            assert_eq!(Weights::parse(text, &tiers()).unwrap(), three_two, "{text}");
        }
        assert_eq!(three_two.to_string(), "dram 3, cxl 2");
        assert_eq!(
            Weights::parse("1:0", &tiers()).unwrap().to_string(),
            "dram 1"
        );
        assert_eq!(Weights::parse("5", &tiers()).unwrap().share("dram"), 1.0);
    }

    #[test]
    fn wrong_weights_are_named() {
        for (text, reason) in [
            ("0:0", "no weight is above 0"),
            ("1:2:3", "more numbers than tiers"),
            ("hbm=1", "not among those"),
            ("dram=1,dram=2", "named twice"),
            ("dram=-1", "whole numbers"),
            ("", "whole numbers"),
            ("3:2.5", "whole numbers"),
        ] {
            let message = Weights::parse(text, &tiers()).unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }
}
