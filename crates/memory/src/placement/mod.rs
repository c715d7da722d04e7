//! Placements: which node each page of an object goes to.
//!
//! [`PlacementSpec`] is the parsed text, in terms of tiers or nodes; [`Placement`] is the same
//! resolved to the nodes of one machine; [`Run`]s are the stretches of consecutive pages on one
//! node that follow from it.
//!
//! ```text
//! "3:2" --parse--> PlacementSpec --resolve(topology)--> Placement 0:3,2:2
//!                                --runs(pages)--------> 000 22 000 22 ...
//! ```

mod error;
mod resolve;
mod runs;
mod spec;

use std::fmt;

use serde::{Serialize, Serializer};
use tierloom_topology::NodeId;

pub use error::PlacementError;
pub(crate) use resolve::{check_node, list};
pub use runs::{Run, Runs};
pub use spec::{PlacementSpec, Target};

/// A placement resolved to the nodes of one machine.
///
/// The constructors guarantee that it places pages somewhere: weights are positive, shares add up
/// to one, no node is named twice. Its text form ([`fmt::Display`], also used when serialised) is
/// the syntax of [`PlacementSpec`] with node numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    kind: PlacementKind,
}

/// The kinds of [`Placement`], with their numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementKind {
    /// No policy: the kernel chooses at first touch.
    Default,
    /// All pages on one node, with no fallback to another.
    Bind(NodeId),
    /// Weighted rounds: this many consecutive pages on the first node, this many on the second, and
    /// so on, then from the start again.
    Weighted(Vec<(NodeId, u32)>),
    /// Contiguous parts: the first share of the object on the first node, the next on the second.
    /// Shares are fractions of 1.
    Partitioned(Vec<(NodeId, f64)>),
}

impl Placement {
    /// No policy: the kernel chooses the node at first touch.
    pub fn kernel_default() -> Self {
        Self {
            kind: PlacementKind::Default,
        }
    }

    /// All pages on `node`, with no fallback to another.
    pub fn bind(node: NodeId) -> Self {
        Self {
            kind: PlacementKind::Bind(node),
        }
    }

    /// Weighted rounds of pages. Nodes of weight 0 are dropped; if one node is left, it is a bind.
    ///
    /// # Errors
    /// [`PlacementError::NothingPlaced`] if all weights are 0, [`PlacementError::NodeTwice`] for a
    /// repeated node.
    pub fn weighted(weights: Vec<(NodeId, u32)>) -> Result<Self, PlacementError> {
        let text = join(&weights, |(node, weight)| format!("{node}:{weight}"));
        let kept: Vec<_> = weights
            .into_iter()
            .filter(|(_, weight)| *weight > 0)
            .collect();
        reject_repeats(&text, kept.iter().map(|(node, _)| *node))?;
        match kept.as_slice() {
            [] => Err(PlacementError::NothingPlaced { text }),
            [(node, _)] => Ok(Self::bind(*node)),
            _ => Ok(Self {
                kind: PlacementKind::Weighted(kept),
            }),
        }
    }

    /// Contiguous parts by share.
    ///
    /// Shares may be any positive numbers, and are scaled to add up to one; if one node is left, it
    /// is a bind.
    ///
    /// # Errors
    /// [`PlacementError::NothingPlaced`] if no share is positive, [`PlacementError::NodeTwice`] for
    /// a repeated node.
    pub fn partitioned(shares: Vec<(NodeId, f64)>) -> Result<Self, PlacementError> {
        let text = join(&shares, |(node, share)| format!("{node}={share}"));
        let mut kept: Vec<_> = shares
            .into_iter()
            .filter(|(_, share)| share.is_finite() && *share > 0.0)
            .collect();
        reject_repeats(&text, kept.iter().map(|(node, _)| *node))?;
        let sum: f64 = kept.iter().map(|(_, share)| share).sum();
        match kept.as_slice() {
            [] => Err(PlacementError::NothingPlaced { text }),
            [(node, _)] => Ok(Self::bind(*node)),
            _ => {
                kept.iter_mut().for_each(|(_, share)| *share /= sum);
                Ok(Self {
                    kind: PlacementKind::Partitioned(kept),
                })
            }
        }
    }

    /// The kind of placement, with its numbers.
    pub fn kind(&self) -> &PlacementKind {
        &self.kind
    }

    /// Share of the pages on each node, as fractions of 1 in placement order; empty where the
    /// kernel chooses.
    pub fn shares(&self) -> Vec<(NodeId, f64)> {
        match &self.kind {
            PlacementKind::Default => Vec::new(),
            PlacementKind::Bind(node) => vec![(*node, 1.0)],
            PlacementKind::Weighted(weights) => {
                let round: f64 = weights.iter().map(|(_, weight)| f64::from(*weight)).sum();
                weights
                    .iter()
                    .map(|(node, weight)| (*node, f64::from(*weight) / round))
                    .collect()
            }
            PlacementKind::Partitioned(shares) => shares.clone(),
        }
    }

    /// The nodes that get pages, in placement order; empty where the kernel chooses.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.shares().into_iter().map(|(node, _)| node).collect()
    }

    /// Pages in one round of the weights; 1 for the other kinds.
    pub fn round_pages(&self) -> u64 {
        match &self.kind {
            PlacementKind::Weighted(weights) => {
                weights.iter().map(|(_, weight)| u64::from(*weight)).sum()
            }
            _ => 1,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PlacementKind::Default => f.write_str("default"),
            PlacementKind::Bind(node) => write!(f, "{node}"),
            PlacementKind::Weighted(weights) => {
                f.write_str(&join(weights, |(node, weight)| format!("{node}:{weight}")))
            }
            // Six decimals keep shares such as a third readable.
            PlacementKind::Partitioned(shares) => f.write_str(&join(shares, |(node, share)| {
                format!("{node}={}%", (share * 1e8).round() / 1e6)
            })),
        }
    }
}

impl Serialize for Placement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn join<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(",")
}

fn reject_repeats(text: &str, nodes: impl Iterator<Item = NodeId>) -> Result<(), PlacementError> {
    let mut seen = std::collections::BTreeSet::new();
    for node in nodes {
        if !seen.insert(node) {
            return Err(PlacementError::NodeTwice {
                text: text.to_owned(),
                node,
            });
        }
    }
    Ok(())
}
