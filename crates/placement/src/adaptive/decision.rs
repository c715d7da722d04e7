//! What the controller decides, and what it is told.

use super::Layout;
use serde::{Deserialize, Serialize};
use std::fmt;
use tierloom_model::Phase;

/// What a phase is remembered by: its kind, the class of its size, and the structures that it touches. Phases of the same key behave alike,
/// whatever query they are from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PhaseKey(String);

impl PhaseKey {
    /// The key of a phase. Sizes and processor time count in powers of two.
    pub fn of(phase: &Phase) -> Self {
        let class = |x: f64| x.max(1.0).log2().floor() as u32;
        let mut structures: Vec<String> = phase
            .accesses
            .iter()
            .map(|a| format!("{}^{}", a.structure, class(a.footprint_bytes as f64)))
            .collect();
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

/// What happens to the placement of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It stays.
    Keep,
    /// It changes to what trials have shown to gain.
    Move,
    /// It goes back to the first tier, or to the placement before, because what was changed to does
    /// not keep what was shown of it.
    Return,
}

/// A part of a phase that runs under another placement, so that a mistake costs little: its pages are placed so, and its morsels timed apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The placement of the part. Only its columns are placed so: a hash table cannot be tried in part.
    pub layout: Layout,
    /// Share of the phase's tuples, above 0 and below 1.
    pub share: f64,
}

/// What is decided for a phase before a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseDecision {
    /// What it is remembered by.
    pub key: PhaseKey,
    /// Its name in the query.
    pub phase: String,
    /// What happens.
    pub action: Action,
    /// The placement of the run.
    pub layout: Layout,
    /// What the model wants with all that was learned; the same as `layout` when there is nothing to gain.
    pub wanted: Layout,
    /// What `wanted` is believed to gain over the placement before, ln of the ratio of times.
    pub gain: f64,
    /// Standard deviation of it.
    pub doubt: f64,
    /// Parts that try something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
    /// Modelled time on the corrected machine under `layout`, ns.
    pub expected_ns: f64,
    /// Bytes of columns that have to be moved first, for the trial too.
    pub moved_bytes: u64,
    /// Why.
    pub reason: String,
}

impl PhaseDecision {
    /// Share of the phase that runs under its layout: all but the trials.
    pub fn rest(&self) -> f64 {
        1.0 - self.trials.iter().map(|t| t.share).sum::<f64>()
    }
}

/// How long a phase took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Time of the tuples under the decided layout, ns.
    pub time_ns: f64,
    /// Time of the tuples of each trial, ns; shorter or empty if trials were not timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials_ns: Vec<f64>,
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
