//! TPC-H with its columns in two parts: those read most, and the rest.

use crate::reference::mixes::{Engine, column_reads, tpch_columns, tpch_queries};
use crate::work::{Phase, StructureClass};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of the 22 queries of TPC-H.
///
/// Structures are `hot columns`, `cold columns`, and the operators' own ("hash(orders)", "groups").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tpch {
    /// Scale factor.
    pub scale_factor: f64,
    /// Number of columns that are hot: those that one round of the queries reads most often.
    pub hot_columns: u32,
    /// Compute time per row of a pass, ns, over that of the engine as written down.
    pub compute_ns: f64,
}

impl Default for Tpch {
    fn default() -> Self {
        Tpch {
            scale_factor: 100.0,
            hot_columns: 16,
            compute_ns: 0.0,
        }
    }
}

impl Tpch {
    /// Passes over the tables of all 22 queries.
    pub(super) fn phases(&self) -> Vec<Phase> {
        let mix = tpch_queries(self.scale_factor, &Engine::default());
        let hot = self.hot();
        let named = |mut phase: Phase| {
            let columns = phase.accesses.iter_mut();
            for access in columns.filter(|a| a.class == StructureClass::Column) {
                let part = if hot.contains(&access.structure) {
                    "hot"
                } else {
                    "cold"
                };
                access.structure = format!("{part} columns");
            }
            phase.compute_ns_per_tuple += self.compute_ns;
            phase
        };
        mix.into_iter()
            .flat_map(|(_, phases)| phases)
            .map(named)
            .collect()
    }

    /// Rows of all passes.
    pub(super) fn tuples(&self) -> f64 {
        self.phases().iter().map(|p| p.tuples).sum()
    }

    /// The columns that are read most often: bytes read over the size of the column.
    fn hot(&self) -> BTreeSet<String> {
        let mix = tpch_queries(self.scale_factor, &Engine::default());
        let mut reads: Vec<(f64, String)> = column_reads(&mix)
            .into_iter()
            .map(|(column, (size, read))| (read / size.max(1) as f64, column))
            .collect();
        reads.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let most = reads.into_iter().take(self.hot_columns as usize);
        most.map(|(_, column)| column).collect()
    }

    /// Share of the bytes of all tables that the hot columns are.
    pub fn hot_share(&self) -> f64 {
        let (hot, columns) = (self.hot(), tpch_columns(self.scale_factor));
        let bytes = |wanted: &dyn Fn(&str) -> bool| -> f64 {
            let of = columns.iter().filter(|c| wanted(&c.column));
            of.map(|c| c.size_bytes as f64).sum()
        };
        bytes(&|c| hot.contains(c)) / bytes(&|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_columns_are_most_of_what_is_read() {
        let of = |hot_columns| Tpch {
            hot_columns,
            ..Tpch::default()
        };
        assert_eq!((of(0).hot_share(), of(1000).hot_share() < 1.0), (0.0, true));
        let read = |tpch: &Tpch, part: &str| -> f64 {
            let phases = tpch.phases();
            let all = phases
                .iter()
                .flat_map(|p| p.accesses.iter().map(move |a| (p.tuples, a)));
            all.filter(|(_, a)| a.structure.starts_with(part))
                .map(|(tuples, a)| tuples * a.lines_per_tuple)
                .sum()
        };
        let sixteen = of(16);
        assert!(sixteen.hot_share() < 0.35, "{}", sixteen.hot_share());
        assert!(read(&sixteen, "hot") > read(&sixteen, "cold"));
        let all = read(&of(0), "cold");
        assert!((read(&sixteen, "hot") + read(&sixteen, "cold") - all).abs() < 1e-6 * all);
    }
}
