//! Queries whose intermediate results are temporary tables at one place.

use crate::{HERE, Provenance, Spread, TierUse};
use serde::{Deserialize, Serialize};

/// A query as a script that makes temporary tables at one place and then reads them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TempTablesRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Whether its times are measured or modelled.
    pub provenance: Provenance,
    /// When the record was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// "dev" or "release".
    pub build: String,
    /// Name of the benchmark ("tpcds").
    pub workload: String,
    /// Scale factor of the data.
    pub scale_factor: f64,
    /// Number of worker threads; `None` for one per CPU.
    pub threads: Option<u32>,
    /// [`HERE`], or the name of the machine profile that it is modelled for.
    #[serde(default = "here")]
    pub machine: String,
    /// Name of the query.
    pub query: String,
    /// Places of memory class `temp`, as in `--operator-memory`.
    pub place: String,
    /// The temporary tables, in the order they are made.
    pub tables: Vec<TempTable>,
    /// Making all tables, ms.
    pub make_ms: Option<Spread>,
    /// The query that reads them, ms.
    pub query_ms: Option<Spread>,
    /// The whole script with the tables dropped again, ms.
    pub script_ms: Option<Spread>,
    /// Bytes that the tables had at each place of the class, in the order of the places.
    pub bytes_by_place: Vec<PlaceBytes>,
    /// Bytes of pages by node, as the kernel reported them while the tables were there.
    pub bytes_by_node: Vec<NodeBytes>,
    /// Load on the tiers of the modelled machine while the script runs; empty if measured.
    #[serde(default)]
    pub tiers: Vec<TierUse>,
    /// The error of the script, which then has no times.
    pub failed: Option<String>,
}

/// A temporary table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TempTable {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes of its columns.
    pub size_bytes: u64,
}

/// Bytes at one place of a memory class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceBytes {
    /// The place, as in `tier_memory`.
    pub place: String,
    /// Bytes in use.
    pub bytes: u64,
}

/// Bytes of pages on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBytes {
    /// The node; `None` for pages that are on none.
    pub node: Option<u32>,
    /// Bytes of the pages found there.
    pub bytes: u64,
}

/// The machine of records that were written before others were modelled.
fn here() -> String {
    HERE.to_owned()
}

impl TempTablesRecord {
    /// Bytes of all its tables.
    pub fn size_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.size_bytes).sum()
    }
}
