//! How soon a process that starts anew answers queries.

use crate::{Provenance, Spread};
use serde::{Deserialize, Serialize};

/// Starts of a process that gets the tables of a benchmark in one way and then runs its queries.
///
/// All times but `load_ms`, `attach_ms` and `verify_ms` begin with the start of the process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestartRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Always measured.
    pub provenance: Provenance,
    /// When the record was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// "dev" or "release".
    pub build: String,
    /// Name of the benchmark ("tpch").
    pub workload: String,
    /// Scale factor of the data.
    pub scale_factor: f64,
    /// Number of worker threads; `None` for one per CPU.
    pub threads: Option<u32>,
    /// Names of the queries, in the order they ran.
    pub queries: Vec<String>,
    /// Bytes of the Parquet files.
    pub file_bytes: u64,
    /// Bytes of the pool that the tables take.
    pub pool_bytes: u64,
    /// "on demand": a table is loaded from its file when the first query needs it; "loaded": all
    /// tables are loaded before the first query; "attached" to a pool; "verified": attached, and
    /// all their bytes are checked.
    pub way: String,
    /// How the process before it ended: "exit" or "kill" (SIGKILL).
    pub after: String,
    /// Until it takes statements, ms.
    pub ready_ms: Spread,
    /// Until all tables can be used, ms; `None` if they are loaded on demand.
    pub complete_ms: Option<Spread>,
    /// Until the first query is answered, ms.
    pub first_answer_ms: Spread,
    /// Until the last query is answered, ms.
    pub last_answer_ms: Spread,
    /// Loading all tables from files, ms.
    pub load_ms: Option<Spread>,
    /// Attaching all tables, ms.
    pub attach_ms: Option<Spread>,
    /// Checking all bytes of the attached tables, ms.
    pub verify_ms: Option<Spread>,
}
