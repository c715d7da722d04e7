//! Settles one placement for a column that several phases claim with different weights.
//!
//! Every phase files a claim per column that it reads, weighed by the phase's expected time. The
//! weights with the most claimed time win. They replace the present ones only by a margin, so that
//! two phases of similar weight do not move a column back and forth between runs.

use super::layout::moved_share;
use super::{PhaseDecision, PhaseKey};
use std::collections::BTreeMap;
use tierloom_model::search::Weights;
use tierloom_model::{Phase, StructureClass};

/// Weights at most this far apart (share of pages on other tiers) count as the same claim.
const ALIKE: f64 = 0.05;

/// A placement replaces the present one only if its claims weigh at least this factor more.
const HEAVIER: f64 = 1.25;

/// The claims of all phases.
///
/// A claim keeps the expected time of the phase's first decision as its weight. A column therefore
/// moves only when the decision of a phase changes, and the controller bounds how often that is.
#[derive(Debug, Default)]
pub struct Claims {
    phases: BTreeMap<PhaseKey, PhaseClaim>,
    /// The settled weights of each claimed column, "table.column".
    columns: BTreeMap<String, Weights>,
}

#[derive(Debug)]
struct PhaseClaim {
    weights: Weights,
    weight_ns: f64,
    columns: Vec<String>,
}

impl Claims {
    /// Files or updates the claim of a phase.
    pub fn note(&mut self, phase: &Phase, decision: &PhaseDecision) {
        let weights = decision.layout.columns.clone();
        if let Some(claim) = self.phases.get_mut(&decision.key) {
            claim.weights = weights;
            return;
        }
        let columns = phase.accesses.iter();
        let columns = columns.filter(|a| a.class == StructureClass::Column);
        let claim = PhaseClaim {
            weights,
            weight_ns: decision.expected_ns,
            columns: columns.map(|a| a.structure.clone()).collect(),
        };
        self.phases.insert(decision.key.clone(), claim);
    }

    /// Settles every claimed column on the weights with the most claimed time.
    ///
    /// The present weights stay unless the new ones are at least `HEAVIER` times as heavy.
    pub fn settle(&mut self) -> &BTreeMap<String, Weights> {
        let mut wishes: BTreeMap<&str, Vec<&PhaseClaim>> = BTreeMap::new();
        for claim in self.phases.values() {
            for column in &claim.columns {
                wishes.entry(column).or_default().push(claim);
            }
        }
        for (column, claims) in wishes {
            let for_weights = |weights: &Weights| -> f64 {
                let alike = claims
                    .iter()
                    .filter(|c| moved_share(&c.weights, weights) <= ALIKE);
                alike.map(|c| c.weight_ns).sum()
            };
            // Claims within ALIKE of one another add up; among them the exact weights are the
            // heaviest phase's.
            let heaviest = claims.iter().max_by(|a, b| {
                let of = |c: &&&PhaseClaim| (for_weights(&c.weights), c.weight_ns);
                let ((a, own_a), (b, own_b)) = (of(a), of(b));
                a.total_cmp(&b).then(own_a.total_cmp(&own_b))
            });
            let Some(heaviest) = heaviest else { continue };
            let present = self.columns.get(column);
            let stays = present.is_some_and(|present| {
                let exact = claims.iter().any(|c| c.weights == *present);
                let others = for_weights(&heaviest.weights);
                let near = moved_share(present, &heaviest.weights) <= ALIKE;
                // Within ALIKE the column follows the phase's own small steps. Rival weights need
                // HEAVIER.
                if near {
                    exact
                } else {
                    others < HEAVIER * for_weights(present)
                }
            });
            if !stays {
                self.columns
                    .insert(column.to_owned(), heaviest.weights.clone());
            }
        }
        &self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Layout};
    use super::*;
    use tierloom_model::{Access, PhaseKind};

    fn claim(claims: &mut Claims, name: &str, ns: f64, weights: &str) {
        let phase = Phase::new(name, PhaseKind::Scan, 1e6)
            .access(Access::sequential_read("t.a", 8.0, 1 << 20))
            .access(Access::sequential_read(format!("t.{name}"), 8.0, 1 << 20));
        let layout = Layout {
            columns: weights.parse().unwrap(),
            operators: "dram 1".parse().unwrap(),
        };
        let decision = PhaseDecision {
            key: PhaseKey::of(&phase),
            phase: name.into(),
            action: Action::Keep,
            proposed: layout.clone(),
            layout,
            gain: 0.0,
            std_dev: 0.0,
            trials: Vec::new(),
            expected_ns: ns,
            moved_bytes: 0,
            reason: String::new(),
        };
        claims.note(&phase, &decision);
    }

    fn at(claims: &mut Claims, column: &str) -> String {
        claims.settle()[column].to_string()
    }

    #[test]
    fn a_shared_column_goes_where_most_time_wants_it_and_stays_for_equals() {
        let mut claims = Claims::default();
        claim(&mut claims, "x", 100.0, "dram 1");
        claim(&mut claims, "y", 110.0, "dram 1");
        assert_eq!(at(&mut claims, "t.a"), "dram 1");
        claim(&mut claims, "y", 110.0, "dram 3, cxl 1");
        assert_eq!(
            at(&mut claims, "t.a"),
            "dram 1",
            "little more is not enough"
        );
        assert_eq!(
            at(&mut claims, "t.y"),
            "dram 3, cxl 1",
            "its own column moves"
        );
        claim(&mut claims, "z", 60.0, "dram 76, cxl 24");
        assert_eq!(
            at(&mut claims, "t.a"),
            "dram 3, cxl 1",
            "alike wishes add up"
        );
        for _ in 0..3 {
            assert_eq!(at(&mut claims, "t.a"), "dram 3, cxl 1", "nothing swings");
        }
    }
}
