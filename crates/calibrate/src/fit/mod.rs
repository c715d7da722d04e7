//! Fits parameters of machines and tools to published figures (MAP estimate).
//!
//! Parameters are fitted as logarithms, with uniform or log-normal priors; [`Knowledge`] says which
//! of them the figures determine.

mod least_squares;
mod linear;
mod parameters;
mod problem;
mod result;
mod uncertainty;

pub use parameters::{CALIBRATION_SCHEMA, Calibration, Parameter, Set, Target};
pub(crate) use problem::residual;
pub use result::{Fit, FittedParameter, Knowledge, fit};
