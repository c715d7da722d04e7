//! One placement for a column that several phases want in different places.

use std::collections::BTreeMap;
use tierloom_model::search::Weights;
use tierloom_model::{Phase, StructureClass};
use tierloom_placement::adaptive::{PhaseDecision, PhaseKey};

/// Weights so close are one wish.
const ALIKE: f64 = 0.05;

/// Another placement takes a column over only if the phases that want it weigh so many times as much.
const HEAVIER: f64 = 1.25;

/// What every phase wants of its columns.
///
/// A phase weighs what its first run was expected to take: that stays, so that a column changes its place only when the decision of a phase does,
/// which the controller bounds.
#[derive(Debug, Default)]
pub(super) struct Claims {
    phases: BTreeMap<PhaseKey, Claim>,
    /// Where each column is wanted.
    columns: BTreeMap<String, Weights>,
}

#[derive(Debug)]
struct Claim {
    weights: Weights,
    weight_ns: f64,
    columns: Vec<String>,
}

impl Claims {
    /// What was decided for a phase.
    pub fn note(&mut self, phase: &Phase, decision: &PhaseDecision) {
        let weights = decision.layout.columns.clone();
        if let Some(claim) = self.phases.get_mut(&decision.key) {
            claim.weights = weights;
            return;
        }
        let columns = phase.accesses.iter();
        let columns = columns.filter(|a| a.class == StructureClass::Column);
        let claim = Claim {
            weights,
            weight_ns: decision.expected_ns,
            columns: columns.map(|a| a.structure.clone()).collect(),
        };
        self.phases.insert(decision.key.clone(), claim);
    }

    /// Where each column that is claimed goes: where most of the expected time wants it, unless that is little more than what wants it where it is.
    pub fn settle(&mut self) -> &BTreeMap<String, Weights> {
        let mut wishes: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
        for claim in self.phases.values() {
            for column in &claim.columns {
                wishes.entry(column).or_default().push(claim);
            }
        }
        for (column, claims) in wishes {
            let for_weights = |weights: &Weights| -> f64 {
                let alike = claims
                    .iter()
                    .filter(|c| apart(&c.weights, weights) <= ALIKE);
                alike.map(|c| c.weight_ns).sum()
            };
            // Of wishes that are alike the heaviest phase's is taken.
            let heaviest = claims.iter().max_by(|a, b| {
                let of = |c: &&&Claim| (for_weights(&c.weights), c.weight_ns);
                let ((a, own_a), (b, own_b)) = (of(a), of(b));
                a.total_cmp(&b).then(own_a.total_cmp(&own_b))
            });
            let Some(heaviest) = heaviest else { continue };
            let present = self.columns.get(column);
            let stays = present.is_some_and(|present| {
                let exact = claims.iter().any(|c| c.weights == *present);
                let others = for_weights(&heaviest.weights);
                let near = apart(present, &heaviest.weights) <= ALIKE;
                // A small step of the same phases is followed, a rival needs to be heavier.
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

/// Share of the pages that two weights put on different tiers.
fn apart(a: &Weights, b: &Weights) -> f64 {
    let mut tiers: Vec<&str> = a.iter().chain(b.iter()).map(|(tier, _)| tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let of = |tier: &&str| (a.share(tier) - b.share(tier)).abs();
    tiers.iter().map(of).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind};
    use tierloom_placement::adaptive::{Action, Layout};

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
            wanted: layout.clone(),
            layout,
            gain: 0.0,
            doubt: 0.0,
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
