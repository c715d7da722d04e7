//! Limits and noise levels of the adaptive controller.

use serde::{Deserialize, Serialize};

/// Settings of the adaptive controller; [`Settings::new`] has the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Worker threads that execute each phase.
    pub workers: u32,
    /// Minimum gain for a trial or change, as a share of the phase's time.
    pub min_gain: f64,
    /// Phases with a shorter expected time are left alone, ns.
    pub min_phase_ns: f64,
    /// Phases below this share of their query's expected time are left alone.
    pub min_phase_share: f64,
    /// Limit for the expected worst-case loss of a phase's trials in a run, as a share of its time.
    pub trial_cost: f64,
    /// Largest share of a phase's rows for one trial.
    pub max_trial_share: f64,
    /// Smallest share of a phase's rows for one trial: below it, times are too noisy to use.
    pub min_trial_share: f64,
    /// Largest share of the pages that one change moves, 0 to 1.
    pub max_step: f64,
    /// Runs of a phase after a change before the next change.
    pub cool_down_runs: u32,
    /// Changes of a phase after which its placement is final; the last is reserved for a return.
    pub max_changes: u32,
    /// Consecutive runs without a reason to change after which a phase is settled.
    pub settle_runs: u32,
    /// Bytes of columns that may be moved before one run of a query.
    pub migration_bytes_per_run: u64,
    /// Assumed migration bandwidth, GB/s.
    pub migration_gbps: f64,
    /// Number of runs over which the cost of a migration has to be recovered.
    pub expected_runs: f64,
    /// Prior standard deviation of a phase's measured time, as a share.
    ///
    /// Repeated measurements replace it over time.
    pub noise: f64,
    /// Prior standard deviation of a trial's measured time, as a share; trials are noisier.
    pub trial_noise: f64,
    /// Minimum prior standard deviation of each number of the machine profile, as a share.
    #[serde(rename = "profile_doubt")]
    pub profile_std_dev: f64,
    /// Standard deviations added to the expected loss of a trial when its risk is limited.
    pub certainty: f64,
}

impl Settings {
    /// Default limits for this number of workers.
    pub fn new(workers: u32) -> Self {
        Settings {
            workers,
            min_gain: 0.01,
            min_phase_ns: 1e6,
            min_phase_share: 0.01,
            trial_cost: 0.0055,
            max_trial_share: 0.04,
            min_trial_share: 0.01,
            max_step: 0.5,
            cool_down_runs: 1,
            max_changes: 6,
            settle_runs: 2,
            migration_bytes_per_run: 64 << 30,
            migration_gbps: 2.0,
            expected_runs: 1000.0,
            noise: 0.01,
            trial_noise: 0.02,
            profile_std_dev: 0.115,
            certainty: 3.0,
        }
    }
}
