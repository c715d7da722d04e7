//! Group and join keys that say nothing: a filter has made them constant, or other keys have.

use crate::outer_joins::below_alias;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, Join, LogicalPlan, Operator, Projection,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Takes group columns and pairs of join keys away that are the same in all rows:
/// `WHERE d_year = 2000 GROUP BY d_year, item`. Group columns that are computed from others, as in
/// `GROUP BY address, address - 1`, are computed once per group.
///
/// Fewer keys are quicker to look up, and more of them fit the operators for large tables.
#[derive(Debug, Default)]
pub(crate) struct ConstantKeys;

impl ConstantKeys {
    /// The rule that brings conditions near the tables, after which this one belongs.
    pub(crate) const AFTER: &str = "push_down_filter";
}

impl OptimizerRule for ConstantKeys {
    fn name(&self) -> &'static str {
        "tierloom_constant_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(aggregate) => group_by(aggregate),
            LogicalPlan::Join(join) => Ok(join_on(join)),
            other => Ok(Transformed::no(other)),
        }
    }
}

/// The aggregation without constant group columns.
fn group_by(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
    if aggregate.group_expr.len() < 2 || aggregate.group_expr.iter().any(is_set) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let keys = aggregate.group_expr.iter();
    let mut known: Vec<Option<Expr>> = keys
        .map(|key| constant(&aggregate.input, key).map(|value| Expr::Literal(value, None)))
        .collect();
    if known.iter().all(Option::is_some) {
        // Without any group column there would be a group where there are no rows.
        known[0] = None;
    }
    add_computed(&aggregate, &mut known)?;
    if known.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let keys = aggregate.group_expr.iter().zip(&known);
    let kept = keys.filter(|(_, known)| known.is_none());
    let kept = kept.map(|(key, _)| key.clone()).collect();
    let groups = Aggregate::try_new(
        Arc::clone(&aggregate.input),
        kept,
        aggregate.aggr_expr.clone(),
    )?;
    let mut known = known.into_iter();
    let columns = aggregate
        .schema
        .iter()
        .map(|(qualifier, field)| match known.next().flatten() {
            Some(value) => value.alias_qualified(qualifier.cloned(), field.name()),
            None => Expr::Column(Column::new(qualifier.cloned(), field.name())),
        });
    let columns = columns.collect();
    let groups = Arc::new(LogicalPlan::Aggregate(groups));
    let projection = Projection::try_new(columns, groups)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Adds the keys that are computed from columns which are keys too and not `known`.
fn add_computed(aggregate: &Aggregate, known: &mut [Option<Expr>]) -> Result<()> {
    let input = aggregate.input.schema();
    let keys = aggregate.group_expr.iter().zip(known.iter());
    let columns: Vec<&Column> = keys
        .filter(|(_, known)| known.is_none())
        .filter_map(|(key, _)| key.try_as_col())
        .filter(|column| {
            let index = input.maybe_index_of_column(column);
            index.is_some_and(|index| is_exact(input.field(index).data_type()))
        })
        .collect();
    if columns.is_empty() {
        return Ok(());
    }
    for (key, known) in aggregate.group_expr.iter().zip(known) {
        let is_column = matches!(key, Expr::Column(_) | Expr::Literal(..));
        if known.is_some() || is_column || key.is_volatile() {
            continue;
        }
        let mut computed = true;
        key.each(&mut |part| {
            computed &= match part {
                Expr::Column(column) => columns.contains(&column),
                Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => false,
                Expr::OuterReferenceColumn(..) => false,
                _ => true,
            };
            Ok(TreeNodeRecursion::Continue)
        })?;
        if computed {
            *known = Some(key.clone().unalias());
        }
    }
    Ok(())
}

/// Whether values of this type that are one group are the same. Zeros of both signs and other
/// values that are equal are not.
fn is_exact(data_type: &DataType) -> bool {
    !data_type.is_floating() && !data_type.is_nested()
}

/// The join without pairs of keys that are the same constant on both sides.
fn join_on(mut join: Join) -> Transformed<LogicalPlan> {
    if join.on.len() < 2 || join.null_aware {
        return Transformed::no(LogicalPlan::Join(join));
    }
    let same = |(left, right): &(Expr, Expr)| {
        let value = constant(&join.left, left);
        value.is_some() && value == constant(&join.right, right)
    };
    let mut kept: Vec<_> = join.on.iter().filter(|pair| !same(pair)).cloned().collect();
    if kept.is_empty() {
        kept.extend(join.on.first().cloned());
    }
    let is_changed = kept.len() < join.on.len();
    join.on = kept;
    match is_changed {
        true => Transformed::yes(LogicalPlan::Join(join)),
        false => Transformed::no(LogicalPlan::Join(join)),
    }
}

/// The value that a key has in all rows of `plan`; never NULL.
fn constant(plan: &LogicalPlan, key: &Expr) -> Option<ScalarValue> {
    match key {
        Expr::Alias(alias) => constant(plan, &alias.expr),
        Expr::Literal(value, _) => Some(value.clone()).filter(|value| !value.is_null()),
        Expr::Column(column) => {
            let index = plan.schema().maybe_index_of_column(column)?;
            let data_type = plan.schema().field(index).data_type();
            if !is_exact(data_type) {
                return None;
            }
            let value = of_column(plan, column)?;
            (value.data_type() == *data_type).then_some(value)
        }
        _ => None,
    }
}

fn of_column(plan: &LogicalPlan, column: &Column) -> Option<ScalarValue> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let of_filter = by_condition(&filter.predicate, column);
            of_filter.or_else(|| of_column(&filter.input, column))
        }
        LogicalPlan::TableScan(scan) => {
            let mut filters = scan.filters.iter();
            filters.find_map(|filter| by_condition(filter, column))
        }
        LogicalPlan::Projection(projection) => {
            let index = projection.schema.maybe_index_of_column(column)?;
            constant(&projection.input, projection.expr.get(index)?)
        }
        LogicalPlan::SubqueryAlias(alias) => of_column(&alias.input, &below_alias(alias, column)?),
        LogicalPlan::Aggregate(aggregate) => {
            let index = aggregate.schema.maybe_index_of_column(column)?;
            match aggregate.group_expr.get(index)? {
                Expr::GroupingSet(_) => None,
                key => constant(&aggregate.input, key),
            }
        }
        LogicalPlan::Join(join) => {
            // The inputs whose columns the join does not fill with NULL.
            let [left, right] = match join.join_type {
                JoinType::Inner => [true, true],
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                    [true, false]
                }
                JoinType::Right
                | JoinType::RightSemi
                | JoinType::RightAnti
                | JoinType::RightMark => [false, true],
                JoinType::Full => [false, false],
            };
            let of = |is_kept: bool, side: &LogicalPlan, other: &LogicalPlan| {
                let is_of = side.schema().has_column(column) && !other.schema().has_column(column);
                (is_kept && is_of)
                    .then(|| of_column(side, column))
                    .flatten()
            };
            of(left, &join.left, &join.right).or_else(|| of(right, &join.right, &join.left))
        }
        LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Distinct(_) => match plan.inputs()[..] {
            [input] if input.schema().has_column(column) => of_column(input, column),
            _ => None,
        },
        _ => None,
    }
}

/// The value that a condition demands of a column.
fn by_condition(condition: &Expr, column: &Column) -> Option<ScalarValue> {
    split_conjunction(condition).into_iter().find_map(|part| {
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) = part
        else {
            return None;
        };
        match (left.as_ref(), right.as_ref()) {
            (Expr::Column(of), Expr::Literal(value, _))
            | (Expr::Literal(value, _), Expr::Column(of))
                if of == column && !value.is_null() =>
            {
                Some(value.clone())
            }
            _ => None,
        }
    })
}
