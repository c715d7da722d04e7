//! Errors of measuring weights on real tiers.

use tierloom_bench::run::BenchError;
use tierloom_model::ModelError;

/// Why no weights could be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The machine, or the selection, has a single tier.
    #[error(
        "this machine has one memory tier only ({found}), so there are no weights to measure: a second NUMA node with memory is missing; bring CXL memory up as a node (daxctl reconfigure-device --mode=system-ram), name tiers yourself (--tiers \"dram=0;cxl=1\"), or ask the model about another machine (--machine)"
    )]
    OneTier {
        /// The only tier, or the selection, as text.
        found: String,
    },
    /// The machine has no tier with this name.
    #[error(
        "this machine has no tier {tier}; it has {known}; name its nodes with --tiers, as in \"dram=0;{tier}=1\""
    )]
    NoTier {
        /// Name of the missing tier.
        tier: String,
        /// Tiers of the machine with their nodes, as text.
        known: String,
    },
    /// Queries were to be run like an access loop.
    #[error("queries need an engine")]
    NoQueries,
    /// The engine could not run the queries, or was stopped.
    #[error("{message}")]
    Queries {
        /// Why, as text.
        message: String,
        /// Whether the request was wrong.
        is_bad_input: bool,
        /// Whether the user stopped it.
        is_stopped: bool,
    },
    /// The phase has a parameter that nothing here can be run with.
    #[error(
        "phase {phase}: {parameter}={given} cannot be measured; expected {expected}, or ask the model (--machine)"
    )]
    Parameter {
        /// The phase as it was asked for.
        phase: String,
        /// Name of the parameter.
        parameter: &'static str,
        /// Its value.
        given: String,
        /// What it has to be.
        expected: String,
    },
    /// More workers were requested than CPUs are usable.
    #[error(
        "{asked} workers were asked for, but {cpus} CPUs of node {nodes} can be used; ask for 1 to {cpus} (--workers)"
    )]
    Workers {
        /// Number of workers requested.
        asked: u32,
        /// Number of usable CPUs.
        cpus: usize,
        /// Nodes of these CPUs, as text.
        nodes: String,
    },
    /// The regions are too small, or larger than the free memory of a tier.
    #[error(
        "regions of {region_mib} MiB are too small to measure weights: {why}; expected at least 4 MiB (--region), and every tier must be able to hold a region of its own"
    )]
    Region {
        /// Size of a region, MiB.
        region_mib: u64,
        /// The limit that applies, as text.
        why: String,
    },
    /// A benchmark run failed or was stopped.
    #[error(transparent)]
    Run(#[from] BenchError),
    /// Two runs in a row gave invalid records.
    #[error(
        "two runs in a row with weights {weights} are of no use: {remarks}; keep the machine quiet, and turn NUMA balancing off (sysctl kernel.numa_balancing=0)"
    )]
    Invalid {
        /// Weights of the runs.
        weights: String,
        /// Remarks of the last record.
        remarks: String,
    },
    /// The model rejects the phase or the profile that the search starts from.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The search rejected a measured rate or its own limits.
    #[error("the search for weights failed: {0}")]
    Search(String),
}

impl MeasureError {
    /// Whether the request was wrong (exit code 2) rather than the machine at fault (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::OneTier { .. }
            | Self::NoTier { .. }
            | Self::Parameter { .. }
            | Self::Workers { .. }
            | Self::Region { .. }
            | Self::Model(_) => true,
            Self::Run(error) => error.is_bad_input(),
            Self::Queries { is_bad_input, .. } => *is_bad_input,
            Self::Invalid { .. } | Self::Search(_) | Self::NoQueries => false,
        }
    }

    /// Whether the user stopped the measurement.
    pub fn is_stopped(&self) -> bool {
        matches!(
            self,
            Self::Run(BenchError::Stopped { .. })
                | Self::Queries {
                    is_stopped: true,
                    ..
                }
        )
    }
}
