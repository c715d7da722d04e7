//! A tree of inner joins as a graph: what is joined, and the conditions between.

use super::classes::{Classes, Equal, Set};
use crate::star_order::{owner, placed_table};
use datafusion::common::{DFSchema, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Join, JoinConstraint, JoinType, LogicalPlan, Operator,
};
use std::collections::HashSet;
use std::sync::Arc;

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
    /// For an equality between two leaves.
    pub equality: Option<Equality>,
}

/// An equality between two leaves.
pub(super) struct Equality {
    /// Each leaf and its side of the equality.
    pub sides: [(usize, Expr); 2],
    /// Number of the class of sides that are equal to each other.
    pub class: usize,
}

impl Equality {
    fn set(&self) -> Set {
        let [(one, _), (other, _)] = &self.sides;
        1 << one | 1 << other
    }
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
    ///
    /// Adds the schemas of its joins to `seen`.
    pub fn of(plan: &LogicalPlan, seen: &mut HashSet<*const DFSchema>) -> Option<JoinGraph> {
        let mut tree = Tree {
            leaves: Vec::new(),
            exprs: Vec::new(),
            joins: Vec::new(),
        };
        let present = tree.flatten(&Arc::new(plan.clone()))?;
        let Tree {
            leaves,
            exprs,
            joins,
        } = tree;
        if leaves.len() > MOST_LEAVES {
            return None;
        }
        let conditions = exprs.into_iter().map(|expr| condition(expr, &leaves));
        let mut conditions = conditions.collect::<Option<Vec<_>>>()?;
        let mut classes = Classes::default();
        let mut equalities: Vec<_> = conditions
            .iter_mut()
            .flat_map(|c| &mut c.equality)
            .collect();
        for equality in &equalities {
            classes.join(&equality.sides);
        }
        for equality in &mut equalities {
            equality.class = classes.of(&equality.sides[0]);
        }
        seen.extend(joins);
        Some(JoinGraph {
            conditions,
            leaves,
            present,
        })
    }

    /// Whether the rows of each leaf are those of a table.
    pub fn has_tables_only(&self) -> bool {
        self.leaves.iter().all(|leaf| placed_table(leaf).is_some())
    }

    pub fn equalities(&self) -> impl Iterator<Item = &Equality> {
        self.conditions.iter().filter_map(|c| c.equality.as_ref())
    }

    /// Whether equalities join some leaves in a ring, so that a join can have two conditions and
    /// few rows, or one of them and many.
    pub fn has_ring(&self) -> bool {
        let mut equal = Equal::default();
        let own = self
            .equalities()
            .filter(|e| equal.connect(e.class, e.set()));
        let mut pairs: Vec<Set> = own.map(Equality::set).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.len() >= self.leaves.len()
    }

    /// Whether some equalities follow from others.
    pub fn repeats_itself(&self) -> bool {
        let mut equal = Equal::default();
        !self.equalities().all(|e| equal.connect(e.class, e.set()))
    }

    /// The leaves that equalities join with `leaf`.
    pub fn neighbours(&self, leaf: usize) -> Set {
        let own = self.equalities().map(Equality::set);
        let own = own.filter(|set| set >> leaf & 1 == 1);
        own.fold(0, |all, set| all | set) & !(1 << leaf)
    }

    /// Whether an equality joins `one` and `other`. Without one each row would be compared with
    /// each.
    pub fn connected(&self, one: Set, other: Set) -> bool {
        let mut pairs = self.equalities().map(Equality::set);
        pairs.any(|pair| pair & one != 0 && pair & other != 0)
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
        // What the sides fulfil already.
        let mut equal = Equal::default();
        for equality in self.equalities() {
            let pair = equality.set();
            if pair & !left.set() == 0 || pair & !right.set() == 0 {
                equal.connect(equality.class, pair);
            }
        }
        for (condition, used) in self.conditions.iter().zip(used) {
            if *used || condition.set & !set != 0 {
                continue;
            }
            *used = true;
            match &condition.equality {
                Some(equality) if equal.connect(equality.class, equality.set()) => {
                    let [(leaf, one), (_, other)] = equality.sides.clone();
                    on.push(match left.set() >> leaf & 1 == 1 {
                        true => (one, other),
                        false => (other, one),
                    });
                }
                // It follows from others.
                Some(_) => {}
                None => filters.push(condition.expr.clone()),
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

/// What is found in a tree of inner joins.
struct Tree {
    leaves: Vec<Arc<LogicalPlan>>,
    exprs: Vec<Expr>,
    /// The schemas of the joins.
    joins: Vec<*const DFSchema>,
}

impl Tree {
    /// Collects the leaves and conditions below `plan`.
    fn flatten(&mut self, plan: &Arc<LogicalPlan>) -> Option<Order> {
        match plan.as_ref() {
            LogicalPlan::Join(join)
                if join.join_type == JoinType::Inner
                    && join.null_equality == NullEquality::NullEqualsNothing =>
            {
                self.joins.push(Arc::as_ptr(&join.schema));
                let equal = |(left, right): &(Expr, Expr)| left.clone().eq(right.clone());
                self.exprs.extend(join.on.iter().map(equal));
                let filters = join.filter.clone().map(split_conjunction_owned);
                self.exprs.extend(filters.unwrap_or_default());
                let left = self.flatten(&join.left)?;
                Some(Order::join(left, self.flatten(&join.right)?))
            }
            LogicalPlan::Filter(filter) if is_inner_join(&filter.input) => {
                let conditions = split_conjunction_owned(filter.predicate.clone());
                self.exprs.extend(conditions);
                self.flatten(&filter.input)
            }
            // It only leaves columns out, which does no harm if they are there.
            LogicalPlan::Projection(projection)
                if is_inner_join(&projection.input)
                    && projection.expr.iter().all(|e| matches!(e, Expr::Column(_))) =>
            {
                self.flatten(&projection.input)
            }
            _ => {
                let leaf = self.leaves.len();
                self.leaves.push(Arc::clone(plan));
                // Sets have 32 members; larger trees are refused afterwards.
                (leaf < 32).then_some(Order::Leaf(leaf))
            }
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
            (Some(a), Some(b)) if a != b => Some(Equality {
                sides: [(a, left.as_ref().clone()), (b, right.as_ref().clone())],
                class: 0,
            }),
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
