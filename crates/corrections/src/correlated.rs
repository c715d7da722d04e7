//! Correlated subqueries that DataFusion answers wrongly.

use super::constants::simplified;
use crate::WalkAll;
use crate::walk::Walk;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result, not_impl_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Cast, Distinct, Expr, ExprSchemable, FetchType, Filter, LogicalPlan,
    LogicalPlanBuilder, Operator, SkipType, Subquery,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// Where a correlated subquery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    /// In place of a value.
    Value,
    /// `EXISTS`, which asks for rows only.
    Exists,
    /// `IN` and comparisons with `ANY` or `ALL`.
    Set,
    /// A `LATERAL` subquery of `FROM`.
    Lateral,
}

/// Refuses a correlated subquery unless DataFusion 55 is known to answer its shape.
///
/// DataFusion pulls the conditions on outer columns up to the top of the subquery, whatever they
/// pass: windows, outer joins, limits, set operations and grouping sets then see the rows of all
/// outer rows at once. Where it does not pull one up at first, other rules may move the condition
/// and it does later, so what is not known to be right is refused.
///
/// # Errors
/// One that says what of the subquery is not supported.
pub(super) fn check(site: Site, subquery: &Subquery) -> Result<()> {
    match subquery.outer_ref_columns.is_empty() {
        true => Ok(()),
        false => check_plan(site, &subquery.subquery, Above::Outputs),
    }
}

/// What is above an operator, up to the top of the subquery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Above {
    /// Projections and sorts only.
    Outputs,
    /// Limits and names of subqueries too.
    Limits,
    /// Operators that remove, add or combine rows.
    Others,
}

/// Gives the columns that are compared with the outer query names that no other column has.
///
/// DataFusion adds these columns to the outputs of the subquery, all under the subquery's name, and
/// takes the first of two with one name: `e.k = l.k AND m.k <> l.k` was never true.
///
/// # Errors
/// Where the columns cannot be renamed.
pub(super) fn with_distinct_names(
    subquery: Subquery,
    renamed: &Cell<usize>,
) -> Result<Transformed<Subquery>> {
    if subquery.outer_ref_columns.is_empty() || !compares_two_of_one_name(&subquery.subquery)? {
        return Ok(Transformed::no(subquery));
    }
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    let plan = plan.up(&mut |node| match node {
        LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
            Ok(Transformed::yes(with_new_names(filter, renamed)?))
        }
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(Expr::contains_outer) => {
            refused("two columns of one name that are compared with the outer query in ON")
        }
        other => other.recompute_schema().map(Transformed::yes),
    })?;
    Ok(Transformed::yes(Subquery {
        subquery: Arc::new(plan.data),
        ..subquery
    }))
}

/// Whether a column that is compared with the outer query has the name of another such column, or
/// of an output that is another column.
fn compares_two_of_one_name(plan: &LogicalPlan) -> Result<bool> {
    let outputs = plan.schema().columns().into_iter();
    let mut compared: Vec<(usize, Column)> = outputs.map(|output| (0, output)).collect();
    let mut filters = 0;
    visit(plan, |_, expr| {
        filters += 1;
        for condition in correlated(expr) {
            let columns = condition.column_refs().into_iter().cloned();
            compared.extend(columns.map(|column| (filters, column)));
        }
        true
    })?;
    let are_two = |(filter, column): &(usize, Column), (other, second): &(usize, Column)| {
        let is_same = column == second && (filter == other || *filter == 0);
        // A cast of `t.k` is named `t.k`, without a table.
        let has_one_name = column.name == second.name || column.flat_name() == second.flat_name();
        has_one_name && !is_same
    };
    let mut pairs = compared.iter().enumerate();
    Ok(pairs.any(|(at, column)| {
        compared[at + 1..]
            .iter()
            .any(|other| are_two(column, other))
    }))
}

/// Computes the columns that a filter compares with the outer query below it, under new names.
fn with_new_names(filter: Filter, renamed: &Cell<usize>) -> Result<LogicalPlan> {
    let mut outputs: Vec<Expr> = filter
        .input
        .schema()
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect();
    let mut names: HashMap<Column, Column> = HashMap::new();
    let mut conditions = Vec::new();
    for condition in split_conjunction_owned(filter.predicate) {
        if !condition.contains_outer() {
            conditions.push(condition);
            continue;
        }
        for column in condition.column_refs() {
            if !names.contains_key(column) {
                renamed.set(renamed.get() + 1);
                let name = format!("__compared_{}", renamed.get());
                outputs.push(Expr::Column(column.clone()).alias(&name));
                names.insert(column.clone(), Column::new_unqualified(name));
            }
        }
        let condition = condition.up(&mut |expr| match &expr {
            Expr::Column(column) if names.contains_key(column) => {
                Ok(Transformed::yes(Expr::Column(names[column].clone())))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        conditions.push(condition.data);
    }
    let plan = LogicalPlanBuilder::from(filter.input).project(outputs)?;
    match conjunction(conditions) {
        Some(condition) => plan.filter(condition)?.build(),
        None => plan.build(),
    }
}

fn check_plan(site: Site, plan: &LogicalPlan, above: Above) -> Result<()> {
    if !has_outer_columns(plan)? {
        return Ok(());
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            if projection.expr.iter().any(Expr::contains_outer) {
                return refused("an output that uses a column of the outer query");
            }
            check_plan(site, &projection.input, above)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            check_plan(site, &alias.input, above.max(Above::Limits))
        }
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => check_plan(site, &sort.input, above),
        LogicalPlan::Filter(filter) => check_plan(site, &filter.input, Above::Others),
        LogicalPlan::Limit(limit) => {
            let skips_none = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
            if !skips_none {
                return refused("OFFSET");
            }
            let is_some = matches!(limit.get_fetch_type(), Ok(FetchType::Literal(_)));
            if site != Site::Exists || above == Above::Others || !is_some {
                return refused("LIMIT");
            }
            check_plan(site, &limit.input, Above::Limits)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            if matches!(site, Site::Value | Site::Lateral) {
                check_conditions(input, is_equality)?;
            }
            check_plan(site, input, Above::Others)
        }
        LogicalPlan::Aggregate(aggregate) => check_aggregate(site, aggregate, above),
        LogicalPlan::Join(join) => {
            // Conditions pass an inner join; above an outer one they see rows that it fills
            // with NULL.
            if join.join_type != JoinType::Inner {
                return refused("a condition on the outer query below or in an outer join");
            }
            check_plan(site, &join.left, Above::Others)?;
            check_plan(site, &join.right, Above::Others)
        }
        LogicalPlan::Window(_) => refused("a window"),
        LogicalPlan::Union(_) => refused("UNION"),
        LogicalPlan::Distinct(_) => refused("DISTINCT ON"),
        other => refused(other.display().to_string()),
    }
}

fn check_aggregate(site: Site, aggregate: &Aggregate, above: Above) -> Result<()> {
    let is_set = |key: &Expr| matches!(key, Expr::GroupingSet(_));
    let keys = &aggregate.group_expr;
    if keys.iter().any(is_set) {
        return refused("GROUPING SETS");
    }
    let outputs = keys.iter().chain(&aggregate.aggr_expr);
    if outputs.clone().any(Expr::contains_outer) {
        return refused("GROUP BY or an aggregate of a column of the outer query");
    }
    if keys.is_empty() && above != Above::Outputs {
        return refused("an aggregate without GROUP BY below other operators");
    }
    if !aggregate.aggr_expr.is_empty() {
        check_conditions(&aggregate.input, keeps_keys_apart)?;
    } else if matches!(site, Site::Value | Site::Lateral) {
        check_conditions(&aggregate.input, is_equality)?;
    }
    check_plan(site, &aggregate.input, Above::Others)
}

fn refused<T>(what: impl std::fmt::Display) -> Result<T> {
    not_impl_err!("a correlated subquery with {what}; write it as a join")
}

/// Whether the plan uses columns of the outer query.
fn has_outer_columns(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    visit(plan, |_, expr| {
        found |= expr.contains_outer();
        !found
    })?;
    Ok(found)
}

/// Calls `see` with each operator of the plan and its expressions, in subqueries of its own
/// excepted, while it returns true.
fn visit(plan: &LogicalPlan, mut see: impl FnMut(&LogicalPlan, &Expr) -> bool) -> Result<()> {
    plan.each(&mut |node| match node {
        LogicalPlan::Subquery(_) => Ok(TreeNodeRecursion::Jump),
        _ => node.each_expression(&mut |expr| {
            Ok(match see(node, expr) {
                true => TreeNodeRecursion::Continue,
                false => TreeNodeRecursion::Stop,
            })
        }),
    })?;
    Ok(())
}

/// The conditions on outer columns in an expression of an operator.
fn correlated(expr: &Expr) -> impl Iterator<Item = &Expr> {
    let conditions = split_conjunction(expr).into_iter();
    conditions.filter(|condition| condition.contains_outer())
}

/// Refuses conditions on outer columns that are not as `allowed` says.
///
/// Their columns become further group keys, so all rows that belong together must have one value.
fn check_conditions(plan: &LogicalPlan, allowed: fn(&Expr, &LogicalPlan) -> bool) -> Result<()> {
    let mut all = true;
    visit(plan, |node, expr| {
        all = correlated(expr).all(|condition| allowed(condition, node));
        all
    })?;
    match all {
        true => Ok(()),
        false => refused("GROUP BY, DISTINCT or an aggregate and a condition other than equality"),
    }
}

/// Whether no equality in the condition takes several values of a column for one.
///
/// Below aggregates DataFusion itself refuses conditions that are not equalities, once they are
/// simplified; it lets any conversion of the column through.
fn keeps_keys_apart(condition: &Expr, node: &LogicalPlan) -> bool {
    let merges = |expr: &Expr| {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
            return false;
        };
        let is_converted = |side: &Expr| matches!(side, Expr::Cast(_)) && side.any_column_refs();
        *op == Operator::Eq
            && (is_converted(left) || is_converted(right))
            && expr.contains_outer()
            && !is_equality(expr, node)
    };
    let merging = condition.has(&mut |expr| Ok(merges(expr)));
    matches!(merging, Ok(false))
}

fn is_equality(condition: &Expr, node: &LogicalPlan) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else {
        return false;
    };
    let is_outer = |side: &Expr| !side.any_column_refs();
    let inputs = node.inputs();
    let is_key = |side: &Expr| match inputs.as_slice() {
        [input] => is_key(side, input.schema()),
        _ => is_key(side, node.schema()),
    };
    *op == Operator::Eq && ((is_key(left) && is_outer(right)) || (is_key(right) && is_outer(left)))
}

/// Whether the expression is a column, perhaps converted so that no two values become one.
fn is_key(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, field }) => match (&**expr, expr.get_type(schema)) {
            (Expr::Column(_), Ok(from)) => keeps_values_apart(&from, field.data_type()),
            _ => false,
        },
        _ => false,
    }
}

fn keeps_values_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Date32, Date64, Decimal128, Decimal256, Dictionary, Float32, Float64, LargeUtf8, Timestamp,
        Utf8, Utf8View,
    };
    let is_text = |kind: &DataType| matches!(kind, Utf8 | LargeUtf8 | Utf8View);
    match (from, to) {
        (from, to) if from == to => true,
        (Dictionary(_, values), to) => keeps_values_apart(values, to),
        (from, to) if is_text(from) && is_text(to) => true,
        (from, to) if from.is_integer() && to.is_integer() => {
            from.primitive_width() <= to.primitive_width()
        }
        (from, Decimal128(_, scale) | Decimal256(_, scale)) if from.is_integer() => *scale >= 0,
        (from, Float64) if from.is_integer() => from.primitive_width() <= Some(4),
        (Float32, Float64) | (Date32, Date64 | Timestamp(..)) => true,
        (Timestamp(from, _), Timestamp(to, _)) => from <= to,
        (Decimal128(_, from) | Decimal256(_, from), Decimal128(_, to) | Decimal256(_, to)) => {
            from <= to
        }
        _ => false,
    }
}

/// The value of a subquery over an aggregate without keys whose output uses none of its columns.
///
/// DataFusion simplifies outputs before it asks what they are for no rows, so `0 * count(*)` would
/// be NULL there.
///
/// # Errors
/// Several projections that compute something, which may become constant together.
pub(super) fn constant_value(subquery: &Subquery) -> Result<Option<Expr>> {
    let mut constant = None;
    let mut computing = 0;
    let mut plan = &*subquery.subquery;
    loop {
        plan = match plan {
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Projection(projection) => {
                let is_computed = |output: &Expr| !matches!(bare(output), Expr::Column(_));
                computing += usize::from(projection.expr.iter().any(is_computed));
                for output in &projection.expr {
                    let simple = simplified(bare(output), projection.input.schema());
                    if !simple.any_column_refs() {
                        constant.get_or_insert(simple);
                    }
                }
                &projection.input
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => break,
            _ => return Ok(None),
        };
    }
    match computing > 1 {
        true => refused("an aggregate without GROUP BY and outputs computed in two steps"),
        false => Ok(constant),
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        other => other,
    }
}
