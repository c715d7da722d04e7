//! Placement that adapts by itself: the model wants, measurements decide.

mod belief;
mod chance;
mod controller;
mod deciding;
mod decision;
mod distrust;
mod evidence;
mod layout;
mod levers;
mod log;
mod numbers;
mod operators;
mod settings;
mod state;
mod trying;

pub use belief::Belief;
pub use controller::Controller;
pub use decision::{Action, Measured, PhaseDecision, PhaseKey, Trial};
pub use layout::Layout;
pub use levers::{NEARLY, Prefetch, Prefetching, fewest_workers};
pub use log::{Clock, Difference, Entry, Logged, RanPhase, Replayed, SCHEMA, SystemClock, replay};
pub use numbers::Gain;
pub use settings::Settings;
