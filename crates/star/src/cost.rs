//! Chooses the order of the filters with a cost model.
//!
//! The first filters test every row, with SIMD where the processor has it; later ones test only the
//! rows that are left, at a higher cost per row. Constants are in nanoseconds per row on a Zen 5
//! core, as `cargo bench -p tierloom-star` measures them.

use crate::plan::{ColumnFilter, Test};
use tierloom_kernels::codes::CodeWidth;
use tierloom_kernels::select::sets_are_fast;

/// Maximum number of filters that test every row; further ones test only the rows that are left.
pub const MAX_DENSE: usize = 6;

// Per row, for turning the bit mask of the dense tests into a selection vector.
const TO_POSITIONS: f64 = 0.05;
// Per row that reaches it, for one range test on a selection vector.
const SPARSE_RANGE: f64 = 0.5;

/// An order of filters, and the number of its first filters that test every row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    filters: Vec<usize>,
    dense: usize,
}

impl Order {
    /// All filters, in order.
    pub fn all(&self) -> &[usize] {
        &self.filters
    }

    /// The first filters, which test every row.
    pub fn dense(&self) -> &[usize] {
        &self.filters[..self.dense]
    }

    /// The other filters, which test only the rows that are left.
    pub fn sparse(&self) -> &[usize] {
        &self.filters[self.dense..]
    }
}

/// The costs of a filter as (per row, per row that is left).
///
/// `fast` says whether this processor does set lookups for columns of that width in SIMD registers.
fn prices(filter: &ColumnFilter, width: CodeWidth, fast: bool) -> (f64, f64) {
    let Test::Set(set) = &filter.test else {
        return (0.015 * width.bytes() as f64 + 0.01, SPARSE_RANGE);
    };
    // The set fits the L1 cache, the L2 cache, or neither; in the last case lookups are prefetched.
    let (dense, sparse) = match set.size_bytes() {
        0..=0x8000 => (0.2, 0.45),
        0x8001..=0x8_0000 => (0.35, 1.2),
        _ => (2.0, 2.8),
    };
    match width {
        CodeWidth::Zero | CodeWidth::One if fast => (0.03, sparse),
        _ if fast => (dense, sparse),
        _ => (dense + 0.4, sparse),
    }
}

/// The cost of `order` per row, and the best number of its filters that test every row.
///
/// `shares[i]` is the share of the rows reaching filter `i` that pass it.
pub fn pipeline_cost(prices: &[(f64, f64)], shares: &[f64], order: &[usize]) -> (f64, usize) {
    let mut left = 1.0;
    let mut dense = TO_POSITIONS;
    let mut sparse = 0.0;
    // If the first `n` filters test all rows, the cost is that of those tests, plus that of the
    // other filters on the rows that the first `n` leave.
    let mut best = (f64::INFINITY, 0);
    let reached: Vec<f64> = order
        .iter()
        .map(|&i| {
            let here = left;
            left *= shares[i].clamp(0.0, 1.0);
            here
        })
        .collect();
    let rest: f64 = order
        .iter()
        .zip(&reached)
        .map(|(&i, left)| left * prices[i].1)
        .sum();
    for (n, &index) in order.iter().enumerate().take(MAX_DENSE) {
        dense += prices[index].0;
        sparse += reached[n] * prices[index].1;
        let cost = dense + rest - sparse;
        if cost < best.0 {
            best = (cost, n + 1);
        }
    }
    best
}

/// The cheapest order.
///
/// Up to six filters, all permutations are compared; above that, filters are ranked.
pub fn best_order(filters: &[ColumnFilter], widths: &[CodeWidth], shares: &[f64]) -> Order {
    let prices: Vec<(f64, f64)> = filters
        .iter()
        .map(|f| prices(f, widths[f.column], sets_are_fast(widths[f.column])))
        .collect();
    cheapest(filters, &prices, shares)
}

fn cheapest(filters: &[ColumnFilter], prices: &[(f64, f64)], shares: &[f64]) -> Order {
    let mut order: Vec<usize> = (0..filters.len()).collect();
    if filters.is_empty() {
        return Order::default();
    }
    if filters.len() <= 6 {
        let mut best = (f64::INFINITY, Order::default());
        permute(&mut order, 0, &mut |candidate| {
            let (cost, dense) = pipeline_cost(prices, shares, candidate);
            if cost < best.0 {
                let filters = candidate.to_vec();
                best = (cost, Order { filters, dense });
            }
        });
        return best.1;
    }
    // The rank from the optimisation of expensive predicates: share of rows removed per unit of
    // cost.
    let rank = |i: usize| (1.0 - shares[i]) / pipeline_cost(prices, shares, &[i]).0.max(1e-9);
    order.sort_by(|a, b| rank(*b).total_cmp(&rank(*a)));
    let (_, dense) = pipeline_cost(prices, shares, &order);
    Order {
        filters: order,
        dense,
    }
}

fn permute(order: &mut Vec<usize>, fixed: usize, visit: &mut dyn FnMut(&[usize])) {
    if fixed + 1 >= order.len() {
        visit(order);
        return;
    }
    for next in fixed..order.len() {
        order.swap(fixed, next);
        permute(order, fixed + 1, visit);
        order.swap(fixed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tierloom_kernels::select::CodeSet;

    fn range(column: usize) -> ColumnFilter {
        ColumnFilter {
            column,
            test: Test::Range { low: 0, high: 1 },
            expected_share: 0.5,
        }
    }

    fn set(column: usize) -> ColumnFilter {
        ColumnFilter {
            column,
            test: Test::Set(Arc::new(CodeSet::new(1000))),
            expected_share: 0.5,
        }
    }

    /// The order on a processor with or without fast set lookups, whichever this one has.
    fn ordered(filters: &[ColumnFilter], fast: bool, shares: &[f64]) -> Vec<usize> {
        let prices: Vec<(f64, f64)> = filters
            .iter()
            .map(|f| prices(f, CodeWidth::Two, fast))
            .collect();
        cheapest(filters, &prices, shares).all().to_vec()
    }

    #[test]
    fn selective_filters_come_first_and_ranges_that_keep_everything_last() {
        let filters = [set(0), set(1), range(2)];
        assert_eq!(ordered(&filters, true, &[0.2, 0.04, 0.99]), [1, 0, 2]);
        assert_eq!(ordered(&filters, true, &[0.9, 0.001, 0.95])[0], 1);
        let many: Vec<ColumnFilter> = (0..8).map(set).collect();
        let shares: Vec<f64> = (0..8).map(|i| 1.0 - f64::from(i) / 10.0).collect();
        for fast in [true, false] {
            assert_eq!(ordered(&filters, fast, &[0.2, 0.2, 0.01])[0], 2);
            assert_eq!(ordered(&many, fast, &shares)[0], 7);
            // Of two equally expensive filters, the one that passes fewer rows comes first.
            let order = ordered(&filters, fast, &[0.9, 0.001, 0.95]);
            let place = |filter| order.iter().position(|f| *f == filter);
            assert!(place(1) < place(0));
        }
    }

    #[test]
    fn without_fast_sets_a_cheap_range_may_come_before_them() {
        let filters = [set(0), set(1), range(2)];
        let shares = [0.2, 0.04, 0.99];
        let slow: Vec<(f64, f64)> = filters
            .iter()
            .map(|f| prices(f, CodeWidth::Two, false))
            .collect();
        let order = ordered(&filters, false, &shares);
        let (best, _) = pipeline_cost(&slow, &shares, &order);
        permute(&mut vec![0, 1, 2], 0, &mut |other| {
            assert!(best <= pipeline_cost(&slow, &shares, other).0);
        });
        assert_eq!(order[0], 2);
    }
}
