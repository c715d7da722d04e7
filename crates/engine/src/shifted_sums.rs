//! Sums of the same values with something added.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, HashSet, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, lit,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// So many sums of the same values are worth the count of those that are not NULL.
const FEWEST: usize = 3;

/// Makes `sum(x), sum(x + 1), sum(x + 2)` of one sum and one count: `sum(x) + 2 * count(x)`.
///
/// DataFusion does the same for its own `sum`, but not for one that has errors where that wraps
/// around, and `count(x)` beside it gives two columns of one name.
///
/// Only of integers of up to 32 bits, widened to 64, and shifts of up to 32: neither the sum nor
/// the product can leave 64 bits with fewer than 2^31 rows, so what is an error stays one.
#[derive(Debug, Default)]
pub(crate) struct ShiftedSums;

impl ShiftedSums {
    /// The rule after which this one belongs, before common expressions are taken out of sums.
    pub(crate) const AFTER: &str = "push_down_filter";
}

impl OptimizerRule for ShiftedSums {
    fn name(&self) -> &'static str {
        "tierloom_shifted_sums"
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
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.len() >= FEWEST => {
                of_one_sum(aggregate)
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// The aggregation with one sum for those that only differ by a shift.
fn of_one_sum(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let input = aggregate.input.schema();
    let sums = aggregate.aggr_expr.iter();
    let sums: Vec<Option<Shifted>> = sums.map(|expr| Shifted::of(expr, input)).collect();
    let is_often = |values: &Expr| {
        let of_same = sums.iter().flatten().filter(|sum| sum.values == values);
        of_same.count() >= FEWEST
    };
    let is_often: Vec<bool> = sums
        .iter()
        .map(|sum| sum.as_ref().is_some_and(|sum| is_often(sum.values)))
        .collect();
    if !is_often.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let mut kept: Vec<Expr> = Vec::new();
    let mut keep = |expr: Expr| {
        let known = kept.iter().position(|other| *other == expr);
        known.unwrap_or_else(|| {
            kept.push(expr);
            kept.len() - 1
        })
    };
    let aggregates = aggregate.aggr_expr.iter().zip(&sums).zip(is_often);
    let made: Vec<Made> = aggregates
        .map(|((expr, sum), is_often)| match sum {
            Some(sum) if is_often => Made::Shifted {
                sum: keep(sum.unshifted()),
                rows: keep(count(sum.narrow.clone())),
                by: sum.shift,
            },
            _ => Made::Itself(keep(expr.clone())),
        })
        .collect();
    let names: HashSet<String> = kept.iter().map(|e| e.schema_name().to_string()).collect();
    if names.len() < kept.len() {
        // Names leave casts out, so different expressions may have the same.
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let group_expr = aggregate.group_expr.clone();
    let fewer = Aggregate::try_new(Arc::clone(&aggregate.input), group_expr, kept)?;
    let columns = fewer.schema.columns();
    let groups = aggregate.schema.fields().len() - made.len();
    let column = |index: usize| Expr::Column(columns[groups + index].clone());
    let named = aggregate.schema.iter().skip(groups);
    let outputs = made.iter().zip(named).map(|(made, (qualifier, field))| {
        let output = match made {
            Made::Itself(index) => column(*index),
            Made::Shifted { sum, by: 0, .. } => column(*sum),
            Made::Shifted { sum, rows, by } => column(*sum) + lit(*by) * column(*rows),
        };
        output.alias_qualified(qualifier.cloned(), field.name())
    });
    let keys = columns[..groups].iter().cloned().map(Expr::Column);
    let outputs = keys.chain(outputs).collect();
    let projection = Projection::try_new(outputs, Arc::new(LogicalPlan::Aggregate(fewer)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// How an aggregate comes from those that are computed.
enum Made {
    Itself(usize),
    Shifted { sum: usize, rows: usize, by: i64 },
}

/// A sum of `values + shift`.
struct Shifted<'e> {
    function: &'e AggregateFunction,
    /// `narrow`, cast to 64 bits.
    values: &'e Expr,
    narrow: &'e Expr,
    shift: i64,
}

impl<'e> Shifted<'e> {
    fn of(expr: &'e Expr, input: &DFSchema) -> Option<Self> {
        let Expr::AggregateFunction(function) = expr else {
            return None;
        };
        let params = &function.params;
        let is_plain = !params.distinct
            && params.filter.is_none()
            && params.order_by.is_empty()
            && params.null_treatment.is_none();
        let [argument] = params.args.as_slice() else {
            return None;
        };
        if function.func.name() != "sum" || !is_plain || argument.is_volatile() {
            return None;
        }
        let (values, shift) = match argument {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                match (left.as_ref(), op, right.as_ref()) {
                    (values, Operator::Plus, Expr::Literal(ScalarValue::Int64(Some(by)), _))
                    | (Expr::Literal(ScalarValue::Int64(Some(by)), _), Operator::Plus, values) => {
                        (values, *by)
                    }
                    (values, Operator::Minus, Expr::Literal(ScalarValue::Int64(Some(by)), _)) => {
                        (values, by.checked_neg()?)
                    }
                    _ => return None,
                }
            }
            values => (values, 0),
        };
        let Expr::Cast(cast) = values else {
            return None;
        };
        let data_type = cast.expr.get_type(input).ok()?;
        let is_narrow = data_type.is_integer() && data_type.primitive_width()? <= 4;
        let is_wide = values.get_type(input).ok()? == DataType::Int64;
        (is_narrow && is_wide && i32::try_from(shift).is_ok()).then_some(Shifted {
            function,
            values,
            narrow: &cast.expr,
            shift,
        })
    }

    /// The sum of the values alone.
    fn unshifted(&self) -> Expr {
        let mut function = self.function.clone();
        function.params.args = vec![self.values.clone()];
        Expr::AggregateFunction(function)
    }
}
