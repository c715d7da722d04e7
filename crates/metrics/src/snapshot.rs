//! What a server is doing at one moment, as plain data.

use serde::{Deserialize, Serialize};

/// The state of a server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the server.
    pub version: String,
    /// When the snapshot was made, seconds since 1970.
    pub at_seconds: f64,
    /// Time since the server was started, s.
    pub uptime_seconds: f64,
    /// Nodes with memory, in ascending order.
    pub nodes: Vec<NodeUse>,
    /// Traffic of memory by place and direction; empty where nobody counts it.
    pub traffic: Vec<TrafficUse>,
    /// Tables, by name.
    pub tables: Vec<TableUse>,
    /// Operator memory, a row per class and place.
    pub classes: Vec<ClassUse>,
    /// Statements that run now.
    pub running: u64,
    /// Statements that wait for others to end.
    pub waiting: u64,
    /// Statements that have ended, by kind and end.
    pub statements: Vec<StatementCount>,
    /// What counted statements add up to; empty while no session counts.
    pub counted: Vec<CountedSum>,
    /// Clients that are connected; `None` where sessions are not counted.
    pub sessions: Option<Vec<SessionUse>>,
    /// The latest decisions of adaptive placement, oldest first; `None` while it is off.
    pub decisions: Option<Vec<Decision>>,
}

/// Memory of a NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeUse {
    /// The kernel's number of the node.
    pub node: u32,
    /// Name of its tier; `None` if it is in none.
    pub tier: Option<String>,
    /// Memory that the kernel manages there.
    pub size_bytes: u64,
    /// Memory that is free there, page cache not counted; `None` if the kernel does not say.
    pub free_bytes: Option<u64>,
    /// Bytes of columns there, from a sample of their pages.
    pub columns_bytes: u64,
}

/// Bytes that went from or to the memory of one place, as its hardware counts them: those of other
/// programs too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrafficUse {
    /// The place: a socket's memory (`dram/socket0`) or a device (`cxl/mem0`); a kind alone
    /// (`dram`) if none of its places can be counted.
    pub place: String,
    /// `read` or `write`.
    pub direction: String,
    /// Bytes since the server was started; `None` if they cannot be counted.
    pub bytes: Option<f64>,
    /// Why they cannot be counted.
    pub missing: Option<String>,
}

/// A table and where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableUse {
    /// Its name.
    pub table: String,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of its columns.
    pub size_bytes: u64,
    /// Bytes that queries have read of its columns since the server was started.
    pub read_bytes: u64,
    /// Its bytes by node, from a sample of its pages.
    pub nodes: Vec<NodePart>,
    /// Share of the sampled pages that are on another node than the placement says, 0 to 1; `None`
    /// if no page could be looked up.
    pub misplaced: Option<f64>,
}

/// Bytes on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodePart {
    /// The kernel's number of the node.
    pub node: u32,
    /// Bytes there.
    pub size_bytes: u64,
}

/// Operator memory of one class at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassUse {
    /// Name of the class, such as `join`.
    pub class: String,
    /// The place, such as `[dram]`.
    pub place: String,
    /// Most bytes that the class may hold there; `None` for no limit.
    pub limit_bytes: Option<u64>,
    /// Bytes in use.
    pub current_bytes: u64,
    /// Highest value of `current_bytes` since the server was started.
    pub peak_bytes: u64,
    /// Allocations that an earlier place of the class could not serve.
    pub fallbacks: u64,
    /// Why the kernel does not let the place be used; `None` if it does.
    pub refused: Option<String>,
}

/// Statements that have ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementCount {
    /// `query`, `star` (a query with a fused star join) or `other`.
    pub kind: String,
    /// `done`, `failed` or `stopped`.
    pub end: String,
    /// Number of such statements since the server was started.
    pub count: u64,
    /// Sum of their times, s.
    pub seconds: f64,
}

/// A sum over the statements of sessions with `SET tierloom.counters`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountedSum {
    /// `statements`, `busy_seconds`, or what `tierloom_counters` has, such as `instructions`;
    /// shares as the cycles that they are, such as `memory_bound_cycles`.
    pub quantity: String,
    /// The sum since the server was started.
    pub value: f64,
}

/// A client that is connected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionUse {
    /// Its number.
    pub pid: i32,
    /// Name of its user.
    pub user: String,
    /// What it calls itself; may be empty.
    pub application: String,
    /// Its address, or `local`.
    pub address: String,
    /// How long its statement has run, s; `None` if none does.
    pub running_seconds: Option<f64>,
    /// The text of that statement; `None` if none runs, or whoever asks may not see it.
    pub statement: Option<String>,
}

/// A decision of adaptive placement for a phase of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Number of the run.
    pub run: u64,
    /// The phase.
    pub phase: String,
    /// `keep`, `move` or `return`.
    pub action: String,
    /// The placement of the run.
    pub layout: String,
    /// Modelled time, ms.
    pub expected_ms: f64,
    /// Measured time, ms; `None` if the run was not learned from.
    pub measured_ms: Option<f64>,
    /// Why, as text.
    pub reason: String,
}

impl Snapshot {
    /// Without texts of statements, for those who may not read what others do.
    #[must_use]
    pub fn without_texts(mut self) -> Self {
        for session in self.sessions.iter_mut().flatten() {
            session.statement = None;
        }
        self
    }
}
