//! The cheapest order of a graph of joins.

use super::estimate::Estimates;
use super::graph::{JoinGraph, Order, Set};
use std::collections::HashMap;

/// Leaves up to which all orders are compared: there are about three to this power.
const MOST_COMPARED: usize = 10;

/// The cheapest order in which every join has a condition; `None` if there is none.
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
    let all: Set = (1 << graph.leaves.len()) - 1;
    let mut best: HashMap<Set, (f64, Order)> = HashMap::new();
    for leaf in 0..graph.leaves.len() {
        best.insert(1 << leaf, (0.0, Order::Leaf(leaf)));
    }
    // A set comes after all of its subsets.
    for set in 1..=all {
        if set.count_ones() < 2 {
            continue;
        }
        let lowest = set & set.wrapping_neg();
        let mut found: Option<(f64, Set, Set)> = None;
        let mut part = (set - 1) & set;
        while part != 0 {
            let rest = set & !part;
            // Each pair is seen twice; the part with the lowest leaf comes first.
            if part & lowest != 0
                && let (Some((one, _)), Some((other, _))) = (best.get(&part), best.get(&rest))
                && found.is_none_or(|(cost, ..)| one + other < cost)
                && graph.connected(part, rest)
            {
                found = Some((one + other, part, rest));
            }
            part = (part - 1) & set;
        }
        if let Some((cost, part, rest)) = found {
            let order = Order::join(best[&part].1.clone(), best[&rest].1.clone());
            best.insert(set, (cost + estimates.rows(set), order));
        }
    }
    best.remove(&all).map(|(_, order)| order)
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
    use super::super::graph::Condition;
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
                    equality: None,
                })
                .collect(),
            present: Order::Leaf(0),
        }
    }

    /// Every order of `set` whose joins all have a condition.
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
