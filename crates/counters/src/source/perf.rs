//! Counters of the kernel's perf subsystem: cores, memory controllers, CXL devices.

use std::io;
use std::sync::Arc;

use tierloom_topology::SysRoot;

use super::{CounterSource, OpenCounters};
use crate::Reading;
use crate::opener::{Count, OpenCounter, PerfOpener, refusal};
use crate::plan::{Plan, PlannedEvent, PlannedReading, Scope, Unit};

/// Share of the time on the hardware below which a reading's note warns about extrapolation.
const WARN_BELOW: f64 = 0.25;

/// A plan with the opener for its events.
#[derive(Debug, Clone)]
pub struct PerfSource {
    root: SysRoot,
    plan: Arc<Plan>,
    opener: Arc<dyn PerfOpener>,
}

impl PerfSource {
    /// Creates a source for the machine below `root`; nothing is opened yet.
    pub fn new(root: &SysRoot, plan: Plan, opener: Arc<dyn PerfOpener>) -> Self {
        Self {
            root: root.clone(),
            plan: Arc::new(plan),
            opener,
        }
    }

    /// The plan, including quantities that are not available.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    fn open_reading(&self, index: usize, planned: &PlannedReading) -> OpenReading {
        let mut counters = Vec::with_capacity(planned.events.len());
        for event in &planned.events {
            match self.opener.open(event) {
                Ok(counter) => counters.push((event.clone(), counter)),
                Err(error) => {
                    // A sum without one of its parts is wrong, so the remaining parts are not
                    // opened either.
                    let why = format!("{event}: {}", refusal(&self.root, event.scope, &error));
                    return OpenReading {
                        index,
                        state: Err(why),
                    };
                }
            }
        }
        OpenReading {
            index,
            state: Ok(counters),
        }
    }
}

impl CounterSource for PerfSource {
    fn open(&self) -> Box<dyn OpenCounters> {
        let planned = self.plan.readings.iter().enumerate();
        Box::new(OpenPerf {
            readings: planned
                .map(|(i, planned)| self.open_reading(i, planned))
                .collect(),
            plan: Arc::clone(&self.plan),
        })
    }
}

type Parts = Vec<(PlannedEvent, Box<dyn OpenCounter>)>;

#[derive(Debug)]
struct OpenReading {
    index: usize,
    /// The open counters, or the reason why there are none.
    state: Result<Parts, String>,
}

impl OpenReading {
    fn each(&mut self, verb: &str, act: impl Fn(&mut dyn OpenCounter) -> io::Result<()>) {
        let Ok(parts) = &mut self.state else { return };
        let failure = parts.iter_mut().find_map(|(event, counter)| {
            act(counter.as_mut())
                .err()
                .map(|e| format!("{event} could not be {verb}: {e}"))
        });
        if let Some(why) = failure {
            self.state = Err(why);
        }
    }
}

#[derive(Debug)]
struct OpenPerf {
    plan: Arc<Plan>,
    readings: Vec<OpenReading>,
}

impl OpenCounters for OpenPerf {
    fn resume(&mut self) {
        for reading in &mut self.readings {
            reading.each("switched on", |counter| counter.resume());
        }
    }

    fn pause(&mut self) {
        for reading in self.readings.iter_mut().rev() {
            reading.each("switched off", |counter| counter.pause());
        }
    }

    fn readings(&mut self) -> Vec<Reading> {
        let mut all = Vec::new();
        for open in &mut self.readings {
            let planned = &self.plan.readings[open.index];
            let sum = match &mut open.state {
                Ok(parts) => sum(parts),
                Err(why) => Err(why.clone()),
            };
            all.extend(readings(planned, sum));
        }
        for missing in &self.plan.missing {
            all.push(Reading::unavailable(
                missing.name.clone(),
                missing.unit,
                missing.why.clone(),
            ));
        }
        all
    }
}

/// Sum of all parts, each extrapolated to the time in which it was switched on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sum {
    count: f64,
    /// Longest time that a part was switched on, ns; all parts are switched on together.
    enabled_ns: f64,
    /// Smallest share of that time that a part was on the hardware.
    share: f64,
}

fn sum(parts: &mut Parts) -> Result<Sum, String> {
    let mut sum = Sum {
        count: 0.0,
        enabled_ns: 0.0,
        share: 1.0,
    };
    for (event, counter) in parts {
        let count = counter
            .read()
            .map_err(|e| format!("{event} could not be read: {e}"))?;
        let share = share(event, count)?;
        sum.count += count.count as f64 / share;
        sum.enabled_ns = sum.enabled_ns.max(count.enabled_ns as f64);
        sum.share = sum.share.min(share);
    }
    Ok(sum)
}

/// Share of the time switched on that a counter was on the hardware.
///
/// A counter that never was on the hardware has no count, which is not the same as 0.
fn share(event: &PlannedEvent, count: Count) -> Result<f64, String> {
    if count.enabled_ns == 0 {
        return Err(format!("{event} was never switched on while a thread ran"));
    }
    if count.running_ns == 0 {
        return Err(format!(
            "{event} never got a hardware counter (others hold them all: stop other profilers; sudo sysctl kernel.nmi_watchdog=0)"
        ));
    }
    // A thread that ran has executed instructions. A count of 0 comes from hypervisors that accept
    // the event but do not count.
    if event.scope == Scope::Threads
        && count.count == 0
        && ["instructions", "cycles"].contains(&event.label.as_str())
    {
        return Err(format!(
            "{event} stood still while threads ran: this virtual machine emulates counters without counting"
        ));
    }
    // The kernel rounds both times, so the share may slightly exceed 1.
    Ok((count.running_ns as f64 / count.enabled_ns as f64).min(1.0))
}

/// Readings of one quantity: the count, and the bandwidth if it is in bytes.
fn readings(planned: &PlannedReading, sum: Result<Sum, String>) -> Vec<Reading> {
    let bandwidth = || format!("{}_bandwidth", planned.name);
    let is_bytes = planned.unit == Unit::Bytes;
    match sum {
        Ok(sum) => {
            let value = sum.count * planned.per_count;
            let note = note(planned, sum.share);
            let mut all =
                vec![Reading::known(&planned.name, value, planned.unit).with_note(note.clone())];
            if is_bytes {
                // Bytes per nanosecond are GB/s.
                all.push(
                    Reading::known(bandwidth(), value / sum.enabled_ns, Unit::Gbps).with_note(note),
                );
            }
            all
        }
        Err(why) => {
            let mut all = vec![Reading::unavailable(
                &planned.name,
                planned.unit,
                why.clone(),
            )];
            if is_bytes {
                all.push(Reading::unavailable(bandwidth(), Unit::Gbps, why));
            }
            all
        }
    }
}

fn note(planned: &PlannedReading, share: f64) -> Option<String> {
    let percent = share * 100.0;
    let scaled = match share {
        share if share < WARN_BELOW => Some(format!(
            "extrapolated from only {percent:.1}% of the time: counters took turns, take it as a rough figure"
        )),
        share if share < 0.999 => Some(format!(
            "extrapolated from {percent:.1}% of the time: counters took turns"
        )),
        _ => None,
    };
    match (&planned.note, scaled) {
        (Some(note), Some(scaled)) => Some(format!("{note}; {scaled}")),
        (Some(note), None) => Some(note.clone()),
        (None, scaled) => scaled,
    }
}
