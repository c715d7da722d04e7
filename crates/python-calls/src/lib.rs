//! What the packages `tierloom` and `tierloom_model` of Python share: calls of the model, and
//! errors.
//!
//! Nothing here needs the SQL engine.

mod documents;
mod error;

pub use documents::{document, machine, machines};
pub use error::{Error, InputError, failure, input};
