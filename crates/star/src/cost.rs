//! In which order filters are tried.
//!
//! The first filters look at every row: a range does it with SIMD, a set row by row. Later ones look at the positions that
//! are left, at a higher price each. Constants are relative to looking a code up in a small set, 0.35 ns on a Zen 5 core, where
//! `cargo bench -p tierloom-star` measures them.

use crate::plan::{Filter, Test};
use tierloom_kernels::codes::CodeWidth;
use tierloom_kernels::select::CodeSet;

const DENSE_RANGE: f64 = 0.2;
const TO_POSITIONS: f64 = 0.15;
const SPARSE_RANGE: f64 = 1.2;

/// What looking one code up in a set costs: (all rows in turn, selected rows).
fn lookup(set: &CodeSet) -> (f64, f64) {
    match set.size_bytes() {
        // First-level cache, second-level cache, and beyond, where lookups are prefetched.
        0..=0x8000 => (1.0, 1.3),
        0x8001..=0x8_0000 => (2.2, 3.5),
        _ => (6.0, 8.0),
    }
}

/// What trying `order` costs per row, if filter `i` passes a share `shares[i]` of the rows that reach it.
pub fn pipeline_cost(
    filters: &[Filter],
    widths: &[CodeWidth],
    shares: &[f64],
    order: &[usize],
) -> f64 {
    let (mut cost, mut left) = (0.0, 1.0);
    let mut positions = false;
    for &index in order {
        let filter = &filters[index];
        let masked = match &filter.test {
            Test::Range { .. } => true,
            Test::Set(_) => widths[filter.column] == CodeWidth::One,
        };
        cost += match (&filter.test, positions) {
            (_, false) if masked => DENSE_RANGE,
            (Test::Set(set), false) => {
                // A mask made before has to become positions first.
                positions = true;
                let (all, selected) = lookup(set);
                if left < 1.0 {
                    TO_POSITIONS + left * selected
                } else {
                    all
                }
            }
            (Test::Range { .. }, _) => left * SPARSE_RANGE,
            (Test::Set(set), true) => left * lookup(set).1,
        };
        left *= shares[index].clamp(0.0, 1.0);
    }
    if positions { cost } else { cost + TO_POSITIONS }
}

/// The cheapest order: all are tried up to six filters, above that the best next one is taken each time.
pub fn best_order(filters: &[Filter], widths: &[CodeWidth], shares: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..filters.len()).collect();
    if filters.len() <= 6 {
        let mut best = (f64::INFINITY, order.clone());
        permute(&mut order, 0, &mut |candidate| {
            let cost = pipeline_cost(filters, widths, shares, candidate);
            if cost < best.0 {
                best = (cost, candidate.to_vec());
            }
        });
        return best.1;
    }
    // Rank of expensive-predicate ordering: rows removed per unit of cost.
    let rank =
        |i: usize| (1.0 - shares[i]) / pipeline_cost(filters, widths, shares, &[i]).max(1e-9);
    order.sort_by(|a, b| rank(*b).total_cmp(&rank(*a)));
    order
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

    fn range(column: usize) -> Filter {
        Filter {
            column,
            test: Test::Range { low: 0, high: 1 },
            expected_share: 0.5,
        }
    }

    fn set(column: usize) -> Filter {
        Filter {
            column,
            test: Test::Set(Arc::new(CodeSet::new(1000))),
            expected_share: 0.5,
        }
    }

    #[test]
    fn selective_filters_come_first_and_ranges_that_keep_everything_last() {
        let filters = [set(0), set(1), range(2)];
        let widths = [CodeWidth::Two; 3];
        assert_eq!(best_order(&filters, &widths, &[0.2, 0.04, 0.99])[0], 1);
        assert_eq!(best_order(&filters, &widths, &[0.2, 0.2, 0.01])[0], 2);
        let order = best_order(&filters, &widths, &[0.9, 0.001, 0.95]);
        assert_eq!(order[0], 1);
        let many: Vec<Filter> = (0..8).map(set).collect();
        let shares: Vec<f64> = (0..8).map(|i| 1.0 - f64::from(i) / 10.0).collect();
        assert_eq!(best_order(&many, &[CodeWidth::Two; 8], &shares)[0], 7);
    }
}
