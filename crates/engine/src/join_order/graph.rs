//! A tree of inner joins as a graph: what is joined, and the conditions between.

use crate::star_order::owner;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Join, JoinConstraint, JoinType, LogicalPlan, Operator,
};
use std::sync::Arc;

/// A set of leaves, one bit for each.
pub(super) type Set = u32;

/// Number of leaves above which a tree is left as it is.
const MOST_LEAVES: usize = 24;

/// An order of joins.
#[derive(Debug, Clone)]
pub(super) enum Order {
    Leaf(usize),
    Join(Set, Box<Order>, Box<Order>),
}

impl Order {
    pub fn join(left: Order, right: Order) -> Order {
        Order::Join(left.set() | right.set(), Box::new(left), Box::new(right))
    }

    pub fn set(&self) -> Set {
        match self {
            Order::Leaf(leaf) => 1 << leaf,
            Order::Join(set, ..) => *set,
        }
    }

    /// The leaves of each join of the order.
    pub fn joins(&self) -> Box<dyn Iterator<Item = Set> + '_> {
        match self {
            Order::Leaf(_) => Box::new(std::iter::empty()),
            Order::Join(set, left, right) => Box::new(
                std::iter::once(*set)
                    .chain(left.joins())
                    .chain(right.joins()),
            ),
        }
    }
}

/// A condition of the tree.
pub(super) struct Condition {
    pub expr: Expr,
    /// The leaves that it reads.
    pub set: Set,
    /// For an equality between two leaves: each leaf and its side of the equality.
    pub equality: Option<[(usize, Expr); 2]>,
}

/// The leaves and conditions of a tree of inner joins.
pub(super) struct JoinGraph {
    pub leaves: Vec<Arc<LogicalPlan>>,
    pub conditions: Vec<Condition>,
    /// The order of the tree.
    pub present: Order,
}

impl JoinGraph {
    /// The graph of the tree whose root is `plan`; `None` if it cannot be ordered in another way.
    pub fn of(plan: &LogicalPlan) -> Option<JoinGraph> {
        let (mut leaves, mut exprs) = (Vec::new(), Vec::new());
        let present = flattened(&Arc::new(plan.clone()), &mut leaves, &mut exprs)?;
        // With two leaves there is only one order.
        if leaves.len() < 3 || leaves.len() > MOST_LEAVES {
            return None;
        }
        let conditions = exprs.into_iter().map(|expr| condition(expr, &leaves));
        Some(JoinGraph {
            conditions: conditions.collect::<Option<Vec<_>>>()?,
            leaves,
            present,
        })
    }

    /// Whether equalities join some leaves in a ring, so that a join can have two conditions and
    /// few rows, or one of them and many.
    pub fn has_ring(&self) -> bool {
        let equalities = self.conditions.iter().filter(|c| c.equality.is_some());
        let mut pairs: Vec<Set> = equalities.map(|c| c.set).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.len() >= self.leaves.len()
    }

    /// Whether a condition joins `one` and `other`.
    pub fn connected(&self, one: Set, other: Set) -> bool {
        self.conditions.iter().any(|condition| {
            condition.set & one != 0
                && condition.set & other != 0
                && condition.set & !(one | other) == 0
        })
    }

    /// The joins in `order`; `None` if a condition fits nowhere. `rows` are those of a join.
    pub fn build(&self, order: &Order, rows: &dyn Fn(Set) -> f64) -> Result<Option<LogicalPlan>> {
        let mut used = vec![false; self.conditions.len()];
        let joined = self.built(order, rows, &mut used)?;
        Ok(used
            .iter()
            .all(|used| *used)
            .then(|| Arc::unwrap_or_clone(joined)))
    }

    fn built(
        &self,
        order: &Order,
        rows: &dyn Fn(Set) -> f64,
        used: &mut [bool],
    ) -> Result<Arc<LogicalPlan>> {
        let (set, one, other) = match order {
            Order::Leaf(leaf) => return Ok(Arc::clone(&self.leaves[*leaf])),
            Order::Join(set, one, other) => (*set, one, other),
        };
        // The smaller side is on the left, where hash tables are built.
        let (left, right) = match rows(one.set()) <= rows(other.set()) {
            true => (one, other),
            false => (other, one),
        };
        let (left_plan, right_plan) = (
            self.built(left, rows, used)?,
            self.built(right, rows, used)?,
        );
        let (mut on, mut filters) = (Vec::new(), Vec::new());
        for (condition, used) in self.conditions.iter().zip(used) {
            if *used || condition.set & !set != 0 {
                continue;
            }
            *used = true;
            match &condition.equality {
                Some([(a, x), (b, y)]) if left.set() >> a & 1 == 1 && right.set() >> b & 1 == 1 => {
                    on.push((x.clone(), y.clone()));
                }
                Some([(a, x), (b, y)]) if right.set() >> a & 1 == 1 && left.set() >> b & 1 == 1 => {
                    on.push((y.clone(), x.clone()));
                }
                _ => filters.push(condition.expr.clone()),
            }
        }
        let join = Join::try_new(
            left_plan,
            right_plan,
            on,
            conjunction(filters),
            JoinType::Inner,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok(Arc::new(LogicalPlan::Join(join)))
    }
}

/// Collects the leaves and conditions below `plan`.
fn flattened(
    plan: &Arc<LogicalPlan>,
    leaves: &mut Vec<Arc<LogicalPlan>>,
    conditions: &mut Vec<Expr>,
) -> Option<Order> {
    match plan.as_ref() {
        LogicalPlan::Join(join)
            if join.join_type == JoinType::Inner
                && join.null_equality == NullEquality::NullEqualsNothing =>
        {
            let equal = |(left, right): &(Expr, Expr)| left.clone().eq(right.clone());
            conditions.extend(join.on.iter().map(equal));
            let filters = join.filter.clone().map(split_conjunction_owned);
            conditions.extend(filters.unwrap_or_default());
            let left = flattened(&join.left, leaves, conditions)?;
            let right = flattened(&join.right, leaves, conditions)?;
            Some(Order::join(left, right))
        }
        LogicalPlan::Filter(filter) if is_inner_join(&filter.input) => {
            conditions.extend(split_conjunction_owned(filter.predicate.clone()));
            flattened(&filter.input, leaves, conditions)
        }
        // It only leaves columns out, which does no harm if they are there.
        LogicalPlan::Projection(projection)
            if is_inner_join(&projection.input)
                && projection.expr.iter().all(|e| matches!(e, Expr::Column(_))) =>
        {
            flattened(&projection.input, leaves, conditions)
        }
        _ => {
            let leaf = leaves.len();
            leaves.push(Arc::clone(plan));
            // Sets have 32 members; larger trees are refused afterwards.
            (leaf < 32).then_some(Order::Leaf(leaf))
        }
    }
}

fn is_inner_join(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner)
}

/// `None` if the condition must stay where it is.
fn condition(expr: Expr, leaves: &[Arc<LogicalPlan>]) -> Option<Condition> {
    if expr.is_volatile() || expr.contains_outer() {
        return None;
    }
    let mut set: Set = 0;
    for column in expr.column_refs() {
        let mut owners = (0..leaves.len()).filter(|i| leaves[*i].schema().has_column(column));
        let owner = owners.next()?;
        // A name that two leaves have says nothing.
        if owners.next().is_some() {
            return None;
        }
        set |= 1 << owner;
    }
    let equality = match &expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => match (owner(left, leaves), owner(right, leaves)) {
            (Some(a), Some(b)) if a != b => {
                Some([(a, left.as_ref().clone()), (b, right.as_ref().clone())])
            }
            _ => None,
        },
        _ => None,
    };
    // A condition on one leaf would have been pushed down to it, if it could be.
    (set.count_ones() > 1).then_some(Condition {
        expr,
        set,
        equality,
    })
}
