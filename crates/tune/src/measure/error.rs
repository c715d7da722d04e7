//! What stops a search on real tiers.

use tierloom_bench::run::BenchError;
use tierloom_model::ModelError;

use super::MEASURABLE;

/// Why there are no measured weights.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// There is nothing to spread over.
    #[error(
        "this machine has one memory tier only ({found}), so there are no weights to measure: a second NUMA node with memory is missing; bring CXL memory up as a node (daxctl reconfigure-device --mode=system-ram), name tiers yourself (--tiers \"dram=0;cxl=1\"), or ask the model about another machine (--machine)"
    )]
    OneTier {
        /// What there is.
        found: String,
    },
    /// A tier that this machine does not have.
    #[error(
        "this machine has no tier {tier}; it has {known}; name its nodes with --tiers, as in \"dram=0;{tier}=1\""
    )]
    NoTier {
        /// The tier.
        tier: String,
        /// Those there are.
        known: String,
    },
    /// A phase without a kernel.
    #[error(
        "phase {phase} cannot be measured: no access kernel does what it does; measurable are {measurable}; ask the model for the others (--machine)",
        measurable = MEASURABLE.join(", ")
    )]
    NoKernel {
        /// The phase.
        phase: String,
    },
    /// More workers than CPUs.
    #[error(
        "{asked} workers were asked for, but {cpus} CPUs of node {nodes} can be used; ask for 1 to {cpus} (--workers)"
    )]
    Workers {
        /// Asked for.
        asked: u32,
        /// CPUs there are.
        cpus: usize,
        /// Nodes they belong to.
        nodes: String,
    },
    /// A region that says nothing.
    #[error(
        "regions of {region_mib} MiB are too small to measure weights: {why}; expected at least 4 MiB (--region), and every tier must be able to hold a region of its own"
    )]
    Region {
        /// Size, MiB.
        region_mib: u64,
        /// Where it comes from.
        why: String,
    },
    /// A run failed.
    #[error(transparent)]
    Run(#[from] BenchError),
    /// Runs whose figures must not be used.
    #[error(
        "two runs in a row with weights {weights} are of no use: {remarks}; keep the machine quiet, and turn NUMA balancing off (sysctl kernel.numa_balancing=0)"
    )]
    Invalid {
        /// The weights.
        weights: String,
        /// What the records say.
        remarks: String,
    },
    /// The model cannot price the phase, so nothing guides the search.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The search cannot use an answer.
    #[error("the search for weights failed: {0}")]
    Search(String),
}

impl MeasureError {
    /// Whether another request would do on this machine (exit code 2), rather than that the machine failed (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::OneTier { .. }
            | Self::NoTier { .. }
            | Self::NoKernel { .. }
            | Self::Workers { .. }
            | Self::Region { .. }
            | Self::Model(_) => true,
            Self::Run(error) => error.is_bad_input(),
            Self::Invalid { .. } | Self::Search(_) => false,
        }
    }

    /// Whether the user stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Run(BenchError::Stopped { .. }))
    }
}
