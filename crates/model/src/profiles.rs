//! Machine profiles that are built in, as text and parsed.
//!
//! They are compiled into the program, so it needs no files at run time.

use crate::error::ProfileError;
use crate::machine::Machine;

macro_rules! profiles {
    ($($name:literal),+ $(,)?) => {
        const BUILTIN: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../machines/", $name, ".yaml")))),+];
    };
}

profiles!(
    "epfl25-full-pf-on",
    "epfl25-full-pf-off",
    "epfl25-snc2-pf-on",
    "epfl25-snc2-pf-off",
    "epfl25-snc4-pf-on",
    "epfl25-snc4-pf-off",
    "nus24",
    "hpi25-1dev",
    "hpi25-2dev",
    "hpi25-3dev",
    "hpi25-4dev",
    "hpi25-far",
    "bench25",
    "sap26-direct",
    "sap26-pool",
);

/// YAML text of the profile `name`, with its comments; `None` if it is not built in.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// Names of all built-in profiles, grouped by publication.
pub fn builtin_names() -> Vec<&'static str> {
    BUILTIN.iter().map(|(name, _)| *name).collect()
}

/// Built-in name most similar to a misspelt one; `None` if none is similar enough.
pub fn nearest(name: &str) -> Option<&'static str> {
    tierloom_text::nearest(name, BUILTIN.iter().map(|(known, _)| *known))
}

/// Parses the built-in profile `name`.
///
/// # Errors
/// [`ProfileError::NotBuiltIn`] suggests the most similar name.
pub fn load(name: &str) -> Result<Machine, ProfileError> {
    let Some(text) = builtin(name) else {
        let all = builtin_names().join(", ");
        let hint = nearest(name).map_or_else(
            || format!("known are {all}"),
            |near| format!("did you mean {near:?}? Known are {all}"),
        );
        return Err(ProfileError::NotBuiltIn {
            name: name.into(),
            hint,
        });
    };
    Machine::from_yaml(text, &format!("machines/{name}.yaml"))
}
