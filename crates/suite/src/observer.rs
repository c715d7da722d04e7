//! How a run reports its progress and learns that it is to stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Watches a run. Called from several threads.
pub trait Observer: Sync {
    /// Set by the caller to stop the run; what is finished by then is kept.
    fn stop(&self) -> &AtomicBool;

    /// Something happened.
    fn event(&self, event: Event<'_>);

    /// Whether the run is to stop.
    fn stopped(&self) -> bool {
        self.stop().load(Ordering::Relaxed)
    }

    /// A remark for the user.
    fn note(&self, text: &str) {
        self.event(Event::Note(text));
    }
}

/// What a run reports on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A stage of this length begins.
    Begin(Stage, u64),
    /// What is being done now, as in `3:2 q1.1`.
    At(&'a str),
    /// The stage advanced by so much.
    Advanced(u64),
    /// The stage is this far.
    Reached(u64),
    /// The stage is over, or the run ended in it.
    End,
    /// A remark for the user.
    Note(&'a str),
}

/// A part of a run that takes long, with the unit of its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Generating data; in rows.
    Generating,
    /// Timing queries one by one; in queries.
    Measuring,
    /// Running streams under one placement; in seconds.
    Streaming,
}
