//! Fitting: parameters of machines and tools from published figures.

mod least_squares;
mod linear;
mod parameters;
mod problem;
mod result;
mod uncertainty;

pub use parameters::{CALIBRATION_SCHEMA, Calibration, Parameter, Set, Target};
pub(crate) use problem::residual;
pub use result::{Fit, FittedParameter, Knowledge, fit};
