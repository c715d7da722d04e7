//! NaN, which is one value whatever its bits.
//!
//! DataFusion 55 compares, sorts and groups floats by their bits, so a NaN with a sign is less than
//! all numbers and is another group than one without. Processors of x86 set the sign where 0.0 is
//! divided by 0.0. Here every NaN is the positive one before it is compared: columns when they are
//! loaded, with the floats of their lists and structs, computed floats where they leave arithmetic,
//! and aggregates where they are used.

use crate::Walk;
use crate::walk::WalkAll;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, make_array};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Makes NaN positive where a computed float leaves arithmetic.
#[derive(Debug, Default)]
pub(crate) struct OneNan;

impl AnalyzerRule for OneNan {
    fn name(&self) -> &str {
        "tierloom_one_nan"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        at_root(plan, &mut HashSet::new())
    }
}

/// Changes a plan whose rows are the result. What nothing in it compares stays as it is: NaN is
/// shown without its sign, and a projection that computes nothing keeps the order of its input.
/// `compared` are the columns that the operators above use.
fn at_root(plan: LogicalPlan, compared: &mut HashSet<Column>) -> Result<LogicalPlan> {
    let node = match plan {
        LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => {
            for expr in plan.expressions() {
                compared.extend(expr.column_refs().into_iter().cloned());
            }
            plan.change_children(&mut |input| Ok(Transformed::yes(at_root(input, compared)?)))?
        }
        LogicalPlan::Projection(_) => plan.change_children(&mut everywhere)?,
        other => return everywhere(other).data(),
    };
    let node = node.data.change_subqueries(&mut everywhere)?.data;
    let below = Below::of(&node);
    let is_result = matches!(node, LogicalPlan::Projection(_));
    let mut columns = node.schema().columns().into_iter();
    super::rewrite_whole_expressions(node, |expr| {
        let column = columns.next();
        let stays = is_result && column.is_some_and(|column| !compared.contains(&column));
        where_it_leaves(expr, stays, &below)
    })
    .data()
}

/// Changes a part of a plan.
fn everywhere(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.up_all(&mut |node| {
        let below = Below::of(&node);
        let may_make_nan = |expr: &Expr| may_make_nan(expr, &below) && is_float(expr, &below);
        if !super::operator_holds(&node, may_make_nan)? {
            return Ok(Transformed::no(node));
        }
        super::rewrite_whole_expressions(node, |expr| where_it_leaves(expr, false, &below))
    })
}

/// What the inputs of an operator deliver.
struct Below {
    schema: DFSchemaRef,
    /// Floats of aggregates and windows, which may be NaN with a sign.
    aggregates: HashSet<Column>,
}

impl Below {
    fn of(node: &LogicalPlan) -> Below {
        let mut aggregates = HashSet::new();
        let mut inputs = node.inputs();
        while let Some(input) = inputs.pop() {
            let mut computed: &[Expr] = &[];
            let passed = match input {
                LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => {
                    inputs.extend(input.inputs());
                    continue;
                }
                LogicalPlan::Window(window) => {
                    inputs.push(&window.input);
                    window.input.schema().fields().len()
                }
                LogicalPlan::Aggregate(aggregate) => {
                    computed = &aggregate.aggr_expr;
                    aggregate.group_expr_len().unwrap_or(0)
                }
                _ => continue,
            };
            for (index, (qualifier, field)) in input.schema().iter().skip(passed).enumerate() {
                let below = || input.inputs().first().map(|input| input.schema());
                let sum = computed.get(index).zip(below());
                let is_bounded = sum.is_some_and(|(sum, schema)| is_bounded_sum(sum, schema));
                if field.data_type().is_floating() && !is_bounded {
                    aggregates.insert(Column::from((qualifier, field)));
                }
            }
        }
        Below {
            schema: super::input_schema(node),
            aggregates,
        }
    }
}

/// Changes `expr` and what it is made of. `stays` says that the result goes into arithmetic, where
/// the sign of a NaN does not matter.
fn where_it_leaves(expr: Expr, stays: bool, below: &Below) -> Result<Transformed<Expr>> {
    let operands_stay = match &expr {
        Expr::Alias(_) => stays,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_arithmetic(*op),
        Expr::Negative(_) | Expr::Cast(_) | Expr::TryCast(_) => true,
        Expr::Case(case) => case.expr.is_none(),
        Expr::ScalarFunction(function) => {
            !COMPARING.contains(&function.name()) && is_float(&expr, below)
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            !params.distinct && params.order_by.is_empty() && ADDING.contains(&func.name())
        }
        _ => false,
    };
    let expr =
        expr.change_children(&mut |operand| where_it_leaves(operand, operands_stay, below))?;
    if stays || !may_make_nan(&expr.data, below) || !is_float(&expr.data, below) {
        return Ok(expr);
    }
    Ok(Transformed::yes(ONE_NAN.call(vec![expr.data])))
}

/// Functions whose result is one of their arguments, after a comparison.
const COMPARING: [&str; 3] = ["greatest", "least", "nullif"];

/// Functions whose result is NaN with a sign only if an argument is.
const PASSING: [&str; 12] = [
    "coalesce",
    "nvl",
    "greatest",
    "least",
    "nullif",
    "abs",
    "ceil",
    "floor",
    "signum",
    "random",
    ONE_NAN_NAME,
    "may_be_null",
];

/// Functions whose result is a part of their first argument.
const FIELDS: [&str; 2] = ["get_field", "array_element"];

/// Functions whose result is finite if the arguments are.
const BOUNDED: [&str; 8] = [
    "atan", "atan2", "ceil", "cos", "floor", "random", "sin", "trunc",
];

/// Aggregates that compare no values.
const ADDING: [&str; 14] = [
    "sum",
    "avg",
    "mean",
    "count",
    "var",
    "var_pop",
    "stddev",
    "stddev_pop",
    "corr",
    "covar_samp",
    "covar_pop",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
];

fn is_arithmetic(op: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

fn is_float(expr: &Expr, below: &Below) -> bool {
    expr.get_type(&below.schema).is_ok_and(|t| t.is_floating())
}

/// Whether a float may be NaN with a sign although columns of tables are not.
fn may_make_nan(expr: &Expr, below: &Below) -> bool {
    let may_make_nan = |operand: &Expr| may_make_nan(operand, below);
    match expr {
        Expr::Column(column) => below.aggregates.contains(column),
        Expr::Literal(value, _) => match value {
            ScalarValue::Float64(Some(number)) => number.is_nan() && number.is_sign_negative(),
            ScalarValue::Float32(Some(number)) => number.is_nan() && number.is_sign_negative(),
            // As text it may be cast.
            value => value.data_type().is_string(),
        },
        bounded if is_bounded(bounded, &below.schema, DEEPEST) => false,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_arithmetic(*op) => {
            // With a finite number that is not zero, only a NaN makes one.
            match (is_plain(left), is_plain(right), *op) {
                (_, true, Operator::Modulo) | (true, _, Operator::Divide) => true,
                (true, _, _) => may_make_nan(right),
                (_, true, _) => may_make_nan(left),
                _ => true,
            }
        }
        Expr::Alias(alias) => may_make_nan(&alias.expr),
        Expr::Cast(cast) => may_make_nan(&cast.expr),
        Expr::TryCast(cast) => may_make_nan(&cast.expr),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, result)| result);
            results
                .chain(&case.else_expr)
                .any(|result| may_make_nan(result))
        }
        Expr::ScalarFunction(function) if function.name() == "power" => {
            // Of a positive number it is at most infinite.
            let [base, exponent] = function.args.as_slice() else {
                return true;
            };
            let exponent = || is_bounded(exponent, &below.schema, DEEPEST);
            !(is_plain(base) && !is_below_zero(base) && exponent())
        }
        Expr::ScalarFunction(function) if FIELDS.contains(&function.name()) => {
            function.args.first().is_some_and(may_make_nan)
        }
        Expr::ScalarFunction(function) => {
            !PASSING.contains(&function.name())
                || (function.name() != ONE_NAN_NAME && function.args.iter().any(may_make_nan))
        }
        Expr::Negative(operand) => !is_plain(operand),
        _ => false,
    }
}

/// Levels of operators over integers and decimals whose result is certainly finite: a decimal has
/// fewer than 10^77, and the eighth power of that is no double.
const DEEPEST: u32 = 2;

/// Whether a sum or average is finite, since it adds what [`is_bounded`].
fn is_bounded_sum(sum: &Expr, schema: &DFSchema) -> bool {
    match sum {
        Expr::Alias(alias) => is_bounded_sum(&alias.expr, schema),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let mut args = params.args.iter();
            ["sum", "avg"].contains(&func.name())
                && args.all(|arg| is_bounded(arg, schema, DEEPEST))
        }
        _ => false,
    }
}

/// Whether `expr` is made of integers, decimals and constants so that it is finite.
fn is_bounded(expr: &Expr, schema: &DFSchema, depth: u32) -> bool {
    use Operator::{Minus, Multiply, Plus};
    let deeper = |operand: &Expr| depth > 0 && is_bounded(operand, schema, depth - 1);
    let of_expr = match expr {
        Expr::Alias(alias) => is_bounded(&alias.expr, schema, depth),
        Expr::Cast(cast) => is_bounded(&cast.expr, schema, depth),
        Expr::Negative(operand) => is_bounded(operand, schema, depth),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            matches!(op, Plus | Minus | Multiply) && deeper(left) && deeper(right)
        }
        Expr::ScalarFunction(function) => {
            BOUNDED.contains(&function.name()) && function.args.iter().all(deeper)
        }
        expr => is_plain(expr),
    };
    of_expr
        || expr
            .get_type(schema)
            .is_ok_and(|t| t.is_integer() || t.is_decimal())
}

/// Whether `expr` is a constant, finite number that is not zero.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(number)), _) => number.is_normal(),
        Expr::Literal(ScalarValue::Float32(Some(number)), _) => number.is_normal(),
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => *number != 0,
        Expr::Cast(cast) => is_plain(&cast.expr),
        _ => false,
    }
}

fn is_below_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(number)), _) => *number < 0.0,
        Expr::Literal(ScalarValue::Float32(Some(number)), _) => *number < 0.0,
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => *number < 0,
        Expr::Cast(cast) => is_below_zero(&cast.expr),
        _ => false,
    }
}

/// Name of the function that makes NaN positive.
pub const ONE_NAN_NAME: &str = "one_nan";
static ONE_NAN: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(OneNanOf::new()));

/// The function that rules put around floats that are grouped by.
pub(super) fn one_nan() -> Arc<ScalarUDF> {
    Arc::new(ONE_NAN.clone())
}

/// The identity function, except that NaN is positive.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneNanOf {
    signature: Signature,
}

impl OneNanOf {
    fn new() -> Self {
        OneNanOf {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OneNanOf {
    fn name(&self) -> &str {
        ONE_NAN_NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match arguments.args.swap_remove(0) {
            ColumnarValue::Array(values) => ColumnarValue::Array(with_one_nan(values)),
            ColumnarValue::Scalar(value) => {
                let values = with_one_nan(value.to_array()?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)
            }
        })
    }
}

type HalfFloat = <Float16Type as ArrowPrimitiveType>::Native;

/// Floats with every NaN positive, also those of lists and structs; other columns, and floats
/// without NaN, as they are.
///
/// Tables that are loaded have such floats. The rules of [`corrected`](super::corrected) expect it
/// of all tables.
#[must_use]
pub fn with_one_nan(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float16 => {
            in_floats::<Float16Type>(values, |n| n.is_nan().then_some(HalfFloat::NAN))
        }
        DataType::Float32 => in_floats::<Float32Type>(values, |n| n.is_nan().then_some(f32::NAN)),
        DataType::Float64 => in_floats::<Float64Type>(values, |n| n.is_nan().then_some(f64::NAN)),
        DataType::Dictionary(..) => {
            let dictionary = values.as_any_dictionary();
            let words = with_one_nan(Arc::clone(dictionary.values()));
            match Arc::ptr_eq(&words, dictionary.values()) {
                true => values,
                false => dictionary.with_values(words),
            }
        }
        nested if nested.is_nested() => in_children(values),
        _ => values,
    }
}

/// The floats of lists, maps and structs.
fn in_children(values: ArrayRef) -> ArrayRef {
    let data = values.to_data();
    let mut is_changed = false;
    let children = data.child_data().iter().map(|child| {
        let before = make_array(child.clone());
        let after = with_one_nan(Arc::clone(&before));
        is_changed |= !Arc::ptr_eq(&before, &after);
        after.to_data()
    });
    let children = children.collect();
    if !is_changed {
        return values;
    }
    let changed = data.into_builder().child_data(children).build();
    make_array(changed.expect("as long as before, and of the same types"))
}

fn in_floats<T: ArrowPrimitiveType>(
    values: ArrayRef,
    nan: impl Fn(T::Native) -> Option<T::Native>,
) -> ArrayRef {
    let floats: &PrimitiveArray<T> = values.as_primitive();
    // Without a branch per value: most columns have no NaN.
    let found = floats
        .values()
        .iter()
        .fold(false, |found, n| found | nan(*n).is_some());
    match found {
        true => Arc::new(floats.unary::<_, T>(|n| nan(n).unwrap_or(n))),
        false => values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Float64Array, Int8Array, ListArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    #[test]
    fn every_nan_has_the_same_bits_also_among_words_and_in_lists() {
        let other = f64::from_bits(0x7ff8_0000_0000_0001);
        let values = vec![Some(1.0), Some(-f64::NAN), None, Some(other), Some(-0.0)];
        let bits = |values: &ArrayRef| -> Vec<Option<u64>> {
            let floats = values.as_primitive::<Float64Type>();
            floats.iter().map(|n| n.map(f64::to_bits)).collect()
        };
        let nan = Some(f64::NAN.to_bits());
        let expected = vec![
            Some(1.0f64.to_bits()),
            nan,
            None,
            nan,
            Some((-0.0f64).to_bits()),
        ];
        let floats: ArrayRef = Arc::new(Float64Array::from(values));
        let one = with_one_nan(Arc::clone(&floats));
        assert_eq!(bits(&one), expected);
        assert!(Arc::ptr_eq(&one, &with_one_nan(Arc::clone(&one))) || bits(&one) == expected);
        let words = Arc::clone(&floats);
        let dictionary = DictionaryArray::new(Int8Array::from(vec![4, 0, 1]), words);
        let one = with_one_nan(Arc::new(dictionary));
        assert_eq!(bits(one.as_any_dictionary().values()), expected);
        let item = Arc::new(Field::new("item", DataType::Float64, true));
        let offsets = OffsetBuffer::from_lengths([2, 0, 3]);
        let lists = ListArray::new(item, offsets, Arc::clone(&floats), None);
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(
            Arc::new(Field::new("of", lists.data_type().clone(), true)),
            Arc::new(lists) as ArrayRef,
        )]));
        // Without the first list, so that offsets count.
        let one = with_one_nan(structs.slice(1, 2));
        let lists = one.as_struct().column(0).as_list::<i32>();
        assert_eq!((lists.len(), lists.value_length(0)), (2, 0));
        assert_eq!(bits(&lists.value(1)), expected[2..]);
        let plain: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, f64::INFINITY]));
        assert!(Arc::ptr_eq(&plain, &with_one_nan(Arc::clone(&plain))));
    }
}
