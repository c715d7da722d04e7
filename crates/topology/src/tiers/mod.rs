//! Memory tiers: nodes grouped by kind of memory, relative to the CPUs of this process.

mod classify;
mod overrides;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::{IdSet, NodeId};

pub(crate) use classify::classify;
pub(crate) use overrides::override_tiers;

/// Kinds of memory, as seen from the CPUs that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TierKind {
    /// Memory of a socket that has such CPUs.
    Dram,
    /// High-bandwidth memory: a node without CPUs and with more bandwidth than DRAM.
    Hbm,
    /// CXL-attached memory, or other memory without CPUs that is slower than DRAM.
    Cxl,
    /// Memory of another socket.
    Remote,
}

impl TierKind {
    /// All kinds, in the order in which tiers are listed.
    pub const ALL: [Self; 4] = [Self::Dram, Self::Hbm, Self::Cxl, Self::Remote];
}

impl fmt::Display for TierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dram => "dram",
            Self::Hbm => "hbm",
            Self::Cxl => "cxl",
            Self::Remote => "remote",
        })
    }
}

/// A word that is not the name of a tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no tier; tiers are dram, hbm, cxl and remote")]
pub struct ParseTierKindError(pub String);

impl FromStr for TierKind {
    type Err = ParseTierKindError;

    /// Parses the name of a tier; case does not matter.
    fn from_str(word: &str) -> Result<Self, ParseTierKindError> {
        let lower = word.trim().to_ascii_lowercase();
        let known = Self::ALL.into_iter().find(|kind| kind.to_string() == lower);
        known.ok_or_else(|| ParseTierKindError(word.to_owned()))
    }
}

/// Nodes with the same kind of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryTier {
    /// Kind of memory of the nodes.
    pub kind: TierKind,
    /// Nodes with memory, in ascending order; never empty.
    pub nodes: Vec<NodeId>,
    /// Why these nodes are in the tier, with the evidence, for users.
    pub reason: String,
}

impl MemoryTier {
    /// The nodes in list syntax, such as `2-5`.
    pub fn node_list(&self) -> IdSet {
        self.nodes.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_names_parse_back() {
        for kind in TierKind::ALL {
            assert_eq!(
                kind.to_string().to_uppercase().parse::<TierKind>(),
                Ok(kind)
            );
        }
        assert!(
            "nvm"
                .parse::<TierKind>()
                .unwrap_err()
                .to_string()
                .contains("dram, hbm, cxl and remote")
        );
    }
}
