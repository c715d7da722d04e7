//! What can be wrong with a profile or with a question to the model.

use thiserror::Error;

/// A machine profile that cannot be used. Every message names the file, the line, the field and what was expected there.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProfileError {
    /// Not YAML, or a value of the wrong type.
    #[error("{file}:{line}: cannot read machine profile{}: {message}", at(.field))]
    Syntax {
        /// File as named by the caller.
        file: String,
        /// Line, from 1; 0 if it is not known.
        line: u64,
        /// Path of the field (`tiers[1].read_gbps`), empty at the top.
        field: String,
        /// What the parser found and expected.
        message: String,
    },
    /// A key that profiles do not have.
    #[error("{file}:{line}: unknown key {key:?}{}: {hint}", at(.field))]
    UnknownKey {
        /// File as named by the caller.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Path of the field.
        field: String,
        /// The key.
        key: String,
        /// The nearest key, or all keys that may stand there.
        hint: String,
    },
    /// A field that must be there.
    #[error("{file}:{line}: `{field}` is missing: {expected}")]
    Missing {
        /// File as named by the caller.
        file: String,
        /// Line of the mapping that lacks it.
        line: u64,
        /// Path of the missing field.
        field: String,
        /// What has to be written there.
        expected: String,
    },
    /// A number out of range.
    #[error("{file}:{line}: `{field}` is {found}, expected {expected}")]
    Number {
        /// File as named by the caller.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Path of the field.
        field: String,
        /// The number.
        found: f64,
        /// The allowed range and unit.
        expected: &'static str,
    },
    /// A text (name, tier, schema, source) that is not allowed.
    #[error("{file}:{line}: `{field}` is {found:?}, expected {expected}")]
    Text {
        /// File as named by the caller.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Path of the field.
        field: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// A profile could not be turned into YAML.
    #[error("cannot write machine profile {name:?} as YAML: {message}")]
    Write {
        /// The profile.
        name: String,
        /// The serializer's message.
        message: String,
    },
    /// No built-in profile has this name.
    #[error("no built-in machine profile {name:?}; {hint}")]
    NotBuiltIn {
        /// The name asked for.
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
}

fn at(field: &str) -> String {
    if field.is_empty() {
        String::new()
    } else {
        format!(" at `{field}`")
    }
}

/// A question that the model cannot answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ModelError {
    /// Weights that are no shares.
    #[error(
        "tier weights {weights}: {reason}; give at least one weight above 0, each tier once (\"dram\" 3, \"cxl\" 2)"
    )]
    Weights {
        /// The weights as given.
        weights: String,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// A placement names a tier that the machine does not have.
    #[error(
        "placement of {structure} names tier {tier:?}, machine {machine} has {known}; use one of these or another machine"
    )]
    UnknownTier {
        /// The structure, class or "default".
        structure: String,
        /// The tier asked for.
        tier: String,
        /// The machine.
        machine: String,
        /// Its tiers.
        known: String,
    },
    /// Something is to be moved that no phase touches.
    #[error("nothing called {structure:?} to move: no phase touches it; the phases touch {known}")]
    UnknownStructure {
        /// The structure or class asked for.
        structure: String,
        /// Structures of the phases.
        known: String,
    },
    /// A number of the phase that cannot be.
    #[error("phase {phase:?}: {field} is {found}; expected a finite number of at least 0")]
    PhaseNumber {
        /// The phase.
        phase: String,
        /// Which number.
        field: String,
        /// What it is.
        found: f64,
    },
    /// A benchmark with a parameter that cannot be.
    #[error("{work}: {field} is {found}; expected {expected}")]
    Work {
        /// The benchmark.
        work: &'static str,
        /// The parameter.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The phase neither computes nor touches memory.
    #[error(
        "phase {phase:?} does no work (no compute time, no lines accessed), so it has no throughput; leave it out or give it accesses"
    )]
    NoWork {
        /// The phase.
        phase: String,
    },
    /// Nobody works.
    #[error("phase {phase:?} cannot run with 0 workers; give at least 1")]
    NoWorkers {
        /// The phase.
        phase: String,
    },
    /// A path that leads to no number of the machine.
    #[error("machine {machine} has no number `{path}`: {hint}")]
    UnknownNumber {
        /// The machine.
        machine: String,
        /// The path asked for.
        path: String,
        /// The nearest path.
        hint: String,
    },
    /// A machine built in code whose numbers cannot be.
    #[error(
        "machine {machine}: `{field}` is {found}, expected {expected}; check machines that are built in code with `Machine::check`"
    )]
    Machine {
        /// The machine.
        machine: String,
        /// Path of the field.
        field: String,
        /// The number.
        found: f64,
        /// The allowed range and unit.
        expected: &'static str,
    },
}
