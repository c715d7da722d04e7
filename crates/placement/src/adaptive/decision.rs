//! Decisions of the controller, and the measurements reported to it.

use super::Layout;
use serde::{Deserialize, Serialize};
use std::fmt;
use tierloom_model::Phase;

/// Identity of a phase: its kind, its size class, and the structures that it accesses.
///
/// Phases with equal keys are expected to behave alike, whichever query they belong to, and share
/// what was learned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PhaseKey(String);

impl PhaseKey {
    /// The key of a phase; sizes and CPU time per tuple are rounded down to powers of two.
    pub fn of(phase: &Phase) -> Self {
        let class = |x: f64| x.max(1.0).log2().floor() as u32;
        let mut structures: Vec<String> = phase
            .accesses
            .iter()
            .map(|a| format!("{}^{}", a.structure, class(a.footprint_bytes as f64)))
            .collect();
        // The order of accesses must not matter.
        structures.sort();
        structures.dedup();
        let bytes: f64 = phase
            .accesses
            .iter()
            .map(|a| a.footprint_bytes as f64)
            .sum();
        PhaseKey(format!(
            "{:?} of 2^{} bytes, 2^{} ps: {}",
            phase.kind,
            class(bytes),
            class(phase.compute_ns_per_tuple * 1e3),
            structures.join(" ")
        ))
    }
}

impl fmt::Display for PhaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a decision does with the placement of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The placement does not change.
    Keep,
    /// The phase moves to a placement for which trials have shown a gain.
    Move,
    /// The phase returns to the first tier or its previous placement: its gain was not confirmed.
    Return,
}

/// A part of a phase that runs under another placement, so that a mistake costs little.
///
/// Its pages are placed accordingly and its morsels are timed separately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Placement of the part; only its columns, since a hash table cannot be tried in part.
    pub layout: Layout,
    /// Share of the phase's tuples, above 0 and below 1.
    pub share: f64,
}

impl Trial {
    /// Whether it is a scout, where other trials have at least the share `least`.
    pub(super) fn is_scout(&self, least: f64) -> bool {
        // Shares have rounding errors.
        self.share < 0.99 * least
    }
}

/// Decision for one phase before a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseDecision {
    /// Key under which the controller keeps the phase's history.
    pub key: PhaseKey,
    /// Name of the phase in the query.
    pub phase: String,
    /// Whether the placement stays, changes or is taken back.
    pub action: Action,
    /// Placement of the run, trials excepted.
    pub layout: Layout,
    /// Placement that the corrected model or the trials favour; `layout` if nothing can be gained.
    #[serde(rename = "wanted")]
    pub proposed: Layout,
    /// Expected gain of `proposed` over the placement before, ln of the ratio of times.
    pub gain: f64,
    /// Standard deviation of `gain`.
    #[serde(rename = "doubt")]
    pub std_dev: f64,
    /// Parts of the phase that run under other placements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
    /// Modelled time on the corrected machine under `layout`, ns.
    pub expected_ns: f64,
    /// Bytes of columns to be moved before the run, those for trials included.
    pub moved_bytes: u64,
    /// Explanation for users; nothing depends on it.
    pub reason: String,
}

impl PhaseDecision {
    pub(super) fn because(self, why: &str) -> Self {
        PhaseDecision {
            reason: why.into(),
            ..self
        }
    }
}

impl PhaseDecision {
    /// Share of the phase that runs under `layout`: all but the trials.
    pub fn rest(&self) -> f64 {
        1.0 - self.trials.iter().map(|t| t.share).sum::<f64>()
    }
}

/// Measured times of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Time of the tuples under the decided placement, ns.
    pub time_ns: f64,
    /// Time of the tuples of each trial, ns; shorter or empty if trials were not timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials_ns: Vec<f64>,
    /// Latencies of the tiers while the tuples under the decided placement were processed; `None`
    /// without counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<TierLatencies>,
}

/// Mean latencies of reads that missed the caches, queueing included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TierLatencies {
    /// Of the first tier, ns.
    pub first_ns: f64,
    /// Of all other tiers together, ns; `None` if the phase read nothing from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_ns: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind};

    #[test]
    fn phases_of_the_same_shape_share_a_key_and_others_do_not() {
        let scan = |rows: f64, column: &str| {
            Phase::new("any name", PhaseKind::Scan, rows)
                .compute_ns(1.0)
                .access(Access::sequential_read(column, 8.0, (rows * 8.0) as u64))
        };
        assert_eq!(
            PhaseKey::of(&scan(1.00e9, "t.a")),
            PhaseKey::of(&scan(1.01e9, "t.a"))
        );
        for other in [
            scan(3e9, "t.a"),
            scan(1e9, "t.b"),
            scan(1e9, "t.a").compute_ns(9.0),
        ] {
            assert_ne!(PhaseKey::of(&scan(1e9, "t.a")), PhaseKey::of(&other));
        }
    }
}
