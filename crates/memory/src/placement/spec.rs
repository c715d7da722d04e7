//! Text form of placements.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tierloom_text::{Place, Placement as Written};
use tierloom_topology::{NodeId, TierKind};

use crate::PlacementError;

/// A node or a tier, as named in a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// One NUMA node, by number.
    Node(NodeId),
    /// All nodes of a tier, in equal parts.
    Tier(TierKind),
}

/// A parsed placement, not yet resolved to the nodes of a machine.
///
/// [`tierloom_text::Placement`] has the syntax. Its [`fmt::Display`] form parses back to the same
/// value.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementSpec {
    /// The kernel chooses the node at first touch.
    Default,
    /// All pages on one node or tier.
    Bind(Target),
    /// Rounds of pages; weights are pages per round.
    Weighted(Vec<(Target, u32)>),
    /// Contiguous parts, in per cent of the object's size.
    Partitioned(Vec<(Target, f64)>),
}

impl FromStr for PlacementSpec {
    type Err = PlacementError;

    /// Parses a placement; see [`tierloom_text::Placement`] for the syntax.
    ///
    /// # Errors
    /// [`PlacementError::Text`] for text that is not a placement, [`PlacementError::TierName`] for
    /// a tier of another name than [`TierKind`] has.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        fn named<T>(parts: Vec<(Place, T)>) -> Result<Vec<(Target, T)>, PlacementError> {
            let named = parts
                .into_iter()
                .map(|(place, part)| Ok((target(place)?, part)));
            named.collect()
        }
        Ok(match text.parse().map_err(PlacementError::Text)? {
            Written::Default => Self::Default,
            Written::All(place) => Self::Bind(target(place)?),
            Written::Weights(weights) => Self::Weighted(named(weights)?),
            Written::Parts(parts) => Self::Partitioned(named(parts)?),
        })
    }
}

fn target(place: Place) -> Result<Target, PlacementError> {
    match place {
        Place::Node(number) => Ok(Target::Node(NodeId(number))),
        Place::Tier(name) => match name.parse() {
            Ok(tier) => Ok(Target::Tier(tier)),
            Err(_) => Err(PlacementError::TierName { name }),
        },
    }
}

impl From<Target> for Place {
    fn from(target: Target) -> Place {
        match target {
            Target::Node(node) => Place::Node(node.0),
            Target::Tier(tier) => Place::Tier(tier.to_string()),
        }
    }
}

impl PlacementSpec {
    fn written(&self) -> Written {
        fn named<T: Copy>(parts: &[(Target, T)]) -> Vec<(Place, T)> {
            let named = parts.iter().map(|(target, part)| ((*target).into(), *part));
            named.collect()
        }
        match self {
            Self::Default => Written::Default,
            Self::Bind(target) => Written::All((*target).into()),
            Self::Weighted(weights) => Written::Weights(named(weights)),
            Self::Partitioned(shares) => Written::Parts(named(shares)),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "{node}"),
            Self::Tier(tier) => write!(f, "{tier}"),
        }
    }
}

impl fmt::Display for PlacementSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written().fmt(f)
    }
}

impl Serialize for PlacementSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PlacementSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
