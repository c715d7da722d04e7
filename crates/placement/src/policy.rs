//! Placement policies and the decisions that they make.

mod text;

use serde::{Deserialize, Serialize};
use tierloom_memory::{PlacementSpec, Target};
use tierloom_topology::TierKind;

/// How much of the data [`Policy::TopColumns`] keeps in DRAM.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ColumnLimit {
    /// This number of columns.
    Count(usize),
    /// As many columns, most read first, as fit into this share of all bytes (0 to 1).
    Share(f64),
}

/// A column with what a policy needs to know about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnUse {
    /// Table and column, such as "lineorder.lo_discount".
    pub column: String,
    /// Size of the column in bytes.
    pub size_bytes: u64,
    /// Bytes read from the column in one round of the workload's queries.
    pub read_bytes: u64,
}

/// Placement of one column, with the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Table and column, as in [`ColumnUse::column`].
    pub column: String,
    /// Where the column's pages go.
    pub placement: PlacementSpec,
    /// Whether scans copy the column through a working buffer in DRAM.
    pub staged: bool,
    /// Explanation for users, such as the column's rank.
    pub reason: String,
}

impl Decision {
    /// Places `fast` of the column's `pages` pages in DRAM and the rest on CXL.
    pub(crate) fn split(column: &ColumnUse, fast: u64, pages: u64) -> Self {
        let share = fast as f64 / pages.max(1) as f64;
        let placement = match fast {
            0 => bind(TierKind::Cxl),
            fast if fast >= pages => bind(TierKind::Dram),
            _ => PlacementSpec::Partitioned(vec![
                (Target::Tier(TierKind::Dram), share),
                (Target::Tier(TierKind::Cxl), 1.0 - share),
            ]),
        };
        let reason = match column.read_bytes {
            0 => "never read".to_owned(),
            read => format!(
                "each byte is read {:.2} times; {:.0}% of the column find room",
                read as f64 / column.size_bytes.max(1) as f64,
                share * 100.0
            ),
        };
        decision(column, placement, false, reason)
    }
}

/// How the columns of a workload are placed.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// The same placement for every column: one tier, one node, or weights.
    Uniform(PlacementSpec),
    /// All data on the slow tier; scans copy it through a working buffer in DRAM.
    ///
    /// Huang et al., "Bandwidth Expansion via CXL", ADMS 2024, call this TIER.
    Tier,
    /// The columns with the most bytes read in DRAM, the rest on CXL.
    ///
    /// Weisgut et al., "CXL Memory Performance for In-Memory Data Processing", PVLDB 18(9), 2025.
    TopColumns(ColumnLimit),
    /// All data in DRAM at first, then where the adaptive controller moves it.
    ///
    /// The number limits the bytes of columns moved before a run of a query; `None` keeps the
    /// default of [`Settings::new`](crate::adaptive::Settings::new).
    Adaptive(Option<u64>),
    /// All data in a pool of memory, where its members are; on modelled machines, on CXL.
    Pool,
}

impl Policy {
    /// One sentence for users about what the policy does.
    pub fn meaning(&self) -> String {
        match self {
            Policy::Uniform(PlacementSpec::Bind(Target::Tier(tier))) => {
                format!("all table data on {tier}")
            }
            Policy::Uniform(PlacementSpec::Default) => {
                "all table data where the kernel puts it on first touch".into()
            }
            Policy::Uniform(spec) => format!("all table data placed {spec}"),
            Policy::Pool => "all table data in the pool (modelled: on cxl)".into(),
            Policy::Tier => {
                "all table data on cxl; scans copy each batch through a working buffer in dram"
                    .into()
            }
            Policy::TopColumns(ColumnLimit::Count(count)) => {
                format!("the {count} columns that are read most on dram, the rest on cxl")
            }
            Policy::TopColumns(ColumnLimit::Share(share)) => format!(
                "the columns that are read most, up to {}% of the bytes, on dram, the rest on cxl",
                share * 100.0
            ),
            Policy::Adaptive(budget) => format!(
                "all table data on dram at first, then where measured phases gain{}",
                budget.map_or_else(String::new, |bytes| {
                    format!(
                        "; at most {} are moved before a run of a query",
                        tierloom_text::Bytes(bytes)
                    )
                })
            ),
        }
    }

    /// Whether the policy needs the bytes read from each column.
    pub fn needs_heat(&self) -> bool {
        matches!(self, Policy::TopColumns(_))
    }

    /// One decision per column, in the order of `columns`.
    ///
    /// Columns are ranked by bytes read, ties by name, so that the result does not depend on the
    /// order of `columns`. A column that is never read is never put into DRAM by
    /// [`Policy::TopColumns`].
    pub fn decide(&self, columns: &[ColumnUse]) -> Vec<Decision> {
        match self {
            Policy::Uniform(spec) => columns
                .iter()
                .map(|c| {
                    decision(
                        c,
                        spec.clone(),
                        false,
                        "every column is placed alike".into(),
                    )
                })
                .collect(),
            Policy::Tier => columns
                .iter()
                .map(|c| {
                    decision(
                        c,
                        bind(TierKind::Cxl),
                        true,
                        "starts on the slow tier, read through a working buffer".into(),
                    )
                })
                .collect(),
            Policy::Pool => columns
                .iter()
                .map(|c| decision(c, bind(TierKind::Cxl), false, "in the pool".into()))
                .collect(),
            Policy::TopColumns(limit) => top_columns(columns, *limit),
            Policy::Adaptive(_) => columns
                .iter()
                .map(|c| {
                    let why = "where adaptive placement starts: nothing was measured yet";
                    decision(c, bind(TierKind::Dram), false, why.into())
                })
                .collect(),
        }
    }
}

fn bind(tier: TierKind) -> PlacementSpec {
    PlacementSpec::Bind(Target::Tier(tier))
}

fn decision(
    column: &ColumnUse,
    placement: PlacementSpec,
    staged: bool,
    reason: String,
) -> Decision {
    Decision {
        column: column.column.clone(),
        placement,
        staged,
        reason,
    }
}

fn top_columns(columns: &[ColumnUse], limit: ColumnLimit) -> Vec<Decision> {
    let total: u64 = columns.iter().map(|c| c.size_bytes).sum();
    let mut order: Vec<usize> = (0..columns.len())
        .filter(|&i| columns[i].read_bytes > 0)
        .collect();
    order.sort_by(|&a, &b| {
        columns[b]
            .read_bytes
            .cmp(&columns[a].read_bytes)
            .then_with(|| columns[a].column.cmp(&columns[b].column))
    });
    let hot: Vec<usize> = match limit {
        ColumnLimit::Count(count) => order.iter().copied().take(count).collect(),
        ColumnLimit::Share(share) => {
            // First fit rather than a prefix: a large column that does not fit must not keep
            // smaller, less read ones out of the room that is left.
            let mut left = (total as f64 * share) as u64;
            order
                .iter()
                .copied()
                .filter(|&i| {
                    left.checked_sub(columns[i].size_bytes)
                        .map(|rest| left = rest)
                        .is_some()
                })
                .collect()
        }
    };
    let rank = |index: usize| order.iter().position(|&i| i == index).map(|r| r + 1);
    let of = |(index, column): (usize, &ColumnUse)| {
        let ranked = rank(index).map_or("never read".to_owned(), |r| {
            format!("rank {r} of {} by bytes read", order.len())
        });
        let tier = if hot.contains(&index) {
            TierKind::Dram
        } else {
            TierKind::Cxl
        };
        decision(column, bind(tier), false, ranked)
    };
    columns.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyError;
    use proptest::prelude::*;

    fn column(name: &str, size_bytes: u64, read_bytes: u64) -> ColumnUse {
        ColumnUse {
            column: name.into(),
            size_bytes,
            read_bytes,
        }
    }

    fn on_dram(policy: &str, columns: &[ColumnUse]) -> Vec<String> {
        let policy: Policy = policy.parse().unwrap();
        policy
            .decide(columns)
            .into_iter()
            .filter(|d| d.placement == bind(TierKind::Dram))
            .map(|d| d.column)
            .collect()
    }

    #[test]
    fn the_most_read_columns_stay_in_dram_and_unread_ones_never_do() {
        let columns = [
            column("a", 10, 5),
            column("b", 10, 50),
            column("c", 10, 0),
            column("d", 10, 20),
        ];
        assert_eq!(on_dram("columns:2", &columns), ["b", "d"]);
        assert_eq!(on_dram("columns:9", &columns), ["a", "b", "d"]);
        assert!(on_dram("columns:0", &columns).is_empty());
    }

    #[test]
    fn a_share_is_never_passed_and_small_columns_fill_what_a_large_one_leaves() {
        let columns = [
            column("a", 60, 90),
            column("b", 30, 80),
            column("c", 10, 70),
        ];
        assert_eq!(on_dram("columns:40%", &columns), ["b", "c"]);
        assert_eq!(on_dram("columns:100%", &columns), ["a", "b", "c"]);
    }

    #[test]
    fn tier_stages_every_column_from_the_slow_tier() {
        let decisions = Policy::Tier.decide(&[column("a", 1, 1)]);
        assert!(decisions[0].staged);
        assert_eq!(decisions[0].placement, bind(TierKind::Cxl));
    }

    #[test]
    fn unreadable_policies_name_what_is_wrong() {
        for (text, part) in [
            ("columns", "how many"),
            ("columns:", "whole number"),
            ("columns:x", "whole number"),
            ("columns:120%", "between 0% and 100%"),
            ("columns:-1", "whole number"),
            ("nope", "nope"),
            ("0:0", "0:0"),
            ("", ""),
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn adaptive_starts_in_dram_and_says_its_budget() {
        for (text, bytes) in [
            ("adaptive", None),
            ("adaptive:512MiB", Some(512 << 20)),
            ("adaptive:3GiB", Some(3 << 30)),
            ("adaptive:1000B", Some(1000)),
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy, Policy::Adaptive(bytes));
            assert_eq!(policy.to_string(), text);
        }
        for bad in [
            "adaptive:",
            "adaptive:x",
            "adaptive:0",
            "adaptively",
            "adaptive:-1GiB",
            "adaptive:99999999TiB",
        ] {
            assert!(
                matches!(bad.parse::<Policy>(), Err(PolicyError::Syntax { .. })),
                "{bad}"
            );
        }
        assert_eq!(
            on_dram("adaptive", &[column("a", 10, 0), column("b", 10, 5)]),
            ["a", "b"]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn every_column_is_decided_once_whatever_the_limit(sizes in prop::collection::vec((1u64..1000, 0u64..1000), 0..20), count in 0usize..25, share in 0u32..=100) {
            let columns: Vec<ColumnUse> = sizes.iter().enumerate().map(|(i, (size, read))| column(&format!("c{i}"), *size, *read)).collect();
            let total: u64 = columns.iter().map(|c| c.size_bytes).sum();
            for policy in [Policy::TopColumns(ColumnLimit::Count(count)), Policy::TopColumns(ColumnLimit::Share(f64::from(share) / 100.0))] {
                let decisions = policy.decide(&columns);
                prop_assert_eq!(decisions.len(), columns.len());
                let hot: Vec<usize> = (0..columns.len()).filter(|&i| decisions[i].placement == bind(TierKind::Dram)).collect();
                match policy {
                    Policy::TopColumns(ColumnLimit::Count(n)) => prop_assert!(hot.len() <= n),
                    _ => prop_assert!(hot.iter().map(|&i| columns[i].size_bytes).sum::<u64>() as f64 <= total as f64 * f64::from(share) / 100.0 + 1e-6),
                }
                prop_assert_eq!(&policy.to_string().parse::<Policy>().unwrap().decide(&columns), &decisions);
            }
        }
    }
}
