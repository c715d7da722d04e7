//! Opening and reading the counters of latencies.

use std::fmt::Debug;
use std::io;
use std::ops::AddAssign;
use std::sync::Arc;

use tierloom_topology::SysRoot;

use super::{LatencyPlan, LatencyUnit, Others};
use crate::opener::refusal;
use crate::plan::PlannedEvent;
use crate::{Count, LinuxOpener, OpenCounter, PerfOpener, RefusingOpener};

/// Reads of one memory that the caches did not serve.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryReads {
    /// Number of reads that were counted; a sample of all.
    pub requests: f64,
    /// Time that these reads took, added up, ns.
    pub waiting_ns: f64,
}

impl MemoryReads {
    /// Mean latency, ns; `None` if nothing was read.
    #[must_use]
    pub fn latency_ns(&self) -> Option<f64> {
        let ns = self.waiting_ns / self.requests;
        (self.requests >= 1.0 && ns > 0.0).then_some(ns)
    }
}

impl AddAssign for MemoryReads {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.waiting_ns += more.waiting_ns;
    }
}

/// Open counters of latencies; dropping them closes them.
pub trait LatencyReader: Send + Debug {
    /// What was read since the last call, or since opening: of the first tier, and of the others.
    ///
    /// # Errors
    /// The error of the operating system.
    fn read(&mut self) -> io::Result<[MemoryReads; 2]>;
}

/// The latencies that a machine can count, and the way to open their counters.
#[derive(Debug, Clone)]
pub struct LatencySource {
    root: SysRoot,
    plan: Result<Arc<LatencyPlan>, String>,
    opener: Arc<dyn PerfOpener>,
}

impl LatencySource {
    /// The counters of the machine below `root`; nothing is opened yet.
    #[must_use]
    pub fn probe(root: &SysRoot, others: Others) -> Self {
        // A recorded tree describes another machine.
        match root.is_host() {
            true => Self::with_opener(root, others, Arc::new(LinuxOpener)),
            false => Self::with_opener(root, others, Arc::new(RefusingOpener)),
        }
    }

    /// Like [`LatencySource::probe`], but with another opener.
    #[must_use]
    pub fn with_opener(root: &SysRoot, others: Others, opener: Arc<dyn PerfOpener>) -> Self {
        let plan = LatencyPlan::of(root, others);
        LatencySource {
            root: root.clone(),
            plan: plan.map(Arc::new).map_err(|why| why.to_string()),
            opener,
        }
    }

    /// Opens the counters, which count from then on.
    ///
    /// # Errors
    /// Why they are not available, with a remedy.
    pub fn open(&self) -> Result<Box<dyn LatencyReader>, String> {
        let plan = self.plan.as_ref().map_err(Clone::clone)?;
        let open = |event: &PlannedEvent| {
            let because = |error| format!("{event}: {}", refusal(&self.root, event.scope, &error));
            let mut counter = self.opener.open(event).map_err(because)?;
            counter.resume().map_err(because)?;
            Ok::<_, String>(OpenEvent {
                counter,
                last: Count::default(),
            })
        };
        let unit = |unit: &LatencyUnit| {
            Ok::<_, String>(OpenUnit {
                memory: unit.memory,
                waiting: open(&unit.waiting)?,
                requests: open(&unit.requests)?,
                clock: unit.clock.as_ref().map(open).transpose()?,
                waiting_ns: unit.waiting_ns,
            })
        };
        let units = plan.units.iter().map(unit).collect::<Result<_, _>>()?;
        let mut meter = LatencyMeter { units };
        // The counters of a unit start one after the other: what they count before all run is not
        // of the same time.
        meter.read().map_err(|error| error.to_string())?;
        Ok(Box::new(meter))
    }
}

/// A counter and what it showed last.
#[derive(Debug)]
struct OpenEvent {
    counter: Box<dyn OpenCounter>,
    last: Count,
}

impl OpenEvent {
    /// Counts since the last read, extrapolated to all the time, and that time in ns.
    fn grown(&mut self) -> io::Result<(f64, f64)> {
        let now = self.counter.read()?;
        let last = std::mem::replace(&mut self.last, now);
        let since = |of: fn(&Count) -> u64| of(&now).saturating_sub(of(&last)) as f64;
        let (count, enabled) = (since(|c| c.count), since(|c| c.enabled_ns));
        let running = since(|c| c.running_ns);
        // A counter that was never on the hardware has counted nothing.
        let scale = if running > 0.0 {
            enabled / running
        } else {
            0.0
        };
        Ok((count * scale, enabled))
    }
}

#[derive(Debug)]
struct OpenUnit {
    memory: usize,
    waiting: OpenEvent,
    requests: OpenEvent,
    clock: Option<OpenEvent>,
    waiting_ns: f64,
}

impl OpenUnit {
    fn read(&mut self) -> io::Result<MemoryReads> {
        let (waiting, _) = self.waiting.grown()?;
        let (requests, _) = self.requests.grown()?;
        let waiting_ns = match &mut self.clock {
            None => waiting * self.waiting_ns,
            Some(clock) => match clock.grown()? {
                (ticks, ns) if ticks > 0.0 => waiting * ns / ticks,
                _ => 0.0,
            },
        };
        Ok(MemoryReads {
            requests,
            waiting_ns,
        })
    }
}

/// The counters of all units.
#[derive(Debug)]
struct LatencyMeter {
    units: Vec<OpenUnit>,
}

impl LatencyReader for LatencyMeter {
    fn read(&mut self) -> io::Result<[MemoryReads; 2]> {
        let mut sums = [MemoryReads::default(); 2];
        for unit in &mut self.units {
            sums[unit.memory] += unit.read()?;
        }
        Ok(sums)
    }
}
