//! Resolves tiers and node numbers of a placement to the nodes of one machine.

use tierloom_topology::{NodeId, TierKind, Topology};

use super::{Placement, PlacementSpec, Target};
use crate::PlacementError;

impl PlacementSpec {
    /// Resolves the placement on `topology`.
    ///
    /// The weight of a tier is split evenly over its nodes. All weights are scaled by the smallest
    /// factor that keeps the ratio exact: `dram:3,cxl:2` with four cxl nodes is
    /// `0:6,2:1,3:1,4:1,5:1`. A tier of weight 0 need not exist, so `1:0` works everywhere.
    ///
    /// # Errors
    /// [`PlacementError`] for nodes that are unknown, without memory, outside the cpuset or named
    /// twice, for tiers that the machine lacks, and for weights that are all 0 or overflow when
    /// scaled.
    pub fn resolve(&self, topology: &Topology) -> Result<Placement, PlacementError> {
        match self {
            Self::Default => Ok(Placement::kernel_default()),
            Self::Bind(target) => self.resolve_weights(topology, &[(*target, 1)]),
            Self::Weighted(weights) => self.resolve_weights(topology, weights),
            Self::Partitioned(shares) => self.resolve_shares(topology, shares),
        }
    }

    fn resolve_weights(
        &self,
        topology: &Topology,
        weights: &[(Target, u32)],
    ) -> Result<Placement, PlacementError> {
        let mut parts: Vec<(Vec<NodeId>, u64)> = Vec::with_capacity(weights.len());
        let mut scale = 1_u64;
        for (target, weight) in weights {
            let nodes = if *weight == 0 && matches!(target, Target::Tier(_)) {
                Vec::new()
            } else {
                nodes_of(topology, *target)?
            };
            if nodes.is_empty() {
                continue;
            }
            let count = nodes.len() as u64;
            let weight = u64::from(*weight);
            // The smallest factor by which this weight divides evenly among the tier's nodes; the
            // scale is the least common multiple of all of them.
            let needed = count / gcd(weight, count).max(1);
            scale = scale
                .checked_mul(needed / gcd(scale, needed))
                .ok_or_else(|| self.too_large())?;
            parts.push((nodes, weight));
        }
        let mut scaled = Vec::new();
        for (nodes, weight) in parts {
            let count = nodes.len() as u64;
            let per_node = weight.checked_mul(scale).ok_or_else(|| self.too_large())? / count;
            let per_node = u32::try_from(per_node).map_err(|_| self.too_large())?;
            scaled.extend(nodes.into_iter().map(|node| (node, per_node)));
        }
        self.named(Placement::weighted(scaled))
    }

    fn resolve_shares(
        &self,
        topology: &Topology,
        shares: &[(Target, f64)],
    ) -> Result<Placement, PlacementError> {
        let mut parts = Vec::new();
        for (target, share) in shares {
            if *share <= 0.0 && matches!(target, Target::Tier(_)) {
                continue;
            }
            let nodes = nodes_of(topology, *target)?;
            let per_node = share / nodes.len() as f64;
            parts.extend(nodes.into_iter().map(|node| (node, per_node)));
        }
        self.named(Placement::partitioned(parts))
    }

    fn too_large(&self) -> PlacementError {
        PlacementError::WeightsTooLarge {
            text: self.to_string(),
        }
    }

    /// Makes errors quote the text as given instead of the resolved numbers.
    fn named(
        &self,
        result: Result<Placement, PlacementError>,
    ) -> Result<Placement, PlacementError> {
        result.map_err(|error| match error {
            PlacementError::NothingPlaced { .. } => PlacementError::NothingPlaced {
                text: self.to_string(),
            },
            PlacementError::NodeTwice { node, .. } => PlacementError::NodeTwice {
                text: self.to_string(),
                node,
            },
            other => other,
        })
    }
}

fn nodes_of(topology: &Topology, target: Target) -> Result<Vec<NodeId>, PlacementError> {
    match target {
        Target::Node(node) => check_node(topology, node).map(|()| vec![node]),
        Target::Tier(kind) => {
            let nodes = tier_nodes(topology, kind)?;
            nodes
                .iter()
                .try_for_each(|node| check_node(topology, *node))?;
            Ok(nodes)
        }
    }
}

/// The nodes of a tier that have memory; a node whose memory is offline is not counted.
fn tier_nodes(topology: &Topology, kind: TierKind) -> Result<Vec<NodeId>, PlacementError> {
    let with_memory = topology.memory_nodes();
    let nodes: Vec<NodeId> = topology
        .tier(kind)
        .map(|tier| {
            tier.nodes
                .iter()
                .copied()
                .filter(|node| with_memory.contains(node))
                .collect()
        })
        .unwrap_or_default();
    if nodes.is_empty() {
        let existing: Vec<String> = topology
            .tiers
            .iter()
            .map(|tier| format!("{} (nodes {})", tier.kind, list(&tier.nodes)))
            .collect();
        return Err(PlacementError::UnknownTier {
            tier: kind,
            existing: existing.join(", "),
        });
    }
    Ok(nodes)
}

/// Checks that `node` exists, has memory and may be used by this process.
pub(crate) fn check_node(topology: &Topology, node: NodeId) -> Result<(), PlacementError> {
    if topology.node(node).is_none() {
        let all: Vec<NodeId> = topology.nodes.iter().map(|node| node.id).collect();
        return Err(PlacementError::UnknownNode {
            node,
            existing: list(&all),
        });
    }
    let with_memory = topology.memory_nodes();
    if !with_memory.contains(&node) {
        return Err(PlacementError::NodeWithoutMemory {
            node,
            with_memory: list(&with_memory),
        });
    }
    if !topology.limits.mems_allowed.contains(node.0) {
        return Err(PlacementError::NodeForbidden {
            node,
            allowed: topology.limits.mems_allowed.to_string(),
        });
    }
    Ok(())
}

/// Node numbers in the kernel's list syntax: `0-3,6`.
pub(crate) fn list(nodes: &[NodeId]) -> String {
    let mut numbers: Vec<u32> = nodes.iter().map(|node| node.0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let ranges: Vec<String> = numbers
        .chunk_by(|left, right| left + 1 == *right)
        .map(|range| match range {
            [first, .., last] => format!("{first}-{last}"),
            other => other.iter().map(u32::to_string).collect(),
        })
        .collect();
    ranges.join(",")
}

fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 {
        left
    } else {
        gcd(right, left % right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_lists_read_like_numactl() {
        let nodes: Vec<NodeId> = [2, 0, 1, 6, 3].into_iter().map(NodeId).collect();
        assert_eq!(list(&nodes), "0-3,6");
        assert_eq!(list(&[NodeId(4)]), "4");
    }
}
