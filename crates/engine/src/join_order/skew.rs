//! How much more often rows find each other than the number of distinct values says.
//!
//! If the values of a column are about equally frequent, two rows have the same one with the
//! probability 1 / distinct values. In data of people it is often many times that: a few of them
//! wrote most of the posts, and most of the comments too.

use super::graph::JoinGraph;
use super::statistics::distinct;
use crate::star_order::placed_table;
use crate::table::{PlacedTable, SAMPLED_RUN};
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::Expr;
use std::collections::BTreeMap;

/// Rows of a column that are compared with each other.
const COMPARED_ROWS: usize = 4096;

/// How many times more rows the join of all leaves may have than estimated, as values of
/// `repeated` leaves that are frequent in one may be so in all.
pub(super) fn skew(graph: &JoinGraph, repeated: &[usize]) -> f64 {
    let mut classes: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
    for equality in graph.equalities() {
        for (leaf, side) in &equality.sides {
            if repeated.contains(leaf) {
                let class = classes.entry(equality.class).or_default();
                let known = class.entry(*leaf);
                known.or_insert_with(|| skew_of(side, graph, *leaf).unwrap_or(1.0));
            }
        }
    }
    let of_class = |leaves: &BTreeMap<usize, f64>| {
        // Rows of the first leaf find those of the others. Which one is the first is not known.
        let most = leaves.values().copied().fold(1.0, f64::max);
        leaves.values().product::<f64>() / most
    };
    classes.values().map(of_class).product()
}

/// How many times more often than once per distinct value two rows have the same one.
fn skew_of(side: &Expr, graph: &JoinGraph, leaf: usize) -> Option<f64> {
    let Expr::Column(column) = side else {
        return None;
    };
    let table = placed_table(&graph.leaves[leaf])?;
    let same = share_of_same(&table, &column.name)?;
    Some((distinct(side, &graph.leaves[leaf]) * same).max(1.0))
}

/// The share of pairs of rows that have the same value, of a column of integers.
///
/// Rows that follow each other are no pair: in a sorted table they would all be the same.
fn share_of_same(table: &PlacedTable, column: &str) -> Option<f64> {
    let sample = table.sample(COMPARED_ROWS, &[column]).ok()?;
    let values = sample.column(0);
    if !values.data_type().is_integer() {
        return None;
    }
    let values = cast(values, &DataType::Int64).ok()?;
    let values = values.as_primitive::<Int64Type>();
    let rows = (0..values.len()).filter(|row| values.is_valid(*row));
    let mut rows: Vec<(i64, usize)> = rows
        .map(|row| (values.value(row), row / SAMPLED_RUN))
        .collect();
    rows.sort_unstable();
    let square = |count: usize| (count * count) as f64;
    let same = |runs: &[(i64, usize)]| {
        let own = runs.chunk_by(|a, b| a.1 == b.1);
        square(runs.len()) - own.map(|run| square(run.len())).sum::<f64>()
    };
    let pairs = rows.chunk_by(|a, b| a.0 == b.0).map(same).sum::<f64>();
    let mut by_run = rows;
    by_run.sort_unstable_by_key(|row| row.1);
    let all = same(&by_run);
    (all > 0.0).then(|| pairs / all)
}
