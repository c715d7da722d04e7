//! Runs one piece of work from its preparation to its result, on a separate thread.
//!
//! Errors and panics of the runner become the result of the work; the agent survives them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use crate::server::session::Agent;
use crate::wire::{Failure, MAX_TEXT_BYTES, Phase};
use crate::{Ready, RunnerError, Stop};

/// Interval at which work that waits for its start checks for a stop.
const LOOK: Duration = Duration::from_millis(20);

/// The inputs of the thread.
pub(crate) struct Task {
    pub request: String,
    pub stop: Stop,
    pub starts: Receiver<SystemTime>,
    pub session: String,
}

/// Runs the work and records how it ended.
pub(crate) fn run(agent: &Agent, task: Task) {
    let (phase, result) = match steps(agent, &task) {
        Ok(result) => (
            Phase::Finished {
                bytes: result.len(),
            },
            result,
        ),
        Err((during, failure)) => {
            let during = during.to_owned();
            (Phase::Failed { during, failure }, String::new())
        }
    };
    agent.ended(&task.session, phase, result);
}

type Ended = (&'static str, Failure);

fn steps(agent: &Agent, task: &Task) -> Result<String, Ended> {
    let stop = &task.stop;
    let (ready, summary) = guarded("preparing", || {
        let ready = agent.runner.prepare(&task.request, stop)?;
        let summary = fitting("summary", ready.summary())?;
        Ok((ready, summary))
    })?;
    agent.ready(&task.session, summary);
    let Some(start) = wait_for_start(task) else {
        guarded("waiting for the start", || {
            drop(ready);
            Ok(())
        })?;
        return Err(("waiting for the start", Failure::Stopped));
    };
    guarded("running", move || {
        fitting("result", Ready::run(ready, start, stop)?)
    })
}

/// The agreed start time; `None` if the work was stopped before.
fn wait_for_start(task: &Task) -> Option<SystemTime> {
    loop {
        if task.stop.requested() {
            return None;
        }
        match task.starts.recv_timeout(LOOK) {
            Ok(start) => return Some(start),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Runs one step of the runner and turns its panic into an error.
///
/// What the step owns is dropped inside too, since a destructor may panic as well.
fn guarded<T>(
    during: &'static str,
    step: impl FnOnce() -> Result<T, RunnerError>,
) -> Result<T, Ended> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(RunnerError::Stopped)) => Err((during, Failure::Stopped)),
        Ok(Err(RunnerError::Failed(message))) => Err((during, Failure::Runner { message })),
        Err(payload) => Err((
            during,
            Failure::Panic {
                message: panic_message(payload.as_ref()),
            },
        )),
    }
}

fn fitting(what: &str, text: String) -> Result<String, RunnerError> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(text);
    }
    Err(RunnerError::Failed(format!(
        "its {what} of {} MiB is larger than the {} MiB that fit a message",
        text.len() >> 20,
        MAX_TEXT_BYTES >> 20
    )))
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
