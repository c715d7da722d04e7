//! Placement that adapts by itself: the model wants, measurements decide.

mod belief;
mod controller;
mod deciding;
mod decision;
mod layout;
mod levers;
mod log;
mod settings;
mod state;

pub use belief::{Belief, Gain};
pub use controller::Controller;
pub use decision::{Action, Measured, PhaseDecision, PhaseKey, Trial};
pub use layout::Layout;
pub use levers::{NEARLY, Prefetch, Prefetching, fewest_workers};
pub use log::{Clock, Difference, Entry, Logged, RanPhase, Replayed, SCHEMA, SystemClock, replay};
pub use settings::Settings;
