//! Where the pages of placed data really were.

use serde::{Deserialize, Serialize};

/// The share of pages on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The NUMA node's number.
    pub node: u32,
    /// 0 to 1.
    pub share: f64,
}

/// A page audit over all regions of one placement, weighted by bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Bytes of the pages that were looked at.
    pub bytes_checked: u64,
    /// Pages looked at.
    pub pages_checked: u64,
    /// Pages with no memory behind them (never touched, or swapped out).
    pub pages_absent: u64,
    /// What was asked for.
    pub requested: Vec<NodeShare>,
    /// What whole pages of these sizes can give.
    pub effective: Vec<NodeShare>,
    /// Where the kernel says that the pages are.
    pub actual: Vec<NodeShare>,
    /// Largest difference between requested and actual share of a node, 0 to 1.
    pub worst_deviation: f64,
}
