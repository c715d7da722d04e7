//! How long reads take that the caches do not serve, by memory: DRAM against CXL or another socket.
//!
//! ```text
//!   SysRoot ──▶ LatencyPlan ──▶ LatencySource ──▶ LatencyReader ──▶ [MemoryReads; 2]
//!               (uncore events     (opener)         (open counters)   since the last read
//!                of the family)
//! ```
//! Intel's caching agents add up in each cycle how many reads wait (table of requests, TOR) and
//! count them as they come; the mean latency is the ratio (Little's law), in cycles of the agent's
//! clock. This is how Vuppalapati and Agarwal, "Tiered Memory Management: Access Latency is the
//! Key!" (SOSP 2024), measure it. AMD's L3 caches sample the latency of the reads that miss them.
//! Both count all programs of the machine, and reads that wait in queues.

mod meter;
mod plan;

pub use meter::{LatencyReader, LatencySource, MemoryReads};
pub use plan::{LatencyPlan, LatencyUnit, Others, Unavailable};
