//! What would be opened on a machine: found from files alone, so that recorded trees can be planned for.
//!
//! | source | PMUs | planned |
//! |---|---|---|
//! | [`core`] | the processor's own | instructions, cycles, cache references and misses, backend stalls, data TLB misses |
//! | [`uncore`] | `uncore_imc_*` (Intel), `amd_umc_*` (AMD, Zen 4 and later) | bytes read and written per socket |
//! | [`cxl`] | `cxl_pmu_mem*` | bytes read and written, requests, clock ticks per device |

pub mod core;
pub mod cxl;
pub mod pmu;
pub mod uncore;

use std::fmt;

pub use crate::reading::Unit;

/// Bytes of the line that one memory command moves, on DRAM channels and on CXL.mem alike.
pub(crate) const LINE_BYTES: f64 = 64.0;

/// Which threads or CPUs an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The calling thread and all threads that it and they create later; user mode only.
    Threads,
    /// A whole device, named by the CPU that the kernel reads it through.
    Cpu(u32),
}

/// One event to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEvent {
    /// Where it is from, for notes ("uncore_imc_0/cas_count_read").
    pub label: String,
    /// Type of the PMU, the `type` of `perf_event_attr`.
    pub pmu_type: u32,
    /// The configuration words, `config`, `config1` and `config2` of `perf_event_attr`.
    pub config: [u64; 3],
    /// Whom it counts.
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

/// One quantity, the sum of one or more events.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedReading {
    /// Name of the reading.
    pub name: String,
    /// Unit of the reading; for [`Unit::Bytes`] a second reading `NAME_bandwidth` in GB/s goes with it.
    pub unit: Unit,
    /// What one count is worth in `unit`.
    pub per_count: f64,
    /// The events that are added up.
    pub events: Vec<PlannedEvent>,
    /// What a reader has to know about it.
    pub note: Option<String>,
}

/// All quantities of one source, and what it does not offer with the reason.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What would be opened.
    pub readings: Vec<PlannedReading>,
    /// Name and unit of what is not available, with the reason and what would help.
    pub missing: Vec<Missing>,
}

/// A quantity that this machine does not offer.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    /// Name of the reading.
    pub name: String,
    /// Unit it would have had.
    pub unit: Unit,
    /// Why there is none and what would help.
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
