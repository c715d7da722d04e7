//! Adaptive placement: the model proposes, measurements decide.
//!
//! [`Controller`] plans the placement of each phase before a run and learns from its measured times
//! afterwards. The model only selects what is worth a trial; a phase is moved as a whole on
//! measured gains alone. [`Logged`] and [`replay`] record and verify decisions. The rest are
//! further levers: number of workers and hardware prefetching. Nothing here moves pages.

mod belief;
mod claims;
mod controller;
mod deciding;
mod decision;
mod distrust;
mod evidence;
mod latencies;
mod latency_steps;
mod layout;
mod levers;
mod log;
mod noise;
mod numbers;
mod operators;
mod risks;
mod settings;
mod state;
mod trying;

pub use belief::Belief;
pub use claims::Claims;
pub use controller::Controller;
pub use decision::{Action, Measured, PhaseDecision, PhaseKey, TierLatencies, Trial};
pub use layout::Layout;
pub(crate) use layout::OPERATOR_MEMORY;
pub use levers::{NEARLY, Prefetch, Prefetching, fewest_workers};
pub use log::{Clock, Difference, Entry, Logged, RanPhase, Replayed, SCHEMA, SystemClock, replay};
pub use numbers::Gain;
pub use settings::Settings;
