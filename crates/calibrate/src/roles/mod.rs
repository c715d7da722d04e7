//! Whether the roles of figures are true, as far as that can be computed. What was chosen by hand
//! only people know.

mod arithmetic;
mod fitted;

pub use arithmetic::Arithmetic;
pub use fitted::check_fitted;
