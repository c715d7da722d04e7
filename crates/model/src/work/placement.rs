//! Placements: the share of each structure's pages on each tier.
//!
//! The unit is the share of a structure's pages; which page is on which tier is not modelled.

use super::{Access, StructureClass};
use crate::error::ModelError;
use crate::machine::{TIER_NAMES, nearest_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use tierloom_text::{Place, Placement as Text};

/// Share of a structure's pages on one tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierShare {
    /// Name of the tier, as in the machine profile.
    pub tier: String,
    /// Share of the pages, above 0 and at most 1.
    pub share: f64,
}

/// Shares of tiers that sum to 1; every tier is named once.
///
/// Pages are small compared with a structure, so over a phase each tier gets its share of the
/// accesses, whatever the order of the pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<TierShare>", into = "Vec<TierShare>")]
pub struct TierShares(Vec<TierShare>);

impl TierShares {
    /// All pages on one tier.
    pub fn all(tier: impl Into<String>) -> Self {
        TierShares(vec![TierShare {
            tier: tier.into(),
            share: 1.0,
        }])
    }

    /// Shares in the ratio of the weights; tiers of weight 0 are left out.
    ///
    /// # Errors
    /// [`ModelError::Weights`] if no weight is above 0, one is negative or not finite, or a tier is
    /// named twice.
    pub fn from_weights(weights: &[(&str, f64)]) -> Result<Self, ModelError> {
        let fail = |reason| {
            let list = weights
                .iter()
                .map(|(tier, weight)| format!("{tier} {weight}"))
                .collect::<Vec<_>>()
                .join(", ");
            Err(ModelError::Weights {
                weights: format!("[{list}]"),
                reason,
            })
        };
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        if weights
            .iter()
            .any(|(_, weight)| !weight.is_finite() || *weight < 0.0)
            || !sum.is_finite()
        {
            return fail("a weight is negative or not finite");
        }
        if sum <= 0.0 {
            return fail("no weight is above 0");
        }
        if weights
            .iter()
            .enumerate()
            .any(|(i, (tier, _))| weights[..i].iter().any(|(other, _)| other == tier))
        {
            return fail("a tier is named twice");
        }
        let used = weights.iter().filter(|(_, weight)| *weight > 0.0);
        Ok(TierShares(
            used.map(|(tier, weight)| TierShare {
                tier: (*tier).to_owned(),
                share: weight / sum,
            })
            .collect(),
        ))
    }

    /// Shares of the tiers that `placement` names.
    ///
    /// The model knows a placement by the share of the bytes that each tier holds, as if all of the
    /// object were accessed all the time. So contiguous parts count as the interleaving with the
    /// same shares. `default` is all DRAM, where the kernel puts pages that no policy covers.
    ///
    /// # Errors
    /// [`ModelError::Place`] for a node or a name that no tier has, [`ModelError::Weights`] if a
    /// tier is named twice.
    pub fn of(placement: &Text) -> Result<Self, ModelError> {
        let (places, weights): (Vec<&Place>, Vec<f64>) = match placement {
            Text::Default => return Ok(Self::all("dram")),
            Text::All(place) => (vec![place], vec![1.0]),
            Text::Weights(weights) => weights.iter().map(|(p, w)| (p, f64::from(*w))).unzip(),
            Text::Parts(parts) => parts.iter().map(|(p, share)| (p, *share)).unzip(),
        };
        let tier = |place: &Place| match TIER_NAMES.iter().find(|t| **t == place.to_string()) {
            Some(tier) => Ok(*tier),
            None => Err(ModelError::Place {
                place: place.to_string(),
                known: nearest_of(&place.to_string(), TIER_NAMES.iter().copied()),
            }),
        };
        let tiers = places
            .into_iter()
            .map(tier)
            .collect::<Result<Vec<_>, _>>()?;
        let weights: Vec<(&str, f64)> = tiers.into_iter().zip(weights).collect();
        Self::from_weights(&weights)
    }

    /// Shares in the order given, all above 0.
    pub fn iter(&self) -> impl Iterator<Item = &TierShare> {
        self.0.iter()
    }

    /// Share of `tier`; 0 if it holds no pages.
    pub fn share(&self, tier: &str) -> f64 {
        self.0
            .iter()
            .find(|s| s.tier == tier)
            .map_or(0.0, |s| s.share)
    }
}

impl TryFrom<Vec<TierShare>> for TierShares {
    type Error = ModelError;

    fn try_from(shares: Vec<TierShare>) -> Result<Self, ModelError> {
        let weights: Vec<(&str, f64)> = shares.iter().map(|s| (s.tier.as_str(), s.share)).collect();
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        // Shares written with few digits need not sum to exactly 1.
        if (sum - 1.0).abs() > 1e-6 {
            return Err(ModelError::Weights {
                weights: format!("{shares:?}"),
                reason: "stored shares do not sum to 1",
            });
        }
        TierShares::from_weights(&weights)?;
        Ok(TierShares(shares))
    }
}

impl From<TierShares> for Vec<TierShare> {
    fn from(shares: TierShares) -> Self {
        shares.0
    }
}

impl fmt::Display for TierShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|s| format!("{}={:.1}%", s.tier, s.share * 100.0))
            .collect();
        f.pad(&parts.join(","))
    }
}

/// Placement of structures on tiers.
///
/// A structure is looked up by name, then by class; otherwise the default applies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Shares of every structure that no other entry covers.
    pub default: TierShares,
    /// Shares by the name of the structure; take precedence over `by_class`.
    #[serde(default)]
    pub by_structure: BTreeMap<String, TierShares>,
    /// Shares by the class of the structure.
    #[serde(default)]
    pub by_class: BTreeMap<StructureClass, TierShares>,
}

impl Placement {
    /// Placement of every structure by `default`.
    pub fn new(default: TierShares) -> Self {
        Placement {
            default,
            by_structure: BTreeMap::new(),
            by_class: BTreeMap::new(),
        }
    }

    /// The placement with other shares for a class of structures.
    pub fn with_class(mut self, class: StructureClass, shares: TierShares) -> Self {
        self.by_class.insert(class, shares);
        self
    }

    /// The placement with other shares for one structure.
    pub fn with_structure(mut self, structure: impl Into<String>, shares: TierShares) -> Self {
        self.by_structure.insert(structure.into(), shares);
        self
    }

    /// Shares of the structure that `access` refers to.
    pub fn shares(&self, access: &Access) -> &TierShares {
        self.by_structure
            .get(&access.structure)
            .or_else(|| self.by_class.get(&access.class))
            .unwrap_or(&self.default)
    }
}
