//! Verification of the roles of figures, where it can be computed.
//!
//! Whether something was chosen by hand only people can know.

mod arithmetic;
mod fitted;

pub use arithmetic::Arithmetic;
pub use fitted::check_fitted;
