//! The side of an agent: steps of queries, on data that is kept for the command's next step.

use crate::commands::pool::access::Access;
use crate::failure::Failure;
use crate::invocation::open_session;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;
use tierloom_agent::{Ready, RunnerError, Stop, SystemClock, WallClock};
use tierloom_pool::Pool;
use tierloom_suite::hosts::{Begin, HostServices, HostTask};
use tierloom_suite::{ErrorKind, HostWorker, RunError};
use tierloom_topology::Topology;

/// Runs this host's steps of workloads of queries.
pub struct QueryRunner {
    topology: Topology,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The command whose data is loaded, and the worker that has it.
    kept: Option<(String, Arc<HostWorker>)>,
    /// Frees the data of an earlier command.
    freeing: Option<JoinHandle<()>>,
}

impl QueryRunner {
    /// Runs them on the machine described by `topology`.
    pub fn new(topology: Topology) -> Self {
        QueryRunner {
            topology,
            state: Mutex::default(),
        }
    }

    /// Prepares one step.
    ///
    /// # Errors
    /// What the host cannot do, as text for the user of the coordinator.
    pub fn prepare(&self, task: HostTask, stop: &Stop) -> Result<Box<dyn Ready>, RunnerError> {
        let (step, host) = (task.step, task.host.clone());
        let worker = self.worker(task).map_err(told)?;
        let prepared = worker.prepare(step, &|| stop.requested());
        if let Err(error) = prepared {
            // Its data is in no known state.
            self.forget();
            return Err(told(error));
        }
        Ok(Box::new(ReadyStep { host, worker }))
    }

    /// Frees the data in the background.
    pub fn session_ended(&self) {
        self.forget();
    }

    fn worker(&self, task: HostTask) -> Result<Arc<HostWorker>, RunError> {
        match &self.state().kept {
            Some((command, worker)) if *command == task.command => return Ok(Arc::clone(worker)),
            _ => {}
        }
        self.forget();
        let freeing = self.state().freeing.take();
        if let Some(thread) = freeing {
            // The memory is needed for the next data.
            let _ = thread.join();
        }
        let services = HostServices {
            invocation: open_session(),
            topology: self.topology.clone(),
            open_pool,
            note: |text| note!("{text}"),
        };
        let command = task.command.clone();
        let worker = Arc::new(HostWorker::start(task, services)?);
        self.state().kept = Some((command, Arc::clone(&worker)));
        Ok(worker)
    }

    fn forget(&self) {
        let mut state = self.state();
        if let Some((_, worker)) = state.kept.take() {
            state.freeing = Some(std::thread::spawn(move || drop(worker)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_pool(path: &Path) -> Result<Pool, RunError> {
    Access::default()
        .open(path)
        .map_err(|failure| match failure {
            Failure::BadInput(text) => RunError::Refused(text),
            other => RunError::failed(other),
        })
}

fn told(error: RunError) -> RunnerError {
    match error.kind() {
        ErrorKind::Interrupted => RunnerError::Stopped,
        ErrorKind::BadInput | ErrorKind::Failed => RunnerError::Failed(error.to_string()),
    }
}

/// A step that is ready to start.
struct ReadyStep {
    host: String,
    worker: Arc<HostWorker>,
}

impl Ready for ReadyStep {
    fn summary(&self) -> String {
        serde_json::json!({ "host": self.host }).to_string()
    }

    fn run(self: Box<Self>, start: SystemTime, stop: &Stop) -> Result<String, RunnerError> {
        let waiting = stop.clone();
        let begin: Begin = Box::new(move || SystemClock.wait_until(start, &waiting));
        let result = self.worker.run(begin, &|| stop.requested()).map_err(told)?;
        serde_json::to_string(&result)
            .map_err(|error| RunnerError::Failed(format!("the result as JSON: {error}")))
    }
}
