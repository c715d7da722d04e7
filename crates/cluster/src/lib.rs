//! SQL on the placed tables of several machines, with DataFusion Distributed or Apache Ballista.
//!
//! ```text
//!   client     SQL ─ plan for one process ─ spread: node plans and a final plan ─► scheduler
//!   scheduler  tables, shards and who holds them (registry) │ policy: a task goes to its shards
//!   executor   node: loads its shards │ node plan over them: our operators │ final plan
//! ```
//! The client plans as one process would. `spread` finds the largest parts of the plan that each
//! node can do on its own shards (joins with tables that every node has, joins of tables that are
//! sharded by the key of the join, partial aggregation) and makes a leaf of each: a *node plan*.
//! What is left becomes the *final plan*. For Ballista it is one operator over the results of all
//! nodes; Ballista sees leaves and that operator alone, so it cannot move rows of a table in
//! another way. DataFusion Distributed cuts it into stages that all nodes run, see `streams`.
//!
//! A shard is read where it lies or not at all: an executor that is asked for one it does not hold
//! fails the statement.
#![forbid(unsafe_code)]

mod access;
mod as_known;
mod awake;
mod benchmark;
mod client;
mod codec;
mod connections;
mod direct;
mod done_by;
mod error;
mod executor;
mod explain;
mod functions;
mod given_up;
mod holders;
mod http;
mod kept;
mod link;
mod local;
mod logging;
mod map;
mod metrics;
mod node;
mod node_service;
mod options;
mod parts;
mod plan;
mod planner;
mod policy;
mod registry;
mod scan;
mod scheduler;
mod sent;
mod served;
mod session;
mod shard;
mod shuffle;
mod source;
mod spread;
mod streams;
mod through_scheduler;
mod wire;
mod work_folder;

pub use access::{Access, Guard};
pub use benchmark::benchmark_tables;
pub use client::{Answer, ClusterClient};
pub use error::ClusterError;
pub use executor::{ExecutorOptions, run_executor};
pub use logging::print_log;
pub use map::{ClusterMap, HeldTable, Layout, NodeState, ShuffleReport, TableEntry, TableRequest};
pub use options::{Backend, ClientOptions, DIRECT_BYTES};
pub use scheduler::{SchedulerOptions, run_scheduler};
pub use served::ClusterTables;
pub use shuffle::ShufflePlace;
pub use source::RowSource;
