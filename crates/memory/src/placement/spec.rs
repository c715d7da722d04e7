//! Text form of placements.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tierloom_topology::{NodeId, TierKind};

use crate::PlacementError;

/// Largest weight of one part; far above the kernel's own limit of 255.
const MAX_WEIGHT: u32 = 10_000;
/// Largest deviation of the sum of shares from 100 %: three thirds are typed as 33.3%.
const SHARE_SUM_TOLERANCE_PERCENT: f64 = 0.2;

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
/// | text | meaning |
/// |---|---|
/// | `default` | no policy: the kernel's choice on first touch |
/// | `0`, `dram`, `cxl` | all pages on that node or tier |
/// | `0:3,2:2`, `dram:3,cxl:2` | rounds of 3 pages, then 2 |
/// | `3:2` | `dram:3,cxl:2` (the notation of the literature); so `0:1` alone means all on cxl |
/// | `0=70%,2=30%` | the first 70% of the object on node 0, the rest on node 2 |
///
/// Its [`fmt::Display`] form parses back to the same value.
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

    /// Parses a placement; see [`PlacementSpec`] for the syntax.
    ///
    /// # Errors
    /// [`PlacementError::Syntax`] with the part that cannot be read,
    /// [`PlacementError::NothingPlaced`] if all weights are 0, [`PlacementError::ShareSum`] if the
    /// shares do not add up to 100%.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let compact = text.trim().to_ascii_lowercase();
        if compact == "default" {
            return Ok(Self::Default);
        }
        let pieces: Vec<&str> = compact.split(',').map(str::trim).collect();
        let reader = Reader { text };
        match pieces.as_slice() {
            [one] if !one.contains([':', '=']) => Ok(Self::Bind(reader.target(one, one)?)),
            // Before weights: `0:3` alone is a ratio, and not node 0 with a weight.
            [one] if reader.is_ratio(one) => reader.ratio(one),
            _ if pieces.iter().any(|piece| piece.contains('=')) => reader.shares(&pieces),
            _ => reader.weights(&pieces),
        }
    }
}

/// Parses the parts of one text; errors quote both the whole and the part.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn syntax(&self, piece: &str, reason: impl Into<String>) -> PlacementError {
        PlacementError::Syntax {
            text: self.text.to_owned(),
            piece: piece.to_owned(),
            reason: reason.into(),
        }
    }

    fn target(&self, word: &str, piece: &str) -> Result<Target, PlacementError> {
        if word.is_empty() {
            return Err(self.syntax(piece, "a node or tier is missing"));
        }
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            return match word.parse() {
                Ok(number) => Ok(Target::Node(NodeId(number))),
                Err(_) => Err(self.syntax(piece, "the node number is too large")),
            };
        }
        match word.parse::<TierKind>() {
            Ok(tier) => Ok(Target::Tier(tier)),
            Err(_) => Err(self.syntax(
                piece,
                format!("`{word}` is neither a node number nor a tier (dram, hbm, cxl, remote)"),
            )),
        }
    }

    /// Whether the text is a ratio such as `3:2`: only numbers between the colons, no comma.
    fn is_ratio(&self, piece: &str) -> bool {
        let is_number = |part: &str| {
            !part.trim().is_empty() && part.trim().bytes().all(|byte| byte.is_ascii_digit())
        };
        piece.contains(':') && piece.split(':').all(is_number)
    }

    fn ratio(&self, piece: &str) -> Result<PlacementSpec, PlacementError> {
        let weights = piece
            .split(':')
            .map(|part| self.weight(part.trim(), piece))
            .collect::<Result<Vec<_>, _>>()?;
        let [dram, cxl] = weights.as_slice() else {
            return Err(self.syntax(piece, "a ratio has two numbers (dram:cxl); for more tiers name them, as in dram:3,cxl:2,remote:1"));
        };
        self.placed(vec![
            (Target::Tier(TierKind::Dram), *dram),
            (Target::Tier(TierKind::Cxl), *cxl),
        ])
    }

    fn weights(&self, pieces: &[&str]) -> Result<PlacementSpec, PlacementError> {
        let mut weights = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let Some((word, number)) = piece.split_once(':') else {
                return Err(self.syntax(piece, "a weight is missing, as in `0:3`"));
            };
            weights.push((
                self.target(word.trim(), piece)?,
                self.weight(number.trim(), piece)?,
            ));
        }
        self.placed(weights)
    }

    fn placed(&self, weights: Vec<(Target, u32)>) -> Result<PlacementSpec, PlacementError> {
        if weights.iter().all(|(_, weight)| *weight == 0) {
            return Err(PlacementError::NothingPlaced {
                text: self.text.to_owned(),
            });
        }
        Ok(PlacementSpec::Weighted(weights))
    }

    fn weight(&self, number: &str, piece: &str) -> Result<u32, PlacementError> {
        match number.parse::<u32>() {
            Ok(weight) if weight <= MAX_WEIGHT && !number.starts_with('+') => Ok(weight),
            _ => Err(self.syntax(
                piece,
                format!("`{number}` is not a weight (a whole number from 0 to {MAX_WEIGHT})"),
            )),
        }
    }

    fn shares(&self, pieces: &[&str]) -> Result<PlacementSpec, PlacementError> {
        let mut shares = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let Some((word, number)) = piece.split_once('=') else {
                return Err(self.syntax(
                    piece,
                    "a share is missing, as in `0=70%`; weights and shares do not mix",
                ));
            };
            let digits = number.trim().strip_suffix('%').unwrap_or("").trim();
            let share = match digits.parse::<f64>() {
                // `parse` accepts `-0` and a leading `+`; NaN is not in the range.
                Ok(share) if (0.0..=100.0).contains(&share) && !digits.starts_with(['-', '+']) => {
                    share
                }
                _ => {
                    return Err(self.syntax(
                        piece,
                        format!("`{}` is not a share from 0% to 100%", number.trim()),
                    ));
                }
            };
            shares.push((self.target(word.trim(), piece)?, share));
        }
        let sum_percent: f64 = shares.iter().map(|(_, share)| share).sum();
        if (sum_percent - 100.0).abs() > SHARE_SUM_TOLERANCE_PERCENT {
            return Err(PlacementError::ShareSum {
                text: self.text.to_owned(),
                sum_percent,
            });
        }
        Ok(PlacementSpec::Partitioned(shares))
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
        match self {
            Self::Default => f.write_str("default"),
            Self::Bind(target) => write!(f, "{target}"),
            // A single `0:3` would be parsed as a dram:cxl ratio; all pages on one node is a bind.
            Self::Weighted(weights) if matches!(weights.as_slice(), [(Target::Node(_), _)]) => {
                write!(f, "{}", weights[0].0)
            }
            Self::Weighted(weights) => f.write_str(&super::join(weights, |(target, weight)| {
                format!("{target}:{weight}")
            })),
            Self::Partitioned(shares) => f.write_str(&super::join(shares, |(target, share)| {
                format!("{target}={share}%")
            })),
        }
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
