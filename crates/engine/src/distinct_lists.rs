//! Lists and counts of distinct values.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, HashSet, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, Projection, SortExpr, lit,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Makes `string_agg(DISTINCT x, ',' ORDER BY x)` the list of the groups by `x`, and
/// `count(DISTINCT x)` of texts beside `count(*)` their number.
///
/// DataFusion keeps a set of the values of each group, row by row, and does what is done here only
/// for functions of one argument without an order, and beside sums and extremes. Groups can be those
/// of a star join.
#[derive(Debug, Default)]
pub(crate) struct DistinctLists;

impl DistinctLists {
    /// The rule after which this one belongs.
    pub(crate) const AFTER: &str = "push_down_filter";
}

impl OptimizerRule for DistinctLists {
    fn name(&self) -> &'static str {
        "tierloom_distinct_lists"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = plan else {
            return Ok(Transformed::no(plan));
        };
        Ok(match of_groups(&aggregate)? {
            Some(made) => Transformed::yes(made),
            None => Transformed::no(LogicalPlan::Aggregate(aggregate)),
        })
    }
}

/// An aggregate over groups by another expression too.
enum Part<'a> {
    /// Of the distinct values themselves.
    OfValues(&'a AggregateFunction),
    /// The smallest or largest of those of the groups.
    Extreme(&'a AggregateFunction),
    /// The sum of the counts of the groups.
    Count(&'a AggregateFunction),
}

/// The aggregation over groups by the values that are listed; `None` if there are no such lists, or
/// something else that cannot be made of these groups.
fn of_groups(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
    let aggregates = &aggregate.aggr_expr;
    let values = match aggregates.iter().find_map(listed) {
        Some(values) => values,
        None => match aggregates.iter().find_map(counted) {
            // Sets of numbers are quick.
            Some(values) if aggregates.len() > 1 && is_text(values, aggregate)? => values,
            _ => return Ok(None),
        },
    };
    if aggregate
        .group_expr
        .iter()
        .any(|e| is_set(e) || e == values)
        || values.is_volatile()
    {
        return Ok(None);
    }
    let parts = aggregates.iter();
    let parts: Option<Vec<Part<'_>>> = parts.map(|expr| part(expr, values)).collect();
    let Some(parts) = parts else {
        return Ok(None);
    };
    let mut of_groups: Vec<Expr> = Vec::new();
    for part in &parts {
        if let Part::Extreme(function) | Part::Count(function) = part {
            let expr = Expr::AggregateFunction((*function).clone());
            if !of_groups.contains(&expr) {
                of_groups.push(expr);
            }
        }
    }
    let keys = aggregate.group_expr.iter().chain([values]).cloned();
    let keys: Vec<Expr> = keys.collect();
    let all = keys.iter().chain(&of_groups);
    let names: HashSet<String> = all.map(|expr| expr.schema_name().to_string()).collect();
    if names.len() < keys.len() + of_groups.len() {
        // Names leave casts out, so different expressions may have the same.
        return Ok(None);
    }
    let groups = Aggregate::try_new(Arc::clone(&aggregate.input), keys, of_groups.clone())?;
    let columns: Vec<Column> = groups.schema.columns();
    let (keys, rest) = columns.split_at(aggregate.group_expr.len());
    let column_of = |function: &AggregateFunction| {
        let expr = Expr::AggregateFunction(function.clone());
        let at = of_groups.iter().position(|other| *other == expr);
        at.map(|at| Expr::Column(rest[at + 1].clone()))
    };
    let mut made: Vec<Expr> = Vec::with_capacity(parts.len());
    for part in &parts {
        let value = match part {
            Part::OfValues(function) => Some(over(function, &Expr::Column(rest[0].clone()))),
            Part::Extreme(function) => column_of(function).map(|value| over(function, &value)),
            Part::Count(function) => column_of(function).map(sum),
        };
        let Some(value) = value else {
            return Ok(None);
        };
        made.push(value.alias(format!("__list_{}", made.len())));
    }
    let keys: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
    let lists = Aggregate::try_new(Arc::new(LogicalPlan::Aggregate(groups)), keys, made)?;
    let outputs = aggregate
        .schema
        .iter()
        .zip(lists.schema.columns())
        .enumerate();
    let outputs = outputs.map(|(at, ((qualifier, field), column))| {
        let is_count = at
            .checked_sub(aggregate.group_expr.len())
            .is_some_and(|at| matches!(parts[at], Part::Count(_)));
        let column = Expr::Column(column);
        // The count of no rows.
        let value = match is_count {
            true => coalesce(vec![column, lit(0_i64)]),
            false => column,
        };
        value.alias_qualified(qualifier.cloned(), field.name())
    });
    let outputs = outputs.collect();
    let lists = Arc::new(LogicalPlan::Aggregate(lists));
    let lists = Projection::try_new(outputs, lists)?;
    Ok(Some(LogicalPlan::Projection(lists)))
}

/// What a list of distinct values in their order, or in any, is of.
fn listed(expr: &Expr) -> Option<&Expr> {
    let function = call(expr)?;
    let params = &function.params;
    let is_list = matches!(function.func.name(), "string_agg" | "array_agg");
    let is_listed = is_list && params.distinct && params.filter.is_none();
    params.args.first().filter(|_| is_listed)
}

/// What a count of distinct values is of.
fn counted(expr: &Expr) -> Option<&Expr> {
    let function = call(expr)?;
    match &function.params.args[..] {
        [values] if function.func.name() == "count" && function.params.distinct => Some(values),
        _ => None,
    }
}

fn is_text(values: &Expr, aggregate: &Aggregate) -> Result<bool> {
    let data_type = values.get_type(aggregate.input.schema())?;
    Ok(match data_type {
        DataType::Dictionary(_, words) => words.is_string(),
        other => other.is_string(),
    })
}

fn call(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::AggregateFunction(function) => Some(function),
        Expr::Alias(alias) => call(&alias.expr),
        _ => None,
    }
}

fn part<'a>(expr: &'a Expr, values: &Expr) -> Option<Part<'a>> {
    let function = call(expr)?;
    let params = &function.params;
    if params.filter.is_some() || params.null_treatment.is_some() {
        return None;
    }
    let is_plain = !params.distinct && params.order_by.is_empty();
    match function.func.name() {
        "string_agg" | "array_agg" if params.distinct => {
            let [first, more @ ..] = &params.args[..] else {
                return None;
            };
            let is_constant = |arg: &Expr| matches!(arg, Expr::Literal(..));
            let in_order = |by: &SortExpr| by.expr == *values;
            (first == values
                && more.iter().all(is_constant)
                && params.order_by.iter().all(in_order))
            .then_some(Part::OfValues(function))
        }
        "count" if params.distinct && params.args[..] == [values.clone()] => {
            Some(Part::OfValues(function))
        }
        "count" if is_plain => Some(Part::Count(function)),
        "min" | "max" if is_plain => Some(Part::Extreme(function)),
        _ => None,
    }
}

/// The same function of the values in a column.
fn over(function: &AggregateFunction, column: &Expr) -> Expr {
    let params = &function.params;
    let args = [column.clone()].into_iter();
    let args = args.chain(params.args.iter().skip(1).cloned()).collect();
    let order_by = params.order_by.iter().map(|by| SortExpr {
        expr: column.clone(),
        ..by.clone()
    });
    Expr::AggregateFunction(AggregateFunction::new_udf(
        Arc::clone(&function.func),
        args,
        false,
        None,
        order_by.collect(),
        None,
    ))
}
