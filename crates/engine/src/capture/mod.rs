//! From an execution to the phases that the tier model prices.
//!
//! A *phase* is one pipeline of the plan: the stretch between two breakers in which every thread takes morsels from a scan
//! and drives them through filters, probes and partial aggregation. Its tuples are the rows that the scan hands out; per tuple it has
//! CPU time, which was measured, and memory accesses, which follow from the plan, from measured row counts and from the layouts:
//!
//! * a column that the scan decodes or copies, or that the first operator needs for every row, is read whole; any other column of the scan only where rows
//!   survive that operator (or the scan itself, where it picks rows by codes): with `k` values in a 64-byte line and a share `s` of surviving rows, `1 - (1 - s)^k` of its lines;
//! * a hash table (DataFusion's: a bucket array with a chain array beside it, and the build rows) costs one line per probe for the bucket,
//!   and two more (key and payload) per row that comes out; a perfect one costs one line per probe and one per match;
//! * batches between operators stay in the caches of the core and cost no memory traffic.
//!
//! The measured CPU time contains the stalls of this machine's own memory. What streaming the phase's columns costs here
//! (measured by the host probe) is taken off, down to a tenth of the measured time, so that it is not counted twice on a modelled machine.

mod pipeline;
mod walk;

use crate::session::Execution;
use std::collections::BTreeMap;
use tierloom_model::Phase;

/// Bytes of a cache line, the unit of the model.
pub(crate) const LINE_BYTES: f64 = 64.0;

/// What memory costs on the machine that ran the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostCosts {
    /// Time one worker needs to stream one byte while all workers do, ns; 0 if not measured.
    pub stream_ns_per_byte: f64,
    /// Bytes of all columns that the whole workload reads: queries that follow one another push each other's columns out of a
    /// cache smaller than that.
    pub working_set_bytes: u64,
}

/// One operator of the executed plan.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorWork {
    /// What it does ("filter lineorder", "probe part").
    pub operator: String,
    /// The phase it runs in.
    pub phase: String,
    /// Rows in.
    pub input_rows: u64,
    /// Rows out.
    pub output_rows: u64,
    /// CPU time over all threads, ns.
    pub cpu_ns: u64,
}

/// What one execution did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Captured {
    /// Phases in the order they end.
    pub phases: Vec<Phase>,
    /// CPU time of each phase over all threads, ns: as measured, stalls on memory included.
    pub phases_cpu_ns: Vec<f64>,
    /// Operators from the leaves up.
    pub operators: Vec<OperatorWork>,
    /// Bytes read from each column ("lineorder.lo_discount").
    pub column_reads: BTreeMap<String, u64>,
}

/// Reads the metrics of an execution.
pub fn capture(execution: &Execution, host: &HostCosts) -> Captured {
    walk::Walk::new(*host).run(&execution.plan)
}
