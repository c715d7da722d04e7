//! Derives from an execution's metrics the phases that the tier model prices.
//!
//! A *phase* is one pipeline of the plan: the stretch between two pipeline breakers, in which every
//! thread takes morsels from a scan and drives them through filters, probes and partial
//! aggregation. Its tuples are the rows of the scan. Per tuple it has measured CPU time and memory
//! accesses, which follow from the plan, measured row counts and the layouts:
//!
//! * A column that the scan decodes or copies, or that the first operator needs for every row, is
//!   read whole. Any other column is read only where rows survive that operator (or the scan, if it
//!   filters by codes): with `k` values per 64-byte line and a share `s` of surviving rows, `1 - (1
//!   - s)^k` of its lines.
//! * A hash table of DataFusion (bucket array, chain array, build rows) costs one line per probe
//!   for the bucket and two more (key and payload) per output row; a perfect hash table costs one
//!   line per probe and one per match.
//! * Batches between operators stay in the caches of the core and cost no memory traffic.
//!
//! The measured CPU time contains stalls on this machine's memory. The time to stream the phase's
//! columns here (measured by the host probe) is subtracted, down to a tenth of the measured time,
//! so that a modelled machine is not charged twice.

mod counted;
mod host;
mod pipeline;
mod walk;

pub use host::probe;

use crate::counting::CountedRun;
use crate::session::Execution;
use std::collections::BTreeMap;
use tierloom_model::Phase;

/// Bytes of a cache line, the model's unit of memory traffic.
pub(crate) const LINE_BYTES: f64 = 64.0;

/// Memory costs of the machine that ran the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostCosts {
    /// Time per byte that one worker needs to stream while all workers do, ns; 0 if not measured.
    pub stream_ns_per_byte: f64,
    /// Bytes of all columns that the workload reads.
    ///
    /// Consecutive queries evict each other's columns from a cache smaller than that.
    pub working_set_bytes: u64,
}

/// Work of one operator of the executed plan.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorWork {
    /// Description, such as "filter lineorder" or "probe part".
    pub operator: String,
    /// Name of the phase that it ran in.
    pub phase: String,
    /// Rows that it received.
    pub input_rows: u64,
    /// Rows that it produced.
    pub output_rows: u64,
    /// CPU time over all threads, ns; 0 where it is part of another operator's.
    pub cpu_ns: u64,
}

/// The phases and operators of one execution.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Captured {
    /// Phases in the order in which they finished.
    pub phases: Vec<Phase>,
    /// Measured CPU time of each phase over all threads, ns, memory stalls included.
    pub phases_cpu_ns: Vec<f64>,
    /// Operators from the leaves upwards.
    pub operators: Vec<OperatorWork>,
    /// Bytes read from each column, by "table.column".
    pub column_reads: BTreeMap<String, u64>,
    /// What was counted, if the execution was.
    pub counted: Option<CountedRun>,
}

/// Derives phases from the metrics of an execution; `host` removes this machine's memory stalls.
pub fn capture(execution: &Execution, host: &HostCosts) -> Captured {
    walk::CaptureWalk::new(*host).run(&execution.plan)
}
