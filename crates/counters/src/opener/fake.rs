//! Scripted counters, for tests on machines without any.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Count, OpenCounter, PerfOpener};
use crate::plan::PlannedEvent;

/// What happens to an event that a [`FakeOpener`] is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountStep {
    /// It opens, and each time it is on adds this.
    Adds(Count),
    /// It does not open: this errno.
    Refused(i32),
    /// It opens but cannot be read: this errno.
    Unreadable(i32),
}

/// Answers by the label of the event, and keeps a log of what was done.
#[derive(Debug, Clone, Default)]
pub struct FakeOpener {
    script: BTreeMap<String, CountStep>,
    other: Option<CountStep>,
    log: Arc<Mutex<Vec<String>>>,
}

impl FakeOpener {
    /// Does `step` for every event that has no step of its own.
    pub fn all(step: CountStep) -> Self {
        Self {
            other: Some(step),
            ..Self::default()
        }
    }

    /// Does `step` for events with this label.
    #[must_use]
    pub fn with(mut self, label: &str, step: CountStep) -> Self {
        self.script.insert(label.to_owned(), step);
        self
    }

    /// What was done, in order: "open LABEL (CPU N)", "resume LABEL", "pause LABEL", "close LABEL".
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
