//! Machine profiles by name or file.

use crate::failure::Failure;
use std::path::Path;
use tierloom_model::{Machine, profiles};

/// The profile `name`: one of those built in, or a YAML file if the text has a `/` or ends in `.yaml` or `.yml`.
///
/// # Errors
/// Bad input: an unknown name (the nearest one is suggested), a file that cannot be read or is no profile.
pub fn load(name: &str) -> Result<Machine, Failure> {
    let is_file = name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml");
    if is_file {
        let text = std::fs::read_to_string(Path::new(name))
            .map_err(|e| Failure::input(format!("cannot read machine profile {name}: {e}")))?;
        return Machine::from_yaml(&text, name).map_err(Failure::input);
    }
    let Some(text) = profiles::builtin(name) else {
        let nearest = profiles::nearest(name)
            .map(|n| format!("did you mean {n}? "))
            .unwrap_or_default();
        return Err(Failure::input(format!(
            "unknown machine {name:?}: {nearest}known are {}, or the path of a YAML profile",
            profiles::builtin_names().join(", ")
        )));
    };
    Machine::from_yaml(text, &format!("machines/{name}.yaml")).map_err(Failure::runtime)
}
