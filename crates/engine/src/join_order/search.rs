//! The cheapest order of a graph of joins.

use super::classes::Set;
use super::estimate::Estimates;
use super::graph::{JoinGraph, Order};

/// Leaves up to which all orders are compared: there are about three to this power.
const MOST_COMPARED: usize = 12;

/// The cheapest order in which every join has an equality; `None` if there is none.
///
/// All orders are compared if there are few leaves, bushy ones too; otherwise the two parts whose
/// join has fewest rows are joined next, until one is left.
pub(super) fn cheapest(graph: &JoinGraph, estimates: &Estimates) -> Option<Order> {
    match graph.leaves.len() <= MOST_COMPARED {
        true => compared(graph, estimates),
        false => greedy(graph, estimates),
    }
}

fn compared(graph: &JoinGraph, estimates: &Estimates) -> Option<Order> {
    let leaves = graph.leaves.len();
    let all: Set = (1 << leaves) - 1;
    // By set: the cost of its best order and one part of its last join, if it has an order.
    let mut best: Vec<Option<(f64, Set)>> = vec![None; 1 << leaves];
    // By set: the leaves outside that an equality joins it with.
    let mut near: Vec<Set> = vec![0; 1 << leaves];
    for leaf in 0..leaves {
        best[1 << leaf] = Some((0.0, 0));
        near[1 << leaf] = graph.neighbours(leaf);
    }
    // A set comes after all of its subsets.
    for set in 1..=all {
        if set.is_power_of_two() {
            continue;
        }
        let lowest = set & set.wrapping_neg();
        let others = set & !lowest;
        near[set as usize] = (near[lowest as usize] | near[others as usize]) & !set;
        let mut found: Option<(f64, Set)> = None;
        // The part with the lowest leaf; the rest takes all other sets, so each pair is seen once.
        let mut rest = others;
        while rest != 0 {
            let part = set & !rest;
            if let (Some((one, _)), Some((other, _))) = (best[part as usize], best[rest as usize])
                && found.is_none_or(|(cost, ..)| one + other < cost)
                && near[part as usize] & rest != 0
            {
                found = Some((one + other, part));
            }
            rest = (rest - 1) & others;
        }
        best[set as usize] = found.map(|(cost, part)| (cost + estimates.rows_left(set), part));
    }
    order_of(all, &best)
}

/// The best order of a set; `None` if it has none.
fn order_of(set: Set, best: &[Option<(f64, Set)>]) -> Option<Order> {
    if set.is_power_of_two() {
        return Some(Order::Leaf(set.trailing_zeros() as usize));
    }
    let (_, part) = best[set as usize]?;
    let (one, other) = (order_of(part, best)?, order_of(set & !part, best)?);
    Some(Order::join(one, other))
}

fn greedy(graph: &JoinGraph, estimates: &Estimates) -> Option<Order> {
    let mut parts: Vec<Order> = (0..graph.leaves.len()).map(Order::Leaf).collect();
    while parts.len() > 1 {
        let mut found: Option<(f64, usize, usize)> = None;
        for one in 0..parts.len() {
            for other in one + 1..parts.len() {
                let (a, b) = (parts[one].set(), parts[other].set());
                let rows = estimates.rows(a | b);
                if found.is_none_or(|(least, ..)| rows < least) && graph.connected(a, b) {
                    found = Some((rows, one, other));
                }
            }
        }
        let (_, one, other) = found?;
        let right = parts.remove(other);
        let left = parts.remove(one);
        parts.push(Order::join(left, right));
    }
    parts.pop()
}

#[cfg(test)]
mod tests {
    use super::super::graph::{Condition, Equality};
    use super::*;
    use datafusion::logical_expr::{LogicalPlanBuilder, lit};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Sets of leaves with a condition, and the share that it keeps.
    type Kept = Vec<(Set, f64)>;

    fn graph(leaves: usize, kept: &Kept) -> JoinGraph {
        let empty = LogicalPlanBuilder::empty(false).build().unwrap();
        JoinGraph {
            leaves: (0..leaves).map(|_| Arc::new(empty.clone())).collect(),
            conditions: kept
                .iter()
                .map(|(set, _)| Condition {
                    expr: lit(true),
                    set: *set,
                    equality: Some(Equality {
                        sides: [
                            (set.trailing_zeros() as usize, lit(1)),
                            (set.ilog2() as usize, lit(1)),
                        ],
                        class: 0,
                    }),
                })
                .collect(),
            present: Order::Leaf(0),
        }
    }

    /// Every order of `set` whose joins all have an equality.
    fn all_orders(set: Set, graph: &JoinGraph) -> Vec<Order> {
        if set.count_ones() == 1 {
            return vec![Order::Leaf(set.trailing_zeros() as usize)];
        }
        let mut found = Vec::new();
        for part in 1..set {
            let rest = set & !part;
            if part & !set != 0 || part < rest || !graph.connected(part, rest) {
                continue;
            }
            for left in all_orders(part, graph) {
                for right in all_orders(rest, graph) {
                    found.push(Order::join(left.clone(), right));
                }
            }
        }
        found
    }

    fn graphs() -> impl Strategy<Value = (Vec<f64>, Kept)> {
        (2..6_usize).prop_flat_map(|leaves| {
            let rows = prop::collection::vec(1.0..1e6, leaves);
            let pair = (0..leaves, 0..leaves, 1e-6..1.0);
            let conditions = prop::collection::vec(pair, 1..8).prop_map(|pairs| {
                let apart = pairs.into_iter().filter(|(a, b, _)| a != b);
                apart
                    .map(|(a, b, share)| (1 << a | 1 << b, share))
                    .collect()
            });
            (rows, conditions)
        })
    }

    proptest! {
        #[test]
        fn no_order_is_cheaper_than_the_one_found((rows, kept) in graphs()) {
            let graph = graph(rows.len(), &kept);
            let estimates = Estimates::given(rows.clone(), kept.clone());
            let all = all_orders((1 << rows.len()) - 1, &graph);
            let costs = all.iter().map(|order| estimates.cost(order));
            let least = costs.fold(f64::INFINITY, f64::min);
            match compared(&graph, &estimates) {
                None => prop_assert!(all.is_empty()),
                Some(order) => {
                    let cost = estimates.cost(&order);
                    prop_assert!(cost <= least * (1.0 + 1e-9), "{cost} against {least}");
                    prop_assert_eq!(order.set(), (1 << rows.len()) - 1);
                }
            }
            if let Some(order) = greedy(&graph, &estimates) {
                prop_assert_eq!(order.set(), (1 << rows.len()) - 1);
                prop_assert!(estimates.cost(&order) >= least * (1.0 - 1e-9));
                for set in order.joins() {
                    prop_assert!(set.count_ones() > 1);
                }
            }
        }
    }
}
