//! Transactions on a store whose parts are placed one by one.

use crate::{AuditRecord, Provenance, Spread};
use serde::{Deserialize, Serialize};

/// One workload under one placement on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransactionsRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Whether its rates are measured or modelled.
    pub provenance: Provenance,
    /// When the record was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// "dev" or "release".
    pub build: String,
    /// "tpcc", or "ycsb-a" to "ycsb-f".
    pub workload: String,
    /// Warehouses, or rows that were loaded.
    pub scale: u64,
    /// Seed of the data and of what clients draw.
    pub seed: u64,
    /// Requested page size.
    pub page_size: String,
    /// Clients here, or of the modelled machine; without a log each is a worker there.
    pub clients: u32,
    /// [`crate::HERE`], or the name of a machine profile.
    pub machine: String,
    /// Placement as given on the command line ("dram", "main=cxl").
    pub placement: String,
    /// Time that was measured, s; of a modelled record, of the run that its work is from.
    pub duration_s: f64,
    /// Transactions that committed, per second, all kinds together.
    pub transactions_per_s: f64,
    /// By kind; empty if modelled.
    pub kinds: Vec<TransactionKind>,
    /// Parts of the store, with where their pages were.
    pub parts: Vec<StorePartRecord>,
    /// Traffic by tier: accesses before caches if measured, of memory if modelled.
    pub tiers: Vec<TierTraffic>,
    /// Redo log; `None` if commits were not logged, or if modelled.
    pub log: Option<RedoLogRecord>,
    /// Checkpoints; `None` if none was asked for, or if modelled.
    #[serde(default)]
    pub checkpoints: Option<CheckpointsRecord>,
    /// What merging in the background took; `None` if it had nothing to do.
    #[serde(default)]
    pub merging: Option<MergingRecord>,
    /// Streams of queries beside the transactions; `None` if none were asked for. All other figures
    /// are then of the transactions alone.
    #[serde(default)]
    pub beside: Option<BesideRecord>,
    /// Processor time of a transaction with all data in cache, ns, measured here; `None` if no
    /// machine was modelled.
    pub compute_ns: Option<f64>,
    /// What a client of the modelled machine waits for the log per transaction, ns, as measured
    /// here; `None` if commits were not logged, or if measured.
    pub log_wait_ns: Option<f64>,
    /// Why the run ended before its time; `None` if it did not.
    pub ended_early: Option<String>,
    /// Why its figures must not be used: data that is not consistent, pages that moved.
    pub invalid: Option<String>,
}

/// Transactions of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransactionKind {
    /// Its name ("new-order").
    pub name: String,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that rolled themselves back.
    pub rollbacks: u64,
    /// Tries that were given up since another transaction had changed what was read.
    pub conflicts: u64,
    /// Commits per second.
    pub commits_per_s: f64,
    /// Median time from the first try to the end, µs.
    pub p50_us: f64,
    /// 99th percentile of that time, µs.
    pub p99_us: f64,
    /// Share of that time in tries that were given up, 0 to 1.
    pub retry_share: f64,
    /// Share waiting for rows that others had locked, 0 to 1; tries that were given up left out.
    pub lock_share: f64,
    /// Share merging for want of room in the delta, 0 to 1.
    pub room_share: f64,
    /// Share waiting for the log to be durable, 0 to 1.
    pub log_share: f64,
}

/// A part of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorePartRecord {
    /// "main", "heap", "leaves" or "inner".
    pub part: String,
    /// Its placement.
    pub placement: String,
    /// Bytes of its regions.
    pub region_bytes: u64,
    /// Bytes of the cache lines that transactions accessed in it, before caches.
    pub accessed_bytes: u64,
    /// Page audit before the run; `None` if modelled.
    pub audit_before: Option<AuditRecord>,
    /// Page audit after it; `None` if modelled.
    pub audit_after: Option<AuditRecord>,
}

/// Traffic of one tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierTraffic {
    /// Name of the tier.
    pub tier: String,
    /// Bytes over the whole run.
    pub bytes: f64,
    /// Bytes over its time, GB/s.
    pub bandwidth_gbps: f64,
    /// Share of the tier's peak, 0 to 1; `None` if measured.
    pub utilisation: Option<f64>,
}

/// What a redo log took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedoLogRecord {
    /// Bytes of records.
    pub size_bytes: u64,
    /// Writes, each followed by a flush of the device; every one made many commits durable.
    pub writes: u64,
}

/// What checkpoints took, and what they did to the transactions beside them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CheckpointsRecord {
    /// Checkpoints that were taken.
    pub taken: u64,
    /// Mean time of one, s.
    pub mean_s: f64,
    /// Bytes of the last one.
    pub size_bytes: u64,
    /// Transactions per second that changed something, while one was taken.
    pub beside_per_s: f64,
    /// The same in the rest of the run.
    pub otherwise_per_s: f64,
}

/// What merging new versions back to where rows are placed took, by one thread beside the clients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MergingRecord {
    /// Rows that were brought back; of a modelled record those of the run that its work is from.
    pub rows: u64,
    /// Time of the thread per row, ns.
    pub ns_per_row: f64,
    /// Share of the time that the thread works, 0 to 1; above 1 more than one thread would be
    /// needed, and clients would merge for themselves.
    pub thread_share: f64,
    /// Bytes of the cache lines that it accessed per row, before caches.
    pub bytes_per_row: f64,
}

/// Transactions and streams of queries, each alone and both at once, in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BesideRecord {
    /// "ssb", "tpch" or "tpcds".
    pub workload: String,
    /// Scale factor of its data; of a modelled record, that its work is grown to.
    pub scale_factor: f64,
    /// Where its tables are.
    pub placement: String,
    /// Streams, each running all queries in its own order, over and over.
    pub streams: u32,
    /// Worker threads that the streams share.
    pub threads: u32,
    /// Transactions per second without streams, by round.
    pub transactions_alone_per_s: Spread,
    /// The same beside them.
    pub transactions_beside_per_s: Spread,
    /// One over the other, by round.
    pub transactions_ratio: Spread,
    /// Queries per hour of all streams without transactions, by round.
    pub queries_alone_per_hour: Spread,
    /// The same beside them.
    pub queries_beside_per_hour: Spread,
    /// One over the other, by round.
    pub queries_ratio: Spread,
    /// Transactions by kind, beside the streams; empty if modelled.
    pub kinds: Vec<TransactionKind>,
    /// Merging beside the streams; `None` if it had nothing to do.
    pub merging: Option<MergingRecord>,
    /// Traffic of both together by tier; empty if measured.
    pub tiers: Vec<TierTraffic>,
    /// Page audit of the tables before; `None` if modelled, or where the kernel tells nothing.
    pub audit_before: Option<AuditRecord>,
    /// Page audit of the tables after.
    pub audit_after: Option<AuditRecord>,
}
