//! Loads machine profiles by built-in name or from a YAML file.

use crate::PredictError;
use std::path::Path;
use tierloom_model::{Machine, profiles};

/// Whether `name` is the path of a profile and not the name of a built-in one.
pub fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
}

/// The profile `name`: a built-in one, or a YAML file if the text contains a `/` or ends in `.yaml`
/// or `.yml`.
///
/// # Errors
/// Bad input: an unknown name (the nearest one is suggested), or a file that cannot be read or is
/// not a profile.
pub fn load(name: &str) -> Result<Machine, PredictError> {
    if is_file(name) {
        let text = std::fs::read_to_string(Path::new(name))
            .map_err(|e| PredictError::input(format!("cannot read machine profile {name}: {e}")))?;
        return Machine::from_yaml(&text, name).map_err(PredictError::input);
    }
    let Some(text) = profiles::builtin(name) else {
        let nearest = profiles::nearest(name)
            .map(|n| format!("did you mean {n}? "))
            .unwrap_or_default();
        return Err(PredictError::input(format!(
            "unknown machine {name:?}: {nearest}known are {}, or the path of a YAML profile",
            profiles::builtin_names().join(", ")
        )));
    };
    // A built-in profile that does not parse is a defect of this library, not bad input.
    Machine::from_yaml(text, &format!("machines/{name}.yaml")).map_err(PredictError::failed)
}
