//! Hottest columns first, under a capacity of DRAM.

use crate::heat::{Heat, MoveLimits, PlacedColumn, plan_moves};
use crate::{ColumnUse, Decision};

/// The hottest columns, by bytes read per byte, up to a capacity; the rest on the slow tier.
///
/// A column that does not fit as a whole is split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByHeat {
    /// Bytes of columns that DRAM may hold.
    pub dram_bytes: u64,
}

/// Pages in which a split is counted.
const PAGE_BYTES: u64 = 4096;

impl ByHeat {
    /// Where each column goes, in the order given.
    pub fn decide(&self, columns: &[ColumnUse]) -> Vec<Decision> {
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
