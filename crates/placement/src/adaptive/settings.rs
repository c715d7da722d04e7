//! What the controller may do, and when.

use serde::{Deserialize, Serialize};

/// Limits of the adaptive controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Workers of each phase.
    pub workers: u32,
    /// Least gain for which anything changes, as a share of the time.
    pub min_gain: f64,
    /// Phases expected to take less stay as they are, ns.
    pub min_phase_ns: f64,
    /// And those that take less than this share of their query.
    pub min_phase_share: f64,
    /// Most that all trials of a query's run may cost, as a share of its time.
    pub trial_cost: f64,
    /// Largest part of a phase that a trial takes.
    pub max_trial_share: f64,
    /// Smallest part whose time can be told.
    pub min_trial_share: f64,
    /// Most that the share of a tier changes at once, 0 to 1.
    pub max_step: f64,
    /// Runs of a phase after a change before the next one.
    pub cool_down_runs: u32,
    /// Changes of a phase's placement after which it stays as it is.
    pub max_changes: u32,
    /// Runs without a reason to change after which a phase is settled.
    pub settle_runs: u32,
    /// Bytes of columns that may be moved before one run of a query.
    pub migration_bytes_per_run: u64,
    /// Rate at which pages are moved, GB/s.
    pub migration_gbps: f64,
    /// Runs over which a migration has to pay.
    pub expected_runs: f64,
    /// Standard deviation of the measured time of a phase, as a share, until enough was measured to
    /// tell it from the times.
    pub noise: f64,
    /// The same of a trial, which is shorter.
    pub trial_noise: f64,
    /// Least standard deviation of each number of the machine profile, as a share.
    pub profile_doubt: f64,
    /// Standard deviations by which a trial may be slower than expected where its cost is limited.
    pub certainty: f64,
}

impl Settings {
    /// The usual limits for so many workers.
    pub fn new(workers: u32) -> Self {
        Settings {
            workers,
            min_gain: 0.01,
            min_phase_ns: 1e6,
            min_phase_share: 0.01,
            trial_cost: 0.006,
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
            profile_doubt: 0.115,
            certainty: 3.0,
        }
    }
}
