//! Placement that adapts by itself: the model wants, measurements decide.

mod belief;
mod controller;
mod decision;
mod layout;
mod settings;
mod state;

pub use belief::{Belief, Gain};
pub use controller::Controller;
pub use decision::{Action, Measured, PhaseDecision, PhaseKey, Trial};
pub use layout::Layout;
pub use settings::Settings;
