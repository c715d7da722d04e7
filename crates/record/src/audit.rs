//! Page audits: on which nodes the kernel found the pages of placed data.

use serde::{Deserialize, Serialize};

/// The share of pages on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeShare {
    /// Number of the NUMA node.
    pub node: u32,
    /// Share of the audited bytes, 0 to 1.
    pub share: f64,
}

/// A page audit over all regions of one placement, weighted by bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Bytes of the pages that were audited.
    pub bytes_checked: u64,
    /// Number of pages that were audited.
    pub pages_checked: u64,
    /// Number of audited pages without memory (never touched, or swapped out).
    pub pages_absent: u64,
    /// Shares that were requested.
    pub requested: Vec<NodeShare>,
    /// Shares that whole pages of these sizes can give.
    pub effective: Vec<NodeShare>,
    /// Shares that the kernel reports.
    pub actual: Vec<NodeShare>,
    /// Largest difference between requested and actual share of any node, 0 to 1.
    pub worst_deviation: f64,
}
