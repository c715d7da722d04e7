//! The trait through which the rest of the program uses placement policies.

use crate::heat::{Heat, MoveLimits, PlacedColumn, plan_moves};
use crate::{ColumnUse, Decision, Policy};
use std::fmt;

/// Decides where the columns of a workload go.
///
/// A policy is called before data is placed, and again when more is known about what the workload
/// reads. It is deterministic: the same input gives the same answer. It moves no data, knows
/// nothing about the machine, and does not place operator memory.
///
/// ```text
///                          ┌ Policy::Uniform     one tier, one node, weights (interleaving)
///   PlacementPolicy <──────┼ Policy::Tier        slow tier, staged through a working buffer
///                          ├ Policy::TopColumns  most bytes read first
///                          ├ Policy::Adaptive    starts in DRAM, then `adaptive::Controller`
///                          └ ByHeat              most bytes read per byte first, up to a capacity
/// ```
pub trait PlacementPolicy: fmt::Debug + Send + Sync {
    /// The policy as the user types it.
    fn name(&self) -> String;

    /// One sentence for users about what the policy does.
    fn meaning(&self) -> String;

    /// Whether the policy needs the bytes read from each column.
    fn needs_heat(&self) -> bool;

    /// Whether placements change while the workload runs.
    fn adapts(&self) -> bool;

    /// One decision per column, in the order of `columns`.
    fn decide(&self, columns: &[ColumnUse]) -> Vec<Decision>;
}

impl PlacementPolicy for Policy {
    fn name(&self) -> String {
        self.to_string()
    }

    fn meaning(&self) -> String {
        Policy::meaning(self)
    }

    fn needs_heat(&self) -> bool {
        Policy::needs_heat(self)
    }

    fn adapts(&self) -> bool {
        matches!(self, Policy::Adaptive(_))
    }

    fn decide(&self, columns: &[ColumnUse]) -> Vec<Decision> {
        Policy::decide(self, columns)
    }
}

/// The columns with the most bytes read per byte in DRAM, up to a capacity; the rest on CXL.
///
/// A column that does not fit as a whole is split by pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByHeat {
    /// DRAM capacity for columns, in bytes.
    pub dram_bytes: u64,
}

/// Page size for splitting a column; whole pages only, since the kernel places nothing smaller.
const PAGE_BYTES: u64 = 4096;

impl PlacementPolicy for ByHeat {
    fn name(&self) -> String {
        format!("heat:{}", self.dram_bytes)
    }

    fn meaning(&self) -> String {
        format!(
            "the columns that are read most per byte on dram, up to {} bytes of them, the rest on cxl",
            self.dram_bytes
        )
    }

    fn needs_heat(&self) -> bool {
        true
    }

    fn adapts(&self) -> bool {
        true
    }

    fn decide(&self, columns: &[ColumnUse]) -> Vec<Decision> {
        let fast = fast_pages(columns, self.dram_bytes / PAGE_BYTES);
        let of = |(column, fast): (&ColumnUse, u64)| {
            let pages = column.size_bytes.div_ceil(PAGE_BYTES).max(1);
            Decision::split(column, fast, pages)
        };
        columns.iter().zip(fast).map(of).collect()
    }
}

/// Pages of each column in DRAM after moving the hottest columns up, starting with all on CXL.
fn fast_pages(columns: &[ColumnUse], dram_pages: u64) -> Vec<u64> {
    let mut heat = Heat::new(1.0);
    // One read event per column at time 0: nothing decays, so heat is proportional to bytes read.
    for column in columns {
        heat.read(&column.column, column.read_bytes as f64, 0.0);
    }
    let placed: Vec<PlacedColumn> = columns
        .iter()
        .map(|c| PlacedColumn {
            column: c.column.clone(),
            pages: c.size_bytes.div_ceil(PAGE_BYTES).max(1),
            fast_pages: 0,
            heat: heat.of(&c.column, c.size_bytes, 0.0),
        })
        .collect();
    let limits = MoveLimits {
        tiers: ("dram".into(), "cxl".into()),
        fast_pages: dram_pages,
        // No round limit and no hysteresis: this plans one complete placement, not one step of
        // many.
        pages_per_round: u64::MAX,
        hotter: 1.0,
    };
    let moves = plan_moves(&placed, &limits);
    let up = |c: &ColumnUse| {
        let own = moves.iter().filter(|m| m.column == c.column);
        own.map(|m| m.pages).sum()
    };
    columns.iter().map(up).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_memory::{PlacementSpec, Target};
    use tierloom_topology::TierKind;

    fn column(name: &str, pages: u64, reads: u64) -> ColumnUse {
        ColumnUse {
            column: name.into(),
            size_bytes: pages * PAGE_BYTES,
            read_bytes: pages * PAGE_BYTES * reads,
        }
    }

    #[test]
    fn every_policy_is_used_through_the_trait_and_answers_for_each_column() {
        let columns = [column("a", 10, 1), column("b", 20, 9), column("c", 30, 0)];
        let words = ["dram", "3:2", "tier", "columns:1", "adaptive"];
        let policies = words
            .iter()
            .map(|w| Box::new(w.parse::<Policy>().unwrap()) as Box<dyn PlacementPolicy>);
        let by_heat: Box<dyn PlacementPolicy> = Box::new(ByHeat {
            dram_bytes: 20 * PAGE_BYTES,
        });
        for policy in policies.chain([by_heat]) {
            let decisions = policy.decide(&columns);
            assert_eq!(decisions.len(), 3, "{policy:?}");
            assert_eq!(
                decisions,
                policy.decide(&columns),
                "{policy:?} answers alike"
            );
            assert!(!policy.name().is_empty() && !policy.meaning().is_empty());
        }
    }

    #[test]
    fn the_hottest_go_up_whole_the_next_in_part_and_unread_ones_never() {
        let columns = [column("a", 10, 1), column("b", 20, 9), column("c", 30, 0)];
        let decided = ByHeat {
            dram_bytes: 25 * PAGE_BYTES,
        }
        .decide(&columns);
        assert_eq!(
            decided[1].placement,
            PlacementSpec::Bind(Target::Tier(TierKind::Dram))
        );
        let split = PlacementSpec::Partitioned(vec![
            (Target::Tier(TierKind::Dram), 0.5),
            (Target::Tier(TierKind::Cxl), 0.5),
        ]);
        assert_eq!(decided[0].placement, split);
        assert_eq!(
            decided[2].placement,
            PlacementSpec::Bind(Target::Tier(TierKind::Cxl))
        );
    }
}
