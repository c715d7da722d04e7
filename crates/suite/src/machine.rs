//! Loads machine profiles by built-in name or from a YAML file.

use crate::RunError;
use tierloom_model::Machine;
pub use tierloom_predict::machine::is_file;
use tierloom_predict::{PredictError, machine};

/// The profile `name`; see [`machine::load`].
///
/// # Errors
/// Bad input: an unknown name, or a file that cannot be read or is not a profile.
pub fn load(name: &str) -> Result<Machine, RunError> {
    machine::load(name).map_err(|error| match error {
        PredictError::BadInput(text) => RunError::refused(text),
        PredictError::Failed(text) => RunError::failed(text),
    })
}
