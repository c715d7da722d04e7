//! Plans of counters to open, derived from files only, so that they work on recorded trees.
//!
//! - [`core`]: events of the cores (instructions, cycles, cache references and misses, backend
//!   stalls, data TLB misses) in the threads of a measurement
//! - [`uncore`]: bytes read and written per socket, by the PMUs `uncore_imc_*` (Intel) and
//!   `amd_umc_*` (AMD, Zen 4 and later)
//! - [`cxl`]: bytes read and written, requests and clock ticks per device, by the PMUs
//!   `cxl_pmu_mem*`

pub mod core;
pub mod cxl;
pub mod pmu;
pub mod uncore;

use std::fmt;

pub use crate::reading::Unit;

/// Bytes per memory command, both on DRAM channels and on CXL.mem.
pub(crate) const LINE_BYTES: f64 = 64.0;

/// What an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The calling thread and all threads that it and its descendants create later; user mode only.
    Threads,
    /// A whole device; the number is the CPU through which the kernel reads it.
    Cpu(u32),
}

/// One event to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEvent {
    /// Origin of the event, for notes, such as "uncore_imc_0/cas_count_read".
    pub label: String,
    /// PMU type, the field `type` of `perf_event_attr`.
    pub pmu_type: u32,
    /// Configuration words, the fields `config`, `config1` and `config2` of `perf_event_attr`.
    pub config: [u64; 3],
    /// Threads or device that the event counts.
    pub scope: Scope,
}

impl fmt::Display for PlannedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            Scope::Threads => f.write_str(&self.label),
            Scope::Cpu(cpu) => write!(f, "{} (CPU {cpu})", self.label),
        }
    }
}

/// One quantity: the sum of one or more events.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedReading {
    /// Name of the reading, unique within a plan.
    pub name: String,
    /// Unit of the reading; [`Unit::Bytes`] adds a second reading `NAME_bandwidth` in GB/s.
    pub unit: Unit,
    /// Value of one count in `unit`.
    pub per_count: f64,
    /// Events that are added up.
    pub events: Vec<PlannedEvent>,
    /// Information needed to interpret the reading; `None` if there is none.
    pub note: Option<String>,
}

/// All quantities of one source, and those that it cannot offer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Quantities that can be opened; each becomes a reading.
    pub readings: Vec<PlannedReading>,
    /// Quantities that are not available, with the reason.
    pub missing: Vec<Missing>,
}

/// A quantity that this machine does not offer.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    /// Name that the reading would have.
    pub name: String,
    /// Unit that the reading would have.
    pub unit: Unit,
    /// Reason and remedy, for users.
    pub why: String,
}

impl Plan {
    pub(crate) fn miss(&mut self, name: impl Into<String>, unit: Unit, why: impl Into<String>) {
        self.missing.push(Missing {
            name: name.into(),
            unit,
            why: why.into(),
        });
    }
}
