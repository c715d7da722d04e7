//! Errors of policies and of the adaptive controller.

use tierloom_memory::PlacementError;
use tierloom_model::ModelError;

/// A policy that cannot be parsed, or that a machine cannot carry out.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The text is not the name of a policy.
    #[error(
        "cannot read placement `{text}`: {reason}; write dram, cxl, weights (`3:2`, `dram:3,cxl:2`, `0:3,2:2`), `tier`, `columns:8`, `columns:23%`, `adaptive`, `adaptive:512MiB` or `pool`"
    )]
    Syntax {
        /// The text as the user typed it.
        text: String,
        /// Which part of the text is wrong.
        reason: String,
    },
    /// The text was parsed as a page placement, and that failed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The placement names a NUMA node, or a tier that is missing in the modelled machine.
    ///
    /// A modelled machine has tiers but no nodes.
    #[error(
        "placement `{placement}` names {what}, which machine {machine} does not have (its tiers: {tiers}); name tiers instead, as in `dram:3,cxl:2`"
    )]
    NotOnMachine {
        /// The placement as the user typed it.
        placement: String,
        /// The node or tier that is missing, as text.
        what: String,
        /// Name of the machine profile.
        machine: String,
        /// Tiers of the machine, separated by commas.
        tiers: String,
    },
}

/// An error of the adaptive controller or of its decision log.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// The model rejects the machine profile, or cannot compute the time of a phase.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Times were reported for a run without a plan.
    #[error(
        "cannot learn from a run of {query}: it was not planned; plan each run before it is measured"
    )]
    NotPlanned {
        /// Name of the query.
        query: String,
    },
    /// The times reported do not fit the planned run.
    #[error("cannot learn from the run of {query}: {reason}; give one time per phase of the plan")]
    Measured {
        /// Name of the query.
        query: String,
        /// What does not fit: the number of times, or a time that is not a positive number.
        reason: String,
    },
    /// A line of a decision log cannot be written or parsed.
    #[error("decision log, line {line}: {reason}")]
    Log {
        /// Line number, from 1.
        line: usize,
        /// Why the line was rejected.
        reason: String,
    },
}
