//! The state of the current run: its first failure, and stopping all hosts because of it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::coordinator::link::Link;
use crate::{AgentError, Stop};

/// Shared by the coordinator and the tasks that follow its hosts.
pub(crate) struct Run {
    handle: Handle,
    links: OnceLock<Vec<Link>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    trouble: Stop,
    first: Option<AgentError>,
    /// Requests to stop, on their way to the hosts.
    stops: Vec<JoinHandle<()>>,
}

impl Run {
    pub fn new(handle: Handle) -> Self {
        Self {
            handle,
            links: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Sets the sessions that are stopped after a failure.
    pub fn set_links(&self, links: Vec<Link>) {
        // The coordinator calls this once, before anything is prepared.
        let _ = self.links.set(links);
    }

    /// Begins a new run: the failure of the last one is forgotten.
    ///
    /// Waits for the requests to stop of the last one: later they would stop the new work.
    pub async fn begin(&self) {
        let last = std::mem::take(&mut *self.state());
        for stop in last.stops {
            // A request that broke down reaches no host any more.
            let _ = stop.await;
        }
    }

    /// A flag that is set as soon as this run has failed.
    pub fn flag(&self) -> Stop {
        self.state().trouble.clone()
    }

    /// The first failure of this run.
    pub fn first(&self) -> Option<AgentError> {
        self.state().first.clone()
    }

    /// Records a failure. The first one of a run stops all hosts.
    pub fn trouble(&self, error: &AgentError) {
        let mut state = self.state();
        if state.first.is_some() {
            return;
        }
        state.first = Some(error.clone());
        state.trouble.request();
        for link in self.links.get().into_iter().flatten() {
            let link = link.clone();
            state.stops.push(self.handle.spawn(async move {
                // A host that is not reached stops when its lease expires.
                let _ = link.stop().await;
            }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
