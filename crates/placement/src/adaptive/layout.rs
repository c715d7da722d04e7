//! Placement of one phase's structures as weights of tiers.

use serde::{Deserialize, Serialize};
use std::fmt;
use tierloom_model::search::Weights;
use tierloom_model::{ModelError, Phase, Placement, StructureClass};

/// What is operator memory: placed as a whole, apart from columns.
pub(crate) const OPERATOR_MEMORY: [StructureClass; 3] = [
    StructureClass::HashTable,
    StructureClass::GroupTable,
    StructureClass::SortRun,
];

/// Weights of a phase: one set for its columns, one for its operator memory.
///
/// Operator memory is hash tables, groups and sort runs. Buffers stay on the first tier, since they
/// are mostly cached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub struct Layout {
    /// Weights of the columns that the phase reads.
    pub columns: Weights,
    /// Weights of hash tables, group tables and sort runs.
    pub operators: Weights,
}

/// Serialised form: weights as text, to keep decision logs readable.
#[derive(Serialize, Deserialize)]
struct Text {
    columns: String,
    operators: String,
}

impl TryFrom<Text> for Layout {
    type Error = ModelError;

    fn try_from(text: Text) -> Result<Self, ModelError> {
        Ok(Layout {
            columns: text.columns.parse()?,
            operators: text.operators.parse()?,
        })
    }
}

impl From<Layout> for Text {
    fn from(layout: Layout) -> Self {
        Text {
            columns: layout.columns.to_string(),
            operators: layout.operators.to_string(),
        }
    }
}

impl Layout {
    /// All pages on one tier.
    ///
    /// # Errors
    /// [`ModelError::Weights`] for a tier without a name.
    pub fn on(tier: &str) -> Result<Self, ModelError> {
        let all = Weights::new([(tier, 1)])?;
        Ok(Layout {
            columns: all.clone(),
            operators: all,
        })
    }

    /// The layout as input of the model; everything but columns and operator memory is on `first`.
    pub fn placement(&self, first: &str) -> Placement {
        let operators = self.operators.shares();
        let base = Placement::new(tierloom_model::TierShares::all(first))
            .with_class(StructureClass::Column, self.columns.shares());
        OPERATOR_MEMORY.into_iter().fold(base, |placement, class| {
            placement.with_class(class, operators.clone())
        })
    }

    /// Share of pages placed differently in `other`, 0 to 1.
    ///
    /// It is the larger one of columns and operator memory.
    pub fn distance(&self, other: &Layout) -> f64 {
        moved_share(&self.columns, &other.columns)
            .max(moved_share(&self.operators, &other.operators))
    }

    /// Bytes of the columns of `phase` that migrate in a change to `other`.
    ///
    /// Operator memory is allocated anew in each run and never migrates.
    pub fn moved_bytes(&self, other: &Layout, phase: &Phase) -> u64 {
        let columns = phase.accesses.iter();
        let bytes: f64 = columns
            .filter(|a| a.class == StructureClass::Column)
            .map(|a| a.footprint_bytes as f64)
            .sum();
        (bytes * moved_share(&self.columns, &other.columns)) as u64
    }
}

/// Share of pages on a different tier in `to`: half the L1 distance of the shares.
pub(super) fn moved_share(from: &Weights, to: &Weights) -> f64 {
    let mut tiers: Vec<&str> = from.iter().chain(to.iter()).map(|(tier, _)| tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let apart = |tier: &&str| (from.share(tier) - to.share(tier)).abs();
    // A page that moves changes the shares of two tiers.
    tiers.iter().map(apart).sum::<f64>() / 2.0
}

/// Whether no tier's share in a layout is outside the range spanned by `from` and `to`.
pub(super) fn lies_between(layout: &Layout, from: &Layout, to: &Layout) -> bool {
    let between = |at: &Weights, from: &Weights, to: &Weights| {
        let tiers = at.iter().chain(from.iter()).chain(to.iter());
        tiers
            .map(|(tier, _)| (at.share(tier), from.share(tier), to.share(tier)))
            // Shares are quotients of weights, so equal ones may differ by rounding.
            .all(|(at, a, b)| at >= a.min(b) - 1e-9 && at <= a.max(b) + 1e-9)
    };
    between(&layout.columns, &from.columns, &to.columns)
        && between(&layout.operators, &from.operators, &to.operators)
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.columns == self.operators {
            write!(f, "{}", self.columns)
        } else {
            write!(f, "columns {}; operators {}", self.columns, self.operators)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind};

    fn layout(columns: &str, operators: &str) -> Layout {
        Layout {
            columns: columns.parse().unwrap(),
            operators: operators.parse().unwrap(),
        }
    }

    #[test]
    fn columns_and_operator_memory_are_placed_apart() {
        let placement = layout("dram 3, cxl 2", "dram 1").placement("dram");
        let column = Access::sequential_read("t.c", 4.0, 1000);
        let table = Access::probe("hash(t)", 1.0, 1000);
        assert_eq!(placement.shares(&column).share("cxl"), 0.4);
        assert_eq!(placement.shares(&table).share("cxl"), 0.0);
    }

    #[test]
    fn only_columns_cost_a_migration() {
        let phase = Phase::new("p", PhaseKind::Probe, 1.0)
            .access(Access::sequential_read("t.c", 4.0, 1000))
            .access(Access::probe("hash(t)", 1.0, 9000));
        let from = layout("dram 1", "dram 1");
        assert_eq!(
            from.moved_bytes(&layout("dram 3, cxl 2", "cxl 1"), &phase),
            400
        );
        assert_eq!(from.distance(&layout("dram 3, cxl 2", "cxl 1")), 1.0);
        assert_eq!(from.moved_bytes(&from, &phase), 0);
    }

    #[test]
    fn a_layout_comes_back_from_text_and_a_broken_one_does_not() {
        let layout = layout("dram 3, cxl 2", "dram 1");
        let text = serde_json::to_string(&layout).unwrap();
        assert_eq!(serde_json::from_str::<Layout>(&text).unwrap(), layout);
        assert!(serde_json::from_str::<Layout>(&text.replace("dram 3", "dram x")).is_err());
    }
}
