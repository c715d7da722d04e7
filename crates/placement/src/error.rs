//! What can be wrong with a policy.

use tierloom_memory::PlacementError;
use tierloom_model::ModelError;

/// A policy that cannot be read, or that a machine cannot carry out.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The text is no policy.
    #[error(
        "cannot read placement `{text}`: {reason}; write dram, cxl, weights (`3:2`, `dram:3,cxl:2`, `0:3,2:2`), `tier`, `columns:8`, `columns:23%`, `adaptive` or `adaptive:512MiB`"
    )]
    Syntax {
        /// What was typed.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The text looks like a placement of pages but is not one.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A modelled machine has tiers, not the nodes of this machine.
    #[error(
        "placement `{placement}` names {what}, which machine {machine} does not have (its tiers: {tiers}); name tiers instead, as in `dram:3,cxl:2`"
    )]
    NotOnMachine {
        /// The placement as typed.
        placement: String,
        /// The node or tier.
        what: String,
        /// The machine profile.
        machine: String,
        /// Tiers it has.
        tiers: String,
    },
}

/// What can go wrong in adapting.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// The model cannot price what it was asked.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Times came for a run that was not planned.
    #[error(
        "cannot learn from a run of {query}: it was not planned; plan each run before it is measured"
    )]
    NotPlanned {
        /// The query.
        query: String,
    },
    /// The times cannot be those of the planned run.
    #[error("cannot learn from the run of {query}: {reason}; give one time per phase of the plan")]
    Measured {
        /// The query.
        query: String,
        /// What is wrong.
        reason: String,
    },
    /// A line of a decision log cannot be written or read.
    #[error("decision log, line {line}: {reason}")]
    Log {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}
