//! Scripted counters, for tests on machines without hardware counters.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Count, OpenCounter, PerfOpener};
use crate::plan::PlannedEvent;

/// Behaviour of an event in a [`FakeOpener`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountStep {
    /// Opening succeeds, and each resume adds this count.
    Adds(Count),
    /// Opening fails with this errno.
    Refused(i32),
    /// Opening succeeds, but reading fails with this errno.
    Unreadable(i32),
}

/// Opener that looks up its behaviour by the label of the event, and logs all calls.
#[derive(Debug, Clone, Default)]
pub struct FakeOpener {
    script: BTreeMap<String, CountStep>,
    other: Option<CountStep>,
    log: Arc<Mutex<Vec<String>>>,
}

impl FakeOpener {
    /// Uses `step` for every event without a step for its label.
    pub fn all(step: CountStep) -> Self {
        Self {
            other: Some(step),
            ..Self::default()
        }
    }

    /// Uses `step` for events with this label.
    #[must_use]
    pub fn with(mut self, label: &str, step: CountStep) -> Self {
        self.script.insert(label.to_owned(), step);
        self
    }

    /// All calls in order: "open LABEL (CPU N)", "resume LABEL", "pause LABEL", "close LABEL".
    pub fn log(&self) -> Vec<String> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl PerfOpener for FakeOpener {
    fn open(&self, event: &PlannedEvent) -> io::Result<Box<dyn OpenCounter>> {
        let step = self.script.get(&event.label).copied().or(self.other);
        note(&self.log, format!("open {event}"));
        // An event without a step behaves as on a processor that lacks it (ENOENT).
        let no_such_event = CountStep::Refused(2);
        match step.unwrap_or(no_such_event) {
            CountStep::Refused(errno) => Err(io::Error::from_raw_os_error(errno)),
            step => Ok(Box::new(FakeCounter {
                label: event.label.clone(),
                step,
                total: Count::default(),
                log: self.log.clone(),
            })),
        }
    }
}

fn note(log: &Mutex<Vec<String>>, line: String) {
    log.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(line);
}

#[derive(Debug)]
struct FakeCounter {
    label: String,
    step: CountStep,
    total: Count,
    log: Arc<Mutex<Vec<String>>>,
}

impl OpenCounter for FakeCounter {
    fn resume(&mut self) -> io::Result<()> {
        if let CountStep::Adds(step) = self.step {
            self.total.count += step.count;
            self.total.enabled_ns += step.enabled_ns;
            self.total.running_ns += step.running_ns;
        }
        note(&self.log, format!("resume {}", self.label));
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        note(&self.log, format!("pause {}", self.label));
        Ok(())
    }

    fn read(&mut self) -> io::Result<Count> {
        match self.step {
            CountStep::Unreadable(errno) => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(self.total),
        }
    }
}

impl Drop for FakeCounter {
    fn drop(&mut self) {
        note(&self.log, format!("close {}", self.label));
    }
}
