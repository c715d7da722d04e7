//! What went wrong in the current run, and telling everybody at once.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::runtime::Handle;

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
}

impl Run {
    pub fn new(handle: Handle) -> Self {
        Self {
            handle,
            links: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Names the hosts that are told to stop when one is in trouble.
    pub fn set_links(&self, links: Vec<Link>) {
        // Set once, by the coordinator, before anything is prepared.
        let _ = self.links.set(links);
    }

    /// A new run: what was wrong with the last one is over.
    pub fn begin(&self) {
        *self.state() = State::default();
    }

    /// Set as soon as something is wrong with this run.
    pub fn flag(&self) -> Stop {
        self.state().trouble.clone()
    }

    /// The first thing that went wrong.
    pub fn first(&self) -> Option<AgentError> {
        self.state().first.clone()
    }

    /// Notes the trouble of a host. The first one stops all other hosts.
    pub fn trouble(&self, error: &AgentError) {
        {
            let mut state = self.state();
            if state.first.is_some() {
                return;
            }
            state.first = Some(error.clone());
            state.trouble.request();
        }
        for link in self.links.get().into_iter().flatten() {
            let link = link.clone();
            // A host that cannot be told stops by its lease.
            self.handle.spawn(async move { link.stop().await });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
