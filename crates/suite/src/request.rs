//! What a run is asked to do, and the parts of it that are checked by themselves.

use crate::RunError;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tierloom_placement::Policy;
use tierloom_text::{Bytes, Seconds};

/// What to run, as the options of `tierloom run` say it.
#[derive(Debug, Clone)]
pub struct SuiteRequest {
    /// Names of queries; all of the workload's if there are none.
    pub queries: Vec<String>,
    /// Measure the throughput of concurrent sessions instead of the time of each query.
    pub streams: Option<StreamPlan>,
    /// Worker threads; by default one per CPU that this process may use.
    pub threads: Option<usize>,
    /// Placements of table data, separated by commas.
    pub placement: String,
    /// Machine profiles to model: built-in names or YAML files.
    pub machines: Vec<String>,
    /// Timed executions per query and placement.
    pub repeat: u32,
    /// Page size of table data.
    pub pages: String,
    /// Worker threads assumed on modelled machines; by default one per core.
    pub model_workers: Option<u32>,
    /// Scale factor that figures are modelled for; by default one that fits each machine.
    pub model_sf: Option<f64>,
    /// CPU time per fact row that the model assumes instead of the measured one, ns.
    pub time_per_tuple_ns: Option<f64>,
    /// Also run plain DataFusion on the same data.
    pub baseline: bool,
    /// Use DataFusion's own operators only.
    pub plain_operators: bool,
    /// File for the decisions of adaptive placement.
    pub decisions: Option<PathBuf>,
    /// Limit on the bytes of columns that adaptive placement keeps in dram, as a size.
    pub dram_limit: Option<String>,
    /// Profile of this machine with its prefetchers off: adaptive placement may switch them.
    pub prefetch_off: Option<String>,
    /// Where operator memory is placed, by class.
    pub operator_memory: Option<String>,
    /// Whether a pool is named, which then is a place for tables and operator memory.
    pub has_pool: bool,
    /// Changes of the pool's capacity while streams run.
    pub resizes: Vec<Resize>,
    /// File for the audit of operator memory.
    pub memory_audit: Option<PathBuf>,
    /// The topology is of another machine, so the plan is not to be carried out.
    pub elsewhere: bool,
}

impl SuiteRequest {
    /// Every query once with tables in `placement`, on this machine, and nothing else.
    pub fn new(placement: String, pages: String) -> Self {
        SuiteRequest {
            queries: Vec::new(),
            streams: None,
            threads: None,
            placement,
            machines: Vec::new(),
            repeat: 1,
            pages,
            model_workers: None,
            model_sf: None,
            time_per_tuple_ns: None,
            baseline: false,
            plain_operators: false,
            decisions: None,
            dram_limit: None,
            prefetch_off: None,
            operator_memory: None,
            has_pool: false,
            resizes: Vec::new(),
            memory_audit: None,
            elsewhere: false,
        }
    }
}

/// One placement of the run.
#[derive(Debug, Clone)]
pub struct PlannedPlacement {
    /// As given on the command line.
    pub text: String,
    /// As parsed.
    pub policy: Policy,
    /// Why it cannot be measured here; `None` if it can.
    pub why_not_here: Option<String>,
}

/// A change of a pool's capacity while streams run: its first member gets another size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resize {
    /// When, after the streams have begun.
    pub at: Duration,
    /// Bytes of the member afterwards.
    pub bytes: u64,
}

impl FromStr for Resize {
    type Err = String;

    /// Reads `TIME=SIZE`, such as `10s=4GiB`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (at, bytes) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?}: expected TIME=SIZE, as in 10s=4GiB"))?;
        let at: Seconds = at.trim().parse().map_err(|e| format!("{text:?}: {e}"))?;
        let Bytes(bytes) = bytes.trim().parse().map_err(|e| format!("{text:?}: {e}"))?;
        let at = at
            .duration()
            .ok_or_else(|| format!("{text:?}: longer than a time can be"))?;
        Ok(Resize { at, bytes })
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = humantime::format_duration(self.at);
        write!(f, "{} after {at}", Bytes(self.bytes))
    }
}

/// Settings of a throughput run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPlan {
    /// Number of concurrent sessions.
    pub count: usize,
    /// How long sessions start new queries.
    pub duration: Duration,
}

impl StreamPlan {
    /// Limit on streams: each has its plans and at least one thread, so a higher number is a typing
    /// error.
    pub const MOST: usize = 1000;

    /// Checks the number of streams and their duration.
    ///
    /// # Errors
    /// Bad input: no stream or too many, or no time.
    pub fn new(count: usize, duration: Duration) -> Result<Self, RunError> {
        if count == 0 || count > Self::MOST {
            return Err(RunError::refused(format!(
                "--streams {count}: expected 1 to {}",
                Self::MOST
            )));
        }
        if duration.is_zero() {
            return Err(RunError::refused("--duration 0s: nothing could run"));
        }
        Ok(StreamPlan { count, duration })
    }
}
