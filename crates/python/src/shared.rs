//! What a connection and its results have in common.

use super::turn::Turns;
use super::worker::Worker;
use std::sync::Arc;

/// The session, and whose turn it is. It lives as long as the connection or one of its results.
pub struct Shared {
    pub worker: Worker,
    pub turns: Arc<Turns>,
}
