//! Where the rows of an operator are, if every node runs it on its shards.

use crate::map::{Holders, Layout};
use crate::scan::TableScanExec;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where the rows of an operator are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Place {
    /// Every node has all of them.
    Everywhere,
    /// Each node has those that follow from its shards; together they are all, each once.
    Sharded {
        /// Who holds each shard.
        holders: Arc<Holders>,
        /// Output columns that hold the key whose hash says the shard.
        keys: BTreeSet<usize>,
    },
    /// No node has them: the operator needs rows of other nodes.
    Mixed,
}

/// Where the rows of `plan` are.
///
/// # Errors
/// DataFusion's, from looking at expressions.
pub(super) fn place_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Place> {
    if let Some(scan) = plan.downcast_ref::<TableScanExec>() {
        return Ok(of_scan(scan));
    }
    if has_volatile(plan)? {
        return Ok(Place::Mixed);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return of_hash_join(join);
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        let (left, right) = (place_of(join.left())?, place_of(join.right())?);
        let width = join.left().schema().fields().len();
        return Ok(joined(left, right, JoinType::Inner, width, false));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let (left, right) = (place_of(join.left())?, place_of(join.right())?);
        let width = join.left().schema().fields().len();
        let all = joined(left, right, *join.join_type(), width, false);
        return Ok(kept(all, join.projection().as_deref()));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return of_aggregate(aggregate);
    }
    if plan.downcast_ref::<UnionExec>().is_some() {
        return of_union(plan);
    }
    if plan.fetch().is_some() {
        return Ok(Place::Mixed);
    }
    of_row_by_row(plan)
}

fn of_scan(scan: &TableScanExec) -> Place {
    match scan.layout.as_deref() {
        // Nodes may choose different rows.
        Some(Layout::Everywhere) if scan.header.limit.is_some() => Place::Mixed,
        Some(Layout::Everywhere) => Place::Everywhere,
        Some(Layout::Sharded { by, holders }) => {
            let columns = scan.columns().fields().iter().enumerate();
            let keys = columns.filter(|(_, column)| column.name() == by);
            Place::Sharded {
                holders: Arc::new(holders.clone()),
                keys: keys.map(|(index, _)| index).collect(),
            }
        }
        None => Place::Mixed,
    }
}

/// Operators that look at one row at a time.
fn of_row_by_row(plan: &Arc<dyn ExecutionPlan>) -> Result<Place> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let place = place_of(filter.input())?;
        return Ok(kept(place, filter.projection().as_deref()));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let place = place_of(projection.input())?;
        let exprs: Vec<_> = projection
            .expr()
            .iter()
            .map(|e| Arc::clone(&e.expr))
            .collect();
        return Ok(computed(place, &exprs));
    }
    let passes = plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<CooperativeExec>().is_some();
    if passes {
        return place_of(plan.children()[0]);
    }
    let constant = plan.downcast_ref::<PlaceholderRowExec>().is_some()
        || plan.downcast_ref::<EmptyExec>().is_some();
    Ok(match constant {
        true => Place::Everywhere,
        false => Place::Mixed,
    })
}

/// The place after a projection to the columns `columns`; all if `None`.
fn kept(place: Place, columns: Option<&[usize]>) -> Place {
    match (place, columns) {
        (Place::Sharded { holders, keys }, Some(columns)) => Place::Sharded {
            holders,
            keys: (0..columns.len())
                .filter(|index| keys.contains(&columns[*index]))
                .collect(),
        },
        (place, _) => place,
    }
}

/// The place after a projection to expressions.
fn computed(place: Place, exprs: &[Arc<dyn PhysicalExpr>]) -> Place {
    // No column: its index is none of a key.
    let column = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Column>()
            .map_or(usize::MAX, Column::index)
    };
    let columns: Vec<usize> = exprs.iter().map(column).collect();
    kept(place, Some(&columns))
}

fn of_hash_join(join: &HashJoinExec) -> Result<Place> {
    if ExecutionPlan::fetch(join).is_some() {
        return Ok(Place::Mixed);
    }
    let (left, right) = (place_of(join.left())?, place_of(join.right())?);
    let by_key = match (&left, &right) {
        (Place::Sharded { keys: l, .. }, Place::Sharded { keys: r, .. }) => {
            join.on().iter().any(|(a, b)| {
                let index =
                    |e: &Arc<dyn PhysicalExpr>| e.downcast_ref::<Column>().map(Column::index);
                index(a).is_some_and(|i| l.contains(&i)) && index(b).is_some_and(|i| r.contains(&i))
            }) && !join.null_aware
        }
        _ => false,
    };
    let width = join.left().schema().fields().len();
    let all = joined(left, right, *join.join_type(), width, by_key);
    Ok(kept(all, join.projection.as_deref()))
}

/// The place of all rows of a join; `by_key` says that rows that match are on the same node.
fn joined(left: Place, right: Place, kind: JoinType, width: usize, by_key: bool) -> Place {
    use JoinType::{
        Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
    };
    let moved = |keys: BTreeSet<usize>| keys.into_iter().map(|key| key + width).collect();
    match (left, right) {
        (Place::Everywhere, Place::Everywhere) => Place::Everywhere,
        (Place::Sharded { holders, keys }, Place::Everywhere) => match kind {
            Inner | Left | LeftSemi | LeftAnti | LeftMark => Place::Sharded { holders, keys },
            // Each node would add the rows without a match.
            Right | Full | RightSemi | RightAnti | RightMark => Place::Mixed,
        },
        (Place::Everywhere, Place::Sharded { holders, keys }) => match kind {
            Inner | Right => Place::Sharded {
                holders,
                keys: moved(keys),
            },
            RightSemi | RightAnti | RightMark => Place::Sharded { holders, keys },
            Left | Full | LeftSemi | LeftAnti | LeftMark => Place::Mixed,
        },
        (
            Place::Sharded {
                holders,
                keys: mut of_left,
            },
            Place::Sharded {
                holders: others,
                keys: of_right,
            },
        ) if by_key && holders == others => {
            let keys = match kind {
                Inner => {
                    let of_right: BTreeSet<usize> = moved(of_right);
                    of_left.extend(of_right);
                    of_left
                }
                Left | LeftSemi | LeftAnti | LeftMark => of_left,
                Right => moved(of_right),
                RightSemi | RightAnti | RightMark => of_right,
                // A key may be NULL in either.
                Full => BTreeSet::new(),
            };
            Place::Sharded { holders, keys }
        }
        _ => Place::Mixed,
    }
}

/// Whether the states of an aggregation may be merged in any order.
pub(crate) fn states_merge(aggregate: &AggregateExec) -> bool {
    let mut functions = aggregate.aggr_expr().iter();
    functions.all(|function| function.order_bys().is_empty())
}

fn of_aggregate(aggregate: &AggregateExec) -> Result<Place> {
    let place = place_of(aggregate.input())?;
    let Place::Sharded { .. } = place else {
        return Ok(place);
    };
    let groups: Vec<_> = aggregate
        .group_expr()
        .expr()
        .iter()
        .map(|(expr, _)| Arc::clone(expr))
        .collect();
    let grouping_sets =
        aggregate.group_expr().has_grouping_set() || aggregate.group_expr().groups().len() > 1;
    let after = match grouping_sets {
        true => computed(place, &[]),
        false => computed(place, &groups),
    };
    let Place::Sharded { keys, .. } = &after else {
        return Ok(after);
    };
    Ok(match aggregate.mode() {
        AggregateMode::Partial if states_merge(aggregate) => after,
        AggregateMode::Partial => Place::Mixed,
        // All rows of a group are on one node.
        _ if !keys.is_empty() => after,
        _ => Place::Mixed,
    })
}

fn of_union(plan: &Arc<dyn ExecutionPlan>) -> Result<Place> {
    let mut all: Option<Place> = None;
    for child in plan.children() {
        let place = match place_of(child)? {
            Place::Sharded { holders, .. } => Place::Sharded {
                holders,
                keys: BTreeSet::new(),
            },
            place => place,
        };
        match &all {
            None => all = Some(place),
            Some(known) if *known == place => {}
            Some(_) => return Ok(Place::Mixed),
        }
    }
    Ok(all.unwrap_or(Place::Mixed))
}

/// Whether an expression of the operator has another value each time, as `random()`.
fn has_volatile(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(&mut |expr| {
        found |= datafusion::physical_expr_common::physical_expr::is_volatile(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
