//! Errors of machine profiles and of requests to the model.

use thiserror::Error;

/// A file of numbers with sources that cannot be read.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MisreadError {
    /// Text that is not YAML, or a value of the wrong type.
    #[error("{file}:{line}: cannot read {what}{}: {message}", at(.field))]
    Syntax {
        /// File as named by the caller.
        file: String,
        /// Contents that the file should have ("prices").
        what: &'static str,
        /// Line, from 1; 0 if unknown.
        line: u64,
        /// Path of the field (`tiers[1].read_gbps`), empty at the top.
        field: String,
        /// Message of the parser: what it found and expected.
        message: String,
    },
    /// A key that such files do not have.
    #[error("{file}:{line}: unknown key {key:?}{}: expected {known}", at(.field))]
    UnknownKey {
        /// File as named by the caller.
        file: String,
        /// Line of the key, from 1.
        line: u64,
        /// Path of the mapping that has the key.
        field: String,
        /// The unknown key, as written.
        key: String,
        /// Allowed keys, and the most similar one.
        known: String,
    },
    /// A required field is absent.
    #[error("{file}:{line}: `{field}` is missing: {expected}")]
    Missing {
        /// File as named by the caller.
        file: String,
        /// Line of the mapping that lacks it.
        line: u64,
        /// Path of the missing field.
        field: String,
        /// Description of the value that is missing.
        expected: &'static str,
    },
}

fn at(field: &str) -> String {
    if field.is_empty() {
        String::new()
    } else {
        format!(" at `{field}`")
    }
}

/// A machine profile that cannot be used.
///
/// Every message names the file, the line, the field and what was expected there.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error(transparent)]
    Misread(#[from] MisreadError),
    /// A number out of range.
    #[error("{file}:{line}: `{field}` is {found}, expected {expected}")]
    Number {
        /// File as named by the caller.
        file: String,
        /// Line of the number, from 1.
        line: u64,
        /// Path of the field.
        field: String,
        /// The invalid number, as read.
        found: f64,
        /// Valid range, as part of the message.
        expected: &'static str,
    },
    /// A text (name, tier, schema, source) that is not valid.
    #[error("{file}:{line}: `{field}` is {found:?}, expected {expected}")]
    Text {
        /// File as named by the caller.
        file: String,
        /// Line of the text, from 1.
        line: u64,
        /// Path of the field.
        field: String,
        /// Text in the file.
        found: String,
        /// Valid texts, as part of the message.
        expected: String,
    },
    /// The profile could not be written as YAML.
    #[error("cannot write machine profile {name:?} as YAML: {message}")]
    Write {
        /// Name of the profile.
        name: String,
        /// Message of the serializer.
        message: String,
    },
    /// No built-in profile has this name.
    #[error("no built-in machine profile {name:?}; {hint}")]
    NotBuiltIn {
        /// The name, as given by the user.
        name: String,
        /// The most similar name, and all names.
        hint: String,
    },
}

/// A request that the model cannot answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ModelError {
    /// Weights that do not define shares.
    #[error(
        "tier weights {weights}: {reason}; give at least one weight above 0, each tier once (\"dram\" 3, \"cxl\" 2)"
    )]
    Weights {
        /// Weights as given, formatted for the message.
        weights: String,
        /// Reason, for the message.
        reason: &'static str,
    },
    /// The text is not a placement.
    #[error(transparent)]
    Text(tierloom_text::PlacementError),
    /// A placement on modelled tiers names a node, or a tier of no known name.
    #[error("no modelled tier is called {place:?}; expected {known}")]
    Place {
        /// The name or number as given.
        place: String,
        /// Names of tiers, with the nearest one.
        known: String,
    },
    /// A placement names a tier that the machine does not have.
    #[error(
        "placement of {structure} names tier {tier:?}, machine {machine} has {known}; use one of these or another machine"
    )]
    UnknownTier {
        /// Name of the structure, or the list entry that names the tier.
        structure: String,
        /// The unknown tier, as written in the placement.
        tier: String,
        /// Name of the machine.
        machine: String,
        /// Names of its tiers.
        known: String,
    },
    /// A structure that is to be placed but that no phase accesses.
    #[error("nothing called {structure:?} to move: no phase touches it; the phases touch {known}")]
    UnknownStructure {
        /// Name of the structure or class.
        structure: String,
        /// Structures of the phases.
        known: String,
    },
    /// A number of a phase that is negative or not finite.
    #[error("phase {phase:?}: {field} is {found}; expected a finite number of at least 0")]
    PhaseNumber {
        /// Name of the phase.
        phase: String,
        /// Which number, as text.
        field: String,
        /// The invalid value of that number.
        found: f64,
    },
    /// A benchmark with an invalid parameter.
    #[error("{work}: {field} is {found}; expected {expected}")]
    Work {
        /// Name of the benchmark.
        work: &'static str,
        /// Name of the parameter.
        field: &'static str,
        /// Its value, as text.
        found: String,
        /// Valid values, as part of the message.
        expected: &'static str,
    },
    /// A cluster with a number that cannot be.
    #[error("a cluster with {field} {found} cannot be modelled: expected {expected}")]
    Cluster {
        /// The number, as text.
        field: &'static str,
        /// Its value.
        found: f64,
        /// Valid values, as part of the message.
        expected: &'static str,
    },
    /// A phase with neither compute time nor accesses.
    #[error(
        "phase {phase:?} does no work (no compute time, no lines accessed), so it has no throughput; leave it out or give it accesses"
    )]
    NoWork {
        /// Name of the phase, or of all phases.
        phase: String,
    },
    /// A phase with 0 workers.
    #[error("phase {phase:?} cannot run with 0 workers; give at least 1")]
    NoWorkers {
        /// Name of the phase.
        phase: String,
    },
    /// More workers than a machine can run at the same time.
    #[error(
        "{workers} workers are too many for machine {machine}: it has {cores} cores with {smt} hardware thread{} each, so at most {most} workers run at the same time",
        if *.smt == 1.0 { "" } else { "s" }
    )]
    TooManyWorkers {
        /// Name of the machine.
        machine: String,
        /// The number that was requested.
        workers: u32,
        /// Hardware threads of the machine.
        most: u32,
        /// Cores of the machine.
        cores: f64,
        /// Hardware threads of one core.
        smt: f64,
    },
    /// A path without a number in the machine.
    #[error("machine {machine} has no number `{path}`: {hint}")]
    UnknownNumber {
        /// Name of the machine.
        machine: String,
        /// The unknown path, as requested.
        path: String,
        /// The most similar path, or where paths are listed.
        hint: String,
    },
    /// A machine built in code with an invalid number.
    #[error(
        "machine {machine}: `{field}` is {found}, expected {expected}; check machines that are built in code with `Machine::check`"
    )]
    Machine {
        /// Name of the machine.
        machine: String,
        /// Path of the field.
        field: String,
        /// The invalid number, in the unit of the field.
        found: f64,
        /// Valid range, as part of the message.
        expected: &'static str,
    },
}
