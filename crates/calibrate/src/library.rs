//! Machines and constants that figures refer to.
//!
//! Fits and perturbations work on copies of a library, so figures always name machines and
//! constants and never hold them.

use crate::error::{CalibrateError, one_of};
use crate::figures::FigurePoint;
use crate::yaml::{Fields, read};
use std::collections::BTreeMap;
use tierloom_model::{Machine, SourceKind, Value, profiles};

/// Only supported version of the format of constants.
pub const CONSTANTS_SCHEMA: &str = "tierloom-constants/1";

/// Numbers that belong to no machine, by name: efficiencies of tools and costs of engines.
pub type Constants = BTreeMap<String, Value>;

/// Reads constants from `text`; `file` is used in errors only.
///
/// # Errors
/// [`CalibrateError::File`] for text that is not YAML, unknown or missing keys, a constant without
/// a source or with an invalid number.
pub fn constants_from_yaml(text: &str, file: &str) -> Result<Constants, CalibrateError> {
    parse_constants(text).map_err(|e| e.in_file(file))
}

fn parse_constants(text: &str) -> Result<Constants, crate::yaml::Mistake> {
    use crate::yaml::Value as Yaml;
    let tree = read(text)?;
    let top = Fields::of(&tree, &["schema", "constants"])?;
    top.schema(CONSTANTS_SCHEMA)?;
    let list = top.need("constants", "a mapping of names to { value, kind, source }")?;
    let entries = match &list.value {
        Yaml::Map(entries) => entries.as_slice(),
        Yaml::Null => &[],
        _ => {
            let problem = format!("is {}", list.kind());
            let what = "a mapping of names to { value, kind, source }";
            return Err(crate::yaml::Mistake::new(list.line, problem, what).under("constants"));
        }
    };
    let mut constants = Constants::new();
    for (key, node) in entries {
        let name = key.as_text().unwrap_or_default();
        let value = constant(node).map_err(|e| e.under(name).under("constants"))?;
        constants.insert(name.to_owned(), value);
    }
    Ok(constants)
}

fn constant(node: &crate::yaml::Node) -> Result<Value, crate::yaml::Mistake> {
    let fields = Fields::of(node, &["value", "kind", "source", "low", "high"])?;
    let number: f64 = fields.needed("value", "a number")?;
    if number < 0.0 {
        let problem = format!("is {number}");
        return Err(
            crate::yaml::Mistake::new(node.line, problem, "a number of at least 0").under("value"),
        );
    }
    let kind: SourceKind =
        fields.needed("kind", "published, derived, assumed, measured or fitted")?;
    let source: String = fields.needed("source", "where the number is from")?;
    let value = Value::new(number, kind, source);
    match (fields.typed("low")?, fields.typed("high")?) {
        (Some(low), Some(high)) => Ok(value.within(low, high)),
        (None, None) => Ok(value),
        _ => Err(crate::yaml::Mistake::new(
            node.line,
            "has one end of an interval",
            "`low` and `high`, or neither",
        )),
    }
}

/// Machines and constants by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Library {
    /// Machines by the name that figures use.
    pub machines: BTreeMap<String, Machine>,
    /// Constants by the name that figures use.
    pub constants: Constants,
}

impl Library {
    /// All built-in machines, with these constants.
    ///
    /// # Errors
    /// [`CalibrateError::Profile`] if a built-in profile is invalid.
    pub fn builtin(constants: Constants) -> Result<Library, CalibrateError> {
        let mut machines = BTreeMap::new();
        for name in profiles::builtin_names() {
            machines.insert(name.to_owned(), profiles::load(name)?);
        }
        Ok(Library {
            machines,
            constants,
        })
    }

    /// The machine called `name`; `user` appears in the error.
    ///
    /// # Errors
    /// [`CalibrateError::UnknownMachine`] suggests the most similar name.
    pub fn machine(
        &self,
        name: &str,
        user: &dyn std::fmt::Display,
    ) -> Result<&Machine, CalibrateError> {
        self.machines
            .get(name)
            .ok_or_else(|| CalibrateError::UnknownMachine {
                user: user.to_string(),
                name: name.into(),
                hint: one_of(name, self.machines.keys().map(String::as_str)),
            })
    }

    /// Value of the constant called `name`; `user` appears in the error.
    ///
    /// # Errors
    /// [`CalibrateError::UnknownConstant`] suggests the most similar name.
    pub fn constant(
        &self,
        name: &str,
        user: &dyn std::fmt::Display,
    ) -> Result<f64, CalibrateError> {
        let found = self.constants.get(name).map(|v| v.value);
        found.ok_or_else(|| CalibrateError::UnknownConstant {
            user: user.to_string(),
            name: name.into(),
            hint: one_of(name, self.constants.keys().map(String::as_str)),
        })
    }

    /// Checks that all machines and constants of the figures exist.
    ///
    /// # Errors
    /// [`CalibrateError::UnknownMachine`] or [`CalibrateError::UnknownConstant`] for the first that
    /// does not.
    pub fn check<'a>(
        &self,
        figures: impl IntoIterator<Item = &'a FigurePoint>,
    ) -> Result<(), CalibrateError> {
        for figure in figures {
            for name in figure.machines() {
                self.machine(name, figure)?;
            }
            for name in figure.constants() {
                self.constant(name, figure)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "schema: tierloom-constants/1\nconstants:\n";

    #[test]
    fn constants_keep_their_origin_and_interval() {
        let text = format!(
            "{HEAD}  tool: {{ value: 0.9, kind: fitted, source: \"x\", low: 0.8, high: 1 }}\n"
        );
        let constants = constants_from_yaml(&text, "c.yaml").unwrap();
        let tool = &constants["tool"];
        assert_eq!(
            (tool.value, tool.low, tool.high),
            (0.9, Some(0.8), Some(1.0))
        );
        assert_eq!(tool.kind, SourceKind::Fitted);
        assert!(constants_from_yaml(HEAD, "c.yaml").unwrap().is_empty());
    }

    #[test]
    fn a_constant_without_source_or_below_zero_is_refused_at_its_place() {
        let wrong = |line: &str| {
            constants_from_yaml(&format!("{HEAD}  {line}\n"), "c.yaml")
                .unwrap_err()
                .to_string()
        };
        assert!(
            wrong("tool: { value: 1, kind: fitted }")
                .starts_with("c.yaml:3: `constants.tool`: `source` is missing")
        );
        assert!(wrong("tool: { value: -1, kind: fitted, source: x }").contains("at least 0"));
        assert!(
            wrong("tool: { value: 1, kind: fited, source: x }")
                .contains("did you mean \"fitted\"?")
        );
    }
}
