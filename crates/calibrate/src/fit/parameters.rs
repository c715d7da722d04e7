//! Calibration files: the parameters of a fit, and the figures it uses.

use crate::error::CalibrateError;
use crate::yaml::{Fields, Mistake, Node, read};
use std::fmt;

/// Only supported version of the format.
pub const CALIBRATION_SCHEMA: &str = "tierloom-calibration/1";

/// Parameters to fit, and the files of the fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// File as named by the caller.
    pub file: String,
    /// Paths of the figures files, relative to this file.
    pub figures: Vec<String>,
    /// Path of the constants file, relative to this file.
    pub constants: String,
    /// Folder of the profiles, relative to this file.
    pub machines: String,
    /// Parameters in the order of the file.
    pub parameters: Vec<Parameter>,
}

/// One unknown of the fit. It may set several numbers of profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name, unique in the file.
    pub name: String,
    /// Numbers that the parameter sets, at least one.
    pub sets: Vec<Set>,
    /// Starting value, and centre of the prior; the result if no figure depends on the parameter.
    pub start: f64,
    /// Lower bound, above 0.
    pub low: f64,
    /// Upper bound, above `low`.
    pub high: f64,
    /// Standard deviation of the log-normal prior around the start, per cent; `None` for a prior
    /// that is uniform between the bounds.
    pub prior_percent: Option<f64>,
    /// Meaning of the parameter, and the reason for its start; becomes part of the source of its
    /// numbers.
    pub why: String,
    /// Line in the calibration file, from 1.
    pub line: u64,
}

/// A number set by a parameter: `parameter * times + plus`, at most `at_most`.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// The number that is set.
    pub target: Target,
    /// Factor on the parameter, above 0; 1 by default.
    pub times: f64,
    /// Summand, in the unit of the number; 0 by default.
    pub plus: f64,
    /// Upper limit of the number; `None` for no limit.
    pub at_most: Option<f64>,
}

/// A number that a parameter can set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A number of a machine.
    Number {
        /// Name of the machine.
        machine: String,
        /// Path in the profile (`tiers[cxl].read_gbps`).
        path: String,
    },
    /// A constant, by name.
    Constant(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Number { machine, path } => write!(f, "{machine} {path}"),
            Target::Constant(name) => write!(f, "constant {name}"),
        }
    }
}

impl Set {
    /// The number for a value of the parameter, rounded to five significant digits.
    ///
    /// Files get the rounded number, so it is also the one that the final comparison uses.
    pub fn value(&self, parameter: f64) -> f64 {
        let exact = parameter * self.times + self.plus;
        rounded(self.at_most.map_or(exact, |most| exact.min(most)), 5)
    }

    /// The unrounded number; rounding would make finite differences useless.
    pub(super) fn exact(&self, parameter: f64) -> f64 {
        let exact = parameter * self.times + self.plus;
        self.at_most.map_or(exact, |most| exact.min(most))
    }
}

/// `value` rounded to `digits` significant digits.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(digits - 1 - value.abs().log10().floor() as i32);
    let nearest = (value * scale).round() / scale;
    // Through text, so that 0.1 + 0.2 becomes exactly the literal 0.3.
    format!("{nearest:.*}", 12).parse().unwrap_or(nearest)
}

impl Calibration {
    /// Reads a calibration from `text`; `file` is used in errors only.
    ///
    /// # Errors
    /// [`CalibrateError::File`] with line and field for text that is not YAML, unknown or missing
    /// keys, or invalid numbers.
    pub fn from_yaml(text: &str, file: &str) -> Result<Calibration, CalibrateError> {
        let mut parsed = parse(text).map_err(|e| e.in_file(file))?;
        parsed.file = file.to_owned();
        Ok(parsed)
    }

    /// Last two parts of the path, which sources quote: they do not depend on the folder that the
    /// command ran in.
    pub fn short_name(&self) -> String {
        let parts: Vec<&str> = self
            .file
            .split('/')
            .filter(|p| !p.is_empty() && *p != ".")
            .collect();
        parts[parts.len().saturating_sub(2)..].join("/")
    }
}

fn parse(text: &str) -> Result<Calibration, Mistake> {
    let tree = read(text)?;
    let top = Fields::of(
        &tree,
        &["schema", "figures", "constants", "machines", "parameters"],
    )?;
    top.schema(CALIBRATION_SCHEMA)?;
    top.need("figures", "a list of figures files, relative to this file")?;
    top.need("parameters", "a list of parameters")?;
    let mut parameters: Vec<Parameter> = Vec::new();
    for (index, node) in top.list("parameters")?.iter().enumerate() {
        let at = |e: Mistake| e.or_line(node.line).under(&format!("parameters[{index}]"));
        let made = parameter(node).map_err(at)?;
        check_new(&made, &parameters).map_err(at)?;
        parameters.push(made);
    }
    Ok(Calibration {
        file: String::new(),
        figures: top.names("figures")?,
        constants: top
            .typed("constants")?
            .unwrap_or_else(|| "../figures/constants.yaml".into()),
        machines: top
            .typed("machines")?
            .unwrap_or_else(|| "../machines".into()),
        parameters,
    })
}

fn parameter(node: &Node) -> Result<Parameter, Mistake> {
    let keys = [
        "name",
        "sets",
        "start",
        "low",
        "high",
        "prior_percent",
        "why",
    ];
    let fields = Fields::of(node, &keys)?;
    let number = |key: &str| -> Result<f64, Mistake> {
        fields.need(key, "a number above 0")?;
        fields.positive(key).map(Option::unwrap_or_default)
    };
    let (start, low, high) = (number("start")?, number("low")?, number("high")?);
    if !(low <= start && start <= high && low < high) {
        let problem = format!("start {start} with low {low} and high {high}");
        return Err(Mistake::new(
            node.line,
            problem,
            "low below high and start between them",
        ));
    }
    let mut sets = Vec::new();
    for (index, node) in fields.list("sets")?.iter().enumerate() {
        sets.push(set(node).map_err(|e| e.under(&format!("sets[{index}]")))?);
    }
    if sets.is_empty() {
        return Err(Mistake::new(
            node.line,
            "sets nothing",
            "`sets` with at least one number or constant",
        ));
    }
    Ok(Parameter {
        name: fields.needed("name", "a name")?,
        sets,
        start,
        low,
        high,
        prior_percent: fields.positive("prior_percent")?,
        why: fields.needed("why", "what it is and why its start is believed")?,
        line: node.line,
    })
}

fn set(node: &Node) -> Result<Set, Mistake> {
    let fields = Fields::of(
        node,
        &["machine", "path", "constant", "times", "plus", "at_most"],
    )?;
    let target = match (
        fields.typed("machine")?,
        fields.typed("path")?,
        fields.typed("constant")?,
    ) {
        (Some(machine), Some(path), None) => Target::Number { machine, path },
        (None, None, Some(name)) => Target::Constant(name),
        _ => {
            let what = "`machine` and `path`, or `constant`";
            return Err(Mistake::new(node.line, "does not say what is set", what));
        }
    };
    Ok(Set {
        target,
        times: fields.positive("times")?.unwrap_or(1.0),
        plus: fields.typed("plus")?.unwrap_or(0.0),
        at_most: fields.positive("at_most")?,
    })
}

/// Checks that no other parameter has the name or sets one of the numbers.
fn check_new(new: &Parameter, others: &[Parameter]) -> Result<(), Mistake> {
    if others.iter().any(|p| p.name == new.name) {
        return Err(Mistake::new(
            new.line,
            format!("{:?} is there already", new.name),
            "another name",
        ));
    }
    // With two parameters for one number, the result would depend on their order.
    for (index, set) in new.sets.iter().enumerate() {
        let mut before = others
            .iter()
            .flat_map(|p| &p.sets)
            .chain(&new.sets[..index]);
        if before.any(|s| s.target == set.target) {
            let problem = format!("{} is set twice", set.target);
            return Err(Mistake::new(
                new.line,
                problem,
                "each number under one parameter",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "schema: tierloom-calibration/1\nfigures: [../figures/a.yaml]\nparameters:\n";

    fn wrong(parameter: &str) -> String {
        let text = format!("{HEAD}  - {parameter}\n");
        Calibration::from_yaml(&text, "c.yaml")
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn numbers_are_written_as_they_were_priced() {
        let set = Set {
            target: Target::Constant("x".into()),
            times: 8.0,
            plus: 1.0,
            at_most: Some(300.0),
        };
        assert_eq!(set.value(33.123_456), 265.99);
        assert_eq!(set.value(100.0), 300.0);
        assert_eq!(rounded(0.1 + 0.2, 5), 0.3);
        assert_eq!(rounded(123_456_789.0, 5), 123_460_000.0);
    }

    #[test]
    fn impossible_parameters_are_refused_at_their_line() {
        let good = "why: x, low: 1, high: 3";
        let sets = "sets: [{ constant: a }]";
        assert!(
            wrong(&format!("{{ name: p, {sets}, start: 4, {good} }}"))
                .starts_with("c.yaml:4: `parameters[0]`: start 4")
        );
        assert!(
            wrong(&format!(
                "{{ name: p, {sets}, start: 2, low: 0, high: 3, why: x }}"
            ))
            .contains("above 0")
        );
        assert!(
            wrong(&format!(
                "{{ name: p, sets: [{{ machine: m }}], start: 2, {good} }}"
            ))
            .contains("sets[0]")
        );
        assert!(
            wrong(&format!(
                "{{ name: p, sets: [{{ constant: a }}, {{ constant: a }}], start: 2, {good} }}"
            ))
            .contains("set twice")
        );
        assert!(
            wrong(&format!("{{ name: p, {sets}, strat: 2, {good} }}"))
                .contains("did you mean \"start\"?")
        );
    }

    #[test]
    fn sources_name_the_file_alike_from_every_folder() {
        let text = format!(
            "{HEAD}  - {{ name: p, sets: [{{ constant: a }}], start: 2, low: 1, high: 3, why: x }}\n"
        );
        for file in [
            "calibration/a.yaml",
            "./calibration/a.yaml",
            "/home/me/calibration/a.yaml",
        ] {
            assert_eq!(
                Calibration::from_yaml(&text, file).unwrap().short_name(),
                "calibration/a.yaml"
            );
        }
    }
}
