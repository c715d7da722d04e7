//! Weights for an engine, as a YAML file and as lines for a shell.
//!
//! The kernel has one set of weights for the whole system. An engine that places its structures
//! itself can use different weights in each phase; this file has them. Engines find it through the
//! variable [`FILE_VARIABLE`]:
//!
//! ```text
//!   schema: tierloom-weights/1
//!   provenance: modelled           # or measured
//!   machine: nus24                 # the profile, or "here"
//!   tiers: [{tier: dram, nodes: [0]}, {tier: cxl, nodes: [1]}]
//!   phases:
//!   - phase: probe
//!     kind: probe                  # kind of phase, as in the model
//!     classes: [column, hash-table]  # classes of structures that these weights are for
//!     placement: dram:3,cxl:2      # as for --placement
//! ```

use std::path::Path;

use serde::{Deserialize, Serialize};
use tierloom_model::{PhaseKind, StructureClass};
use tierloom_record::{Provenance, TierWeight};

use crate::apply::TierNodes;

/// The only supported version of the file.
pub const SCHEMA: &str = "tierloom-weights/1";
/// Environment variable with the path of the YAML file.
pub const FILE_VARIABLE: &str = "TIERLOOM_WEIGHTS_FILE";
/// Environment variable with the weights of the chosen phase.
///
/// With `_` and a phase's name appended, it has the weights of that phase.
pub const WEIGHTS_VARIABLE: &str = "TIERLOOM_WEIGHTS";

/// Weights of all tuned phases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineWeights {
    /// Always [`SCHEMA`]; other files are rejected.
    pub schema: String,
    /// Whether the weights were modelled or measured.
    pub provenance: Provenance,
    /// Name of the machine profile, or [`tierloom_record::HERE`] if measured.
    pub machine: String,
    /// Time of tuning, RFC 3339.
    pub made_at: String,
    /// Version of the program that wrote the file.
    pub tool_version: String,
    /// Nodes of the tiers where the file was written; empty if that machine lacks the tiers.
    pub tiers: Vec<TierNodes>,
    /// One entry per tuned phase.
    pub phases: Vec<PhaseWeights>,
}

/// Weights of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseWeights {
    /// Name of the phase, such as "probe".
    pub phase: String,
    /// Kind of the phase, as in the model.
    pub kind: PhaseKind,
    /// Classes of structures that these weights apply to; all others stay on the first tier.
    pub classes: Vec<StructureClass>,
    /// Number of workers that the phase was tuned for.
    pub workers: u32,
    /// Weights in the syntax of `--placement`, such as "dram:3,cxl:2".
    pub placement: String,
    /// Rate with these weights over the rate with the first tier only.
    pub gain_over_dram: f64,
}

/// Why a weights file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum WeightsFileError {
    /// The file cannot be serialised to YAML or parsed from it.
    #[error("{file}: {problem}; expected a file as `tierloom tune --apply --config` writes it")]
    Yaml {
        /// Name of the file.
        file: String,
        /// Message of the YAML library.
        problem: String,
    },
    /// The file has another schema.
    #[error("{file}: schema is {found:?}, expected {SCHEMA:?}")]
    Schema {
        /// Name of the file.
        file: String,
        /// Schema in the file.
        found: String,
    },
}

/// Weights in the syntax of `--placement`.
pub fn placement(weights: &[TierWeight]) -> String {
    let parts: Vec<String> = weights
        .iter()
        .map(|weight| format!("{}:{}", weight.tier, weight.weight))
        .collect();
    parts.join(",")
}

impl EngineWeights {
    /// Serialises to YAML that [`EngineWeights::from_yaml`] accepts; `file` is for error messages.
    ///
    /// # Errors
    /// [`WeightsFileError::Yaml`] if a number is not finite.
    pub fn to_yaml(&self, file: &str) -> Result<String, WeightsFileError> {
        serde_saphyr::to_string(self).map_err(|error| WeightsFileError::Yaml {
            file: file.to_owned(),
            problem: error.to_string(),
        })
    }

    /// Parses the text of a file; `file` is for error messages.
    ///
    /// # Errors
    /// [`WeightsFileError`] if the text does not parse or has another schema.
    pub fn from_yaml(text: &str, file: &str) -> Result<Self, WeightsFileError> {
        let found: Self = serde_saphyr::from_str(text).map_err(|error| WeightsFileError::Yaml {
            file: file.to_owned(),
            problem: error.to_string(),
        })?;
        if found.schema == SCHEMA {
            return Ok(found);
        }
        Err(WeightsFileError::Schema {
            file: file.to_owned(),
            found: found.schema,
        })
    }

    /// Lines for a POSIX shell: weights of `chosen`, of each phase, and the YAML's path.
    pub fn shell(&self, chosen: Option<&str>, yaml: Option<&Path>) -> String {
        let mut text = format!(
            "# tierloom tune, {}: weights {} for machine {}\n",
            one_line(&self.made_at),
            self.provenance,
            one_line(&self.machine)
        );
        let mut export = |name: &str, value: &str| {
            // In POSIX shells a single quote has to be closed, escaped and reopened.
            let quoted = value.replace('\'', r"'\''");
            text += &format!("export {name}='{quoted}'\n");
        };
        let chosen = self
            .phases
            .iter()
            .find(|phase| Some(phase.phase.as_str()) == chosen);
        if let Some(phase) = chosen {
            export(WEIGHTS_VARIABLE, &phase.placement);
        }
        for phase in &self.phases {
            export(&variable(&phase.phase), &phase.placement);
        }
        if let Some(yaml) = yaml {
            export(FILE_VARIABLE, &yaml.display().to_string());
        }
        text
    }
}

/// Environment variable of a phase: uppercase letters, digits and underscores.
fn variable(phase: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let name: String = phase.chars().map(letter).collect();
    format!("{WEIGHTS_VARIABLE}_{name}")
}

/// Replaces control characters, since a line break would end a shell comment and start a command.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights() -> EngineWeights {
        let tier = |tier: &str, node| TierNodes {
            tier: tier.into(),
            nodes: vec![node],
        };
        EngineWeights {
            schema: SCHEMA.into(),
            provenance: Provenance::Modelled,
            machine: "m\nrm -rf /".into(),
            made_at: "2026-01-01T00:00:00Z".into(),
            tool_version: "0".into(),
            tiers: vec![tier("dram", 0), tier("cxl", 1)],
            phases: vec![PhaseWeights {
                phase: "nt-write".into(),
                kind: PhaseKind::Write,
                classes: vec![StructureClass::Column],
                workers: 8,
                placement: "dram:3,cxl:2".into(),
                gain_over_dram: 1.25,
            }],
        }
    }

    #[test]
    fn the_file_is_read_back_and_other_versions_are_refused() {
        let yaml = weights().to_yaml("f").unwrap();
        assert_eq!(EngineWeights::from_yaml(&yaml, "f").unwrap(), weights());
        let other = yaml.replace(SCHEMA, "tierloom-weights/9");
        let text = EngineWeights::from_yaml(&other, "f")
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("tierloom-weights/9") && text.contains(SCHEMA),
            "{text}"
        );
        let wrong = yaml.replace("placement", "placemnt");
        assert!(EngineWeights::from_yaml(&wrong, "f").is_err());
    }

    #[test]
    fn names_and_paths_cannot_break_out_of_the_shell_lines() {
        let text = weights().shell(Some("nt-write"), Some(Path::new("/a b/it's.yaml")));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("# ") && lines[0].contains("modelled"),
            "{text}"
        );
        assert_eq!(
            lines[1..],
            [
                "export TIERLOOM_WEIGHTS='dram:3,cxl:2'",
                "export TIERLOOM_WEIGHTS_NT_WRITE='dram:3,cxl:2'",
                r"export TIERLOOM_WEIGHTS_FILE='/a b/it'\''s.yaml'",
            ]
        );
    }
}
