//! The way to the manager.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use tierloom_memory::Clock;

use super::wire::Reply;

/// Reaches managers, whatever lies between.
pub trait Connect: Debug + Send + Sync {
    /// Connects to the manager that serves at `address`, as [`crate::Pool::serve`] was told it.
    ///
    /// # Errors
    /// Why it cannot be reached.
    fn connect(&self, address: &str) -> Result<Box<dyn ManagerLink>, String>;
}

/// A connection to a manager.
pub trait ManagerLink: Debug + Send {
    /// Sends a request and returns what [`crate::PoolServer::answer`] made of it.
    ///
    /// # Errors
    /// Why there is no answer. The request may have been carried out: it is sent again over
    /// another connection, which does no harm.
    fn call(&mut self, request: &str) -> Result<String, String>;
}

/// The way to the manager.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) connect: Arc<dyn Connect>,
    pub(super) link: Option<(String, Box<dyn ManagerLink>)>,
    /// Number of the last request.
    pub(super) number: u64,
    /// How long an answer is waited for, over all attempts.
    pub(super) patience: Duration,
    /// Whether the last request was given up.
    pub(super) gave_up: bool,
    pub(super) clock: Arc<dyn Clock>,
}

impl Client {
    /// One attempt.
    pub(super) fn call(&mut self, address: Option<&str>, request: &str) -> Result<Reply, String> {
        let Some(address) = address else {
            self.link = None;
            return Err("nobody serves it".to_owned());
        };
        let mut link = match self.link.take() {
            Some((connected, link)) if connected == address => link,
            _ => self.connect.connect(address)?,
        };
        let answer = link.call(request)?;
        self.link = Some((address.to_owned(), link));
        serde_json::from_str(&answer).map_err(|error| {
            let start: String = answer.chars().take(80).collect();
            format!("its answer cannot be read: {error} (`{start}`)")
        })
    }
}
