//! Comparisons whose sides DataFusion converts to a type that cannot hold both.

use super::numbers::{as_double, as_exact_decimal};
use super::zeros::with_one_zero;
use super::{
    holds, input_schema, intervals, operator_holds, rewrite_expressions, rewrite_whole_expressions,
    timestamps,
};
use crate::walk::{Walk, WalkAll};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::expr::{AggregateFunction, InList, ScalarFunction};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, Projection, Subquery,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use std::sync::Arc;

/// Compares values as they are written.
///
/// * A decimal against a number with a point: DataFusion 55 multiplies the number, a double, by
///   10^15 and rounds, so that `x = 1234567.89` is false for the decimal 1234567.89. The number is
///   taken from its digits here, and computed with as decimals. Where one side is a column of
///   doubles, both are compared as doubles, as in PostgreSQL.
/// * A timestamp of seconds against one with a fraction: DataFusion 55 cuts the fraction off, so
///   that `t = '... 00:00:00.75'` finds 00:00:00. See [`timestamps`].
/// * A dictionary against other values: DataFusion 55 makes a dictionary with the same keys of
///   those, which fails where a batch of them has more values than there are keys, such as 256.
///   The values of both are compared here.
/// * Intervals and differences of timestamps, and dates with a time added: see [`intervals`].
/// * `SIMILAR TO` is refused: DataFusion 55 takes its pattern for a regular expression that may
///   match a part of the text.
/// * 0.0 and -0.0 are one value: `count(DISTINCT x), count(*)` of DataFusion 55 counts two, and a
///   simple `CASE` and `nullif` tell them apart.
#[derive(Debug, Default)]
pub(crate) struct ExactComparisons;

impl AnalyzerRule for ExactComparisons {
    fn name(&self) -> &str {
        "tierloom_exact_comparisons"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = timed_dates(plan, config)?;
        let plan = plan.up_all(&mut |node| {
            let compares =
                matches!(node, LogicalPlan::Join(_)) || operator_holds(&node, is_compared)?;
            if !compares {
                return Ok(Transformed::no(node));
            }
            let schema = input_schema(&node);
            let node = match node {
                LogicalPlan::Join(mut join) => {
                    for (left, right) in &mut join.on {
                        let mut sides = [left.clone(), right.clone()];
                        if compare_alike(&mut sides, &schema)? {
                            let [exact_left, exact_right] = sides;
                            (*left, *right) = (exact_left, exact_right);
                        }
                    }
                    LogicalPlan::Join(join)
                }
                other => other,
            };
            rewrite_whole_expressions(node, |expr| expr.up(&mut |expr| exact(expr, &schema)))
        })?;
        Ok(plan.data)
    }
}

/// Makes timestamps of dates to which a time is added, and types of what is computed from them.
fn timed_dates(plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
    if !holds(&plan, intervals::has_time)? {
        return Ok(plan);
    }
    let plan = plan.up_all(&mut |node| {
        let schema = input_schema(&node);
        let with_time = |expr| intervals::with_time(expr, &schema);
        let node = rewrite_expressions(node, intervals::has_time, with_time)?;
        node.map_data(LogicalPlan::recompute_schema)
    })?;
    TypeCoercion::new().analyze(plan.data, config)
}

/// Whether [`exact`] looks at the expression.
fn is_compared(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => binary.op.supports_propagation(),
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(call) => call.name() == "nullif",
        Expr::AggregateFunction(function) => function.params.distinct,
        Expr::SimilarTo(_)
        | Expr::InList(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::Between(_) => true,
        _ => false,
    }
}

fn exact(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (expr, changed) = match expr {
        Expr::BinaryExpr(binary) if binary.op.supports_propagation() => {
            let mut sides = [*binary.left, *binary.right];
            let changed = match &mut sides {
                [value, Expr::ScalarSubquery(query)] | [Expr::ScalarSubquery(query), value] => {
                    compare_with_rows(value, query, schema)?
                }
                _ => compare_alike(&mut sides, schema)?,
            };
            let [left, right] = sides;
            let binary = BinaryExpr::new(Box::new(left), binary.op, Box::new(right));
            (Expr::BinaryExpr(binary), changed)
        }
        Expr::SimilarTo(_) => {
            return not_impl_err!("SIMILAR TO; use LIKE, or ~ with a regular expression");
        }
        Expr::InList(list) => {
            let mut values = vec![*list.expr];
            values.extend(list.list);
            let changed = compare_alike(&mut values, schema)?;
            let value = Box::new(values.remove(0));
            let list = InList::new(value, values, list.negated);
            (Expr::InList(list), changed)
        }
        Expr::InSubquery(mut found) => {
            let changed = compare_with_rows(&mut found.expr, &mut found.subquery, schema)?;
            (Expr::InSubquery(found), changed)
        }
        Expr::SetComparison(mut found) => {
            let changed = compare_with_rows(&mut found.expr, &mut found.subquery, schema)?;
            (Expr::SetComparison(found), changed)
        }
        Expr::Between(between) => {
            let mut values = [*between.expr, *between.low, *between.high];
            let changed = compare_alike(&mut values, schema)?;
            let [value, low, high] = values.map(Box::new);
            let between = Between::new(value, between.negated, low, high);
            (Expr::Between(between), changed)
        }
        Expr::Case(mut case) => {
            let Some(value) = case.expr.take() else {
                return Ok(Transformed::no(Expr::Case(case)));
            };
            let whens = case.when_then_expr.iter().map(|(when, _)| *when.clone());
            let mut values: Vec<Expr> = [*value].into_iter().chain(whens).collect();
            let changed = compare_alike(&mut values, schema)?;
            case.expr = Some(Box::new(values.remove(0)));
            for ((when, _), value) in case.when_then_expr.iter_mut().zip(values) {
                **when = value;
            }
            let searched = searched(&mut case, schema)?;
            (Expr::Case(case), changed || searched)
        }
        Expr::ScalarFunction(call) if call.name() == "nullif" => {
            return null_if_equal(call, schema);
        }
        Expr::AggregateFunction(function) => return one_zero(function, schema),
        other => return Ok(Transformed::no(other)),
    };
    let rounded = timestamps::rounded(expr, schema)?;
    Ok(match changed {
        true => Transformed::yes(rounded.data),
        false => rounded,
    })
}

/// Compares the value of a simple `CASE` of floats with `=`, by which 0.0 and -0.0 are one value;
/// whether it did.
fn searched(case: &mut Case, schema: &DFSchema) -> Result<bool> {
    let Some(value) = case.expr.take() else {
        return Ok(false);
    };
    if value.is_volatile() || !value.get_type(schema)?.is_floating() {
        case.expr = Some(value);
        return Ok(false);
    }
    for (when, _) in &mut case.when_then_expr {
        **when = value.as_ref().clone().eq(when.as_ref().clone());
    }
    Ok(true)
}

/// The same for `nullif`.
fn null_if_equal(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match call.args.as_slice() {
        [value, other] if !value.is_volatile() && value.get_type(schema)?.is_floating() => {
            let null = ScalarValue::try_new_null(&value.get_type(schema)?)?;
            let equal = Box::new(value.clone().eq(other.clone()));
            let when = vec![(equal, Box::new(Expr::Literal(null, None)))];
            let case = Case::new(None, when, Some(Box::new(value.clone())));
            Ok(Transformed::yes(Expr::Case(case)))
        }
        _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
    }
}

/// Makes -0.0 the value 0.0 where distinct floats are counted, as it is one group with 0.0.
fn one_zero(mut function: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let counts = function.params.distinct && matches!(function.func.name(), "count" | "avg");
    let one = match function.params.args.as_slice() {
        [value] if counts && function.params.order_by.is_empty() => with_one_zero(value, schema)?,
        _ => None,
    };
    let changed = one.is_some();
    if let Some(one) = one {
        function.params.args = vec![one];
    }
    let function = Expr::AggregateFunction(function);
    Ok(Transformed::new_transformed(function, changed))
}

/// Changes values that are compared with each other to a type that holds them all; whether it did.
fn compare_alike(values: &mut [Expr], schema: &DFSchema) -> Result<bool> {
    if intervals::as_durations(values, schema)? {
        return Ok(true);
    }
    let mut changed = as_plain_values(values, schema)?;
    let mut common = None;
    for value in values.iter_mut() {
        let Expr::Cast(Cast { expr, field }) = &*value else {
            continue;
        };
        let from = expr.get_type(schema)?;
        let decimal = field.data_type();
        if !from.is_floating() || !decimal.is_decimal() {
            continue;
        }
        if let Some(exact) = as_exact_decimal(expr, decimal) {
            *value = exact;
            changed = true;
        } else if is_planners(decimal, &from) {
            common = Some(decimal.clone());
        }
    }
    if let Some(decimal) = common {
        for value in values.iter_mut() {
            *value = as_double(value.clone(), &decimal, schema)?;
        }
        changed = true;
    }
    Ok(changed)
}

/// Takes the values out of dictionaries where the planner would put computed ones or those of
/// another column into one; whether it did.
fn as_plain_values(values: &mut [Expr], schema: &DFSchema) -> Result<bool> {
    let mut plain = None;
    for value in values.iter() {
        plain = plain.or(put_into_dictionary(value, schema)?);
    }
    let Some(plain) = plain else {
        return Ok(false);
    };
    for value in values.iter_mut() {
        *value = as_plain(value.clone(), &plain, schema)?;
    }
    Ok(true)
}

/// The type of the values, if the planner makes a dictionary of `value`, which differs by row.
fn put_into_dictionary(value: &Expr, schema: &DFSchema) -> Result<Option<DataType>> {
    let Expr::Cast(Cast { expr, field }) = value else {
        return Ok(None);
    };
    let DataType::Dictionary(_, of) = field.data_type() else {
        return Ok(None);
    };
    let varies = expr.any_column_refs() || expr.contains_outer();
    let made = varies && !matches!(expr.get_type(schema)?, DataType::Dictionary(..));
    Ok(made.then(|| of.as_ref().clone()))
}

/// `value` in the type `plain`, without a dictionary that a cast makes of it first.
fn as_plain(value: Expr, plain: &DataType, schema: &DFSchema) -> Result<Expr> {
    match value {
        Expr::Cast(Cast { expr, field })
            if matches!(field.data_type(), DataType::Dictionary(..)) =>
        {
            expr.cast_to(plain, schema)
        }
        other => other.cast_to(plain, schema),
    }
}

/// The same for a value and the rows of a subquery.
fn compare_with_rows(value: &mut Expr, query: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let LogicalPlan::Projection(projection) = &*query.subquery else {
        return Ok(false);
    };
    let ([output], inside) = (projection.expr.as_slice(), projection.input.schema()) else {
        return Ok(false);
    };
    let name = output.schema_name().to_string();
    let output = output.clone().unalias();
    let decimal = output.get_type(inside)?;
    let plain = match put_into_dictionary(value, schema)? {
        None => put_into_dictionary(&output, inside)?,
        plain => plain,
    };
    let (exact, output) = if let Some(plain) = plain {
        (
            as_plain(value.clone(), &plain, schema)?,
            as_plain(output, &plain, inside)?,
        )
    } else if is_converted_float(value, &decimal, schema)?
        || is_converted_float(&output, &decimal, inside)?
    {
        (
            as_double(value.clone(), &decimal, schema)?,
            as_double(output, &decimal, inside)?,
        )
    } else {
        return Ok(false);
    };
    let rows = Projection::try_new(vec![output.alias(name)], Arc::clone(&projection.input))?;
    query.subquery = Arc::new(LogicalPlan::Projection(rows));
    *value = exact;
    Ok(true)
}

/// Whether a value is a float that the planner converted to `decimal`.
fn is_converted_float(value: &Expr, decimal: &DataType, schema: &DFSchema) -> Result<bool> {
    Ok(match value {
        Expr::Cast(Cast { expr, field }) if field.data_type() == decimal => {
            let from = expr.get_type(schema)?;
            from.is_floating() && is_planners(decimal, &from)
        }
        _ => false,
    })
}

/// Whether the planner may have chosen the decimal type to compare floats, and not the author of
/// the statement: it takes at least 15 digits after the point for a double, 7 for a float.
fn is_planners(decimal: &DataType, float: &DataType) -> bool {
    let fewest = if *float == DataType::Float64 { 15 } else { 7 };
    matches!(
        decimal,
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) if *scale >= fewest
    )
}
