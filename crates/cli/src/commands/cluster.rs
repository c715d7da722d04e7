//! `tierloom cluster`: tables on several machines.

#[allow(dead_code, reason = "a build without clusters only reads them")]
mod args;
// A build without clusters has this command only to say so.
#[cfg_attr(not(feature = "cluster"), path = "cluster/no_cluster.rs")]
mod process;

pub use args::{Args, ClusterBackend, ServedCluster};
pub use process::{run, tables};
