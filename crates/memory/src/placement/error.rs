//! Errors of placements and page sizes.

use tierloom_topology::{NodeId, TierKind};

/// A placement or page size that cannot be parsed, or that this machine cannot provide.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlacementError {
    /// The text is not a placement.
    #[error(transparent)]
    Text(tierloom_text::PlacementError),
    /// No tier has this name.
    #[error("`{name}` is neither a node number nor a tier (dram, hbm, cxl, remote)")]
    TierName {
        /// The name as given, in lower case.
        name: String,
    },
    /// The name is not a page size.
    #[error("unknown page size `{asked}`; choose one of 4k, thp, 2m, 1g")]
    UnknownPageSize {
        /// The name as given.
        asked: String,
    },
    /// The machine has no such node.
    #[error(
        "node {node} does not exist; this machine has nodes {existing}; see `tierloom topology`"
    )]
    UnknownNode {
        /// The node that was named.
        node: NodeId,
        /// The nodes that exist, in list syntax (`0-3,6`).
        existing: String,
    },
    /// The node has no online memory.
    #[error(
        "node {node} has no memory; nodes with memory: {with_memory}; \
         online its memory blocks first if it should have some (see `tierloom topology`)"
    )]
    NodeWithoutMemory {
        /// The node that was named.
        node: NodeId,
        /// The nodes that have memory, in list syntax.
        with_memory: String,
    },
    /// A cpuset or container does not allow this process to use the node.
    #[error(
        "node {node} is not allowed here: this process may use memory nodes {allowed} (cpuset); \
         start it in a cpuset that has node {node} (cpuset.mems, `docker run --cpuset-mems`, `numactl --membind`)"
    )]
    NodeForbidden {
        /// The node that was named.
        node: NodeId,
        /// The nodes that the cpuset allows, in list syntax.
        allowed: String,
    },
    /// The machine has no such tier.
    #[error(
        "this machine has no {tier} tier; it has: {existing}; name nodes instead, or see `tierloom topology`"
    )]
    UnknownTier {
        /// The tier that was named.
        tier: TierKind,
        /// The tiers that exist, with their nodes.
        existing: String,
    },
    /// All weights or all shares are zero.
    #[error(
        "placement `{text}` puts no page anywhere: all weights are 0; give at least one node a weight of 1 or more"
    )]
    NothingPlaced {
        /// The placement as given.
        text: String,
    },
    /// Two parts of the placement name the same node.
    #[error("placement `{text}` names node {node} twice; give it one weight or share")]
    NodeTwice {
        /// The placement as given.
        text: String,
        /// The node that is repeated.
        node: NodeId,
    },
    /// A weight overflows when tiers are split into nodes.
    #[error(
        "the weights of placement `{text}` are too large for this many nodes; use smaller numbers of the same ratio"
    )]
    WeightsTooLarge {
        /// The placement as given.
        text: String,
    },
}
