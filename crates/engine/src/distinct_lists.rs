//! Lists and counts of distinct values.

use crate::summed_counts::summed_counts;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{HashSet, Result};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, SortExpr};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Makes `string_agg(DISTINCT x, ',' ORDER BY x)` the list of the groups by `x`, and
/// `count(DISTINCT x)` of texts beside `count(*)` their number.
///
/// DataFusion keeps a set of the values of each group, row by row, and does what is done here only
/// for functions of one argument without an order, and beside sums and extremes. Groups can be
/// those of a star join.
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

/// An aggregate over groups by the listed values too.
enum OfGroups<'a> {
    /// Of the distinct values themselves.
    Values(&'a AggregateFunction),
    /// The smallest or largest of those of the groups, which are the aggregate of this number.
    Extreme(&'a AggregateFunction, usize),
    /// The sum of the counts of the groups, which are the aggregate of this number.
    Count(usize),
}

/// The aggregation over groups by the values that are listed; `None` if there are no such lists, or
/// something else that cannot be made of these groups.
fn of_groups(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Some(values) = distinct_values(aggregate)? else {
        return Ok(None);
    };
    let mut of_groups: Vec<Expr> = Vec::new();
    let parts = aggregate.aggr_expr.iter();
    let same_order = (values, ordered(values, aggregate)?);
    let parts = parts.map(|expr| part(expr, same_order, &mut of_groups));
    let Some(parts) = parts.collect::<Option<Vec<OfGroups<'_>>>>() else {
        return Ok(None);
    };
    let keys = aggregate.group_expr.iter().chain([values]).cloned();
    let keys: Vec<Expr> = keys.collect();
    let all = keys.iter().chain(&of_groups);
    let names: HashSet<String> = all.map(|expr| expr.schema_name().to_string()).collect();
    if names.len() < keys.len() + of_groups.len() {
        // Names leave casts out, so different expressions may have the same.
        return Ok(None);
    }
    let groups = Aggregate::try_new(Arc::clone(&aggregate.input), keys, of_groups)?;
    let columns = groups.schema.columns().into_iter().map(Expr::Column);
    let columns: Vec<Expr> = columns.collect();
    let (keys, rest) = columns.split_at(aggregate.group_expr.len());
    let (values, of_groups) = rest.split_at(1);
    let made = parts.iter().enumerate().map(|(number, part)| {
        let value = match part {
            OfGroups::Values(function) => over(function, &values[0]),
            OfGroups::Extreme(function, at) => over(function, &of_groups[*at]),
            OfGroups::Count(at) => sum(of_groups[*at].clone()),
        };
        value.alias(format!("__list_{number}"))
    });
    let (keys, made) = (keys.to_vec(), made.collect());
    let lists = Aggregate::try_new(Arc::new(LogicalPlan::Aggregate(groups)), keys, made)?;
    let keys = aggregate.group_expr.iter().map(|_| false);
    let counts = parts.iter().map(|part| matches!(part, OfGroups::Count(_)));
    summed_counts(lists, &aggregate.schema, keys.chain(counts)).map(Some)
}

/// The values by which to group: those of a list, or of a count of texts beside other aggregates.
fn distinct_values(aggregate: &Aggregate) -> Result<Option<&Expr>> {
    let aggregates = &aggregate.aggr_expr;
    let values = match aggregates.iter().find_map(listed) {
        Some(values) => Some(values),
        // Sets of numbers are quick.
        None => match aggregates.iter().find_map(counted) {
            Some(values) if aggregates.len() > 1 && is_text(values, aggregate)? => Some(values),
            _ => None,
        },
    };
    let other_keys = |values: &Expr| {
        let mut keys = aggregate.group_expr.iter();
        keys.all(|key| key != values && !matches!(key, Expr::GroupingSet(_)))
    };
    Ok(values.filter(|values| other_keys(values) && !values.is_volatile()))
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

/// The texts that `values` are, without a cast: words of a dictionary are cast in an argument, but
/// not in its order.
fn ordered<'a>(values: &'a Expr, aggregate: &Aggregate) -> Result<&'a Expr> {
    Ok(match values {
        Expr::Cast(cast)
            if cast.field.data_type().is_string() && is_text(&cast.expr, aggregate)? =>
        {
            &cast.expr
        }
        plain => plain,
    })
}

fn is_text(values: &Expr, aggregate: &Aggregate) -> Result<bool> {
    let data_type = values.get_type(aggregate.input.schema())?;
    Ok(match data_type {
        DataType::Dictionary(_, words) => words.is_string(),
        other => other.is_string(),
    })
}

/// The aggregate function that `expr` is, which may have another name.
pub(crate) fn call(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::AggregateFunction(function) => Some(function),
        Expr::Alias(alias) => call(&alias.expr),
        _ => None,
    }
}

/// How an aggregate comes from groups by `values` and the aggregates in `of_groups`, to which its
/// own is added; `None` if it does not. Those of `ordered` have the same order.
fn part<'a>(
    expr: &'a Expr,
    (values, ordered): (&Expr, &Expr),
    of_groups: &mut Vec<Expr>,
) -> Option<OfGroups<'a>> {
    let function = call(expr)?;
    let params = &function.params;
    if params.filter.is_some() || params.null_treatment.is_some() {
        return None;
    }
    let mut number = || {
        let expr = Expr::AggregateFunction(function.clone());
        let known = of_groups.iter().position(|other| *other == expr);
        known.unwrap_or_else(|| {
            of_groups.push(expr);
            of_groups.len() - 1
        })
    };
    let is_plain = !params.distinct && params.order_by.is_empty();
    match function.func.name() {
        "string_agg" | "array_agg" if params.distinct => {
            let (first, more) = params.args.split_first()?;
            let is_constant = |arg: &Expr| matches!(arg, Expr::Literal(..));
            let in_order = |by: &SortExpr| by.expr == *values || by.expr == *ordered;
            let fits = first == values
                && more.iter().all(is_constant)
                && params.order_by.iter().all(in_order);
            fits.then_some(OfGroups::Values(function))
        }
        "count" if params.distinct => {
            let fits = matches!(&params.args[..], [counted] if counted == values);
            fits.then_some(OfGroups::Values(function))
        }
        "count" if is_plain => Some(OfGroups::Count(number())),
        "min" | "max" if is_plain => Some(OfGroups::Extreme(function, number())),
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
