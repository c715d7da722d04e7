//! Arithmetic of constants.

use super::{computes, is_arithmetic};
use crate::constants::evaluated;
use crate::rewrite_expressions;
use arrow::array::new_empty_array;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Makes constants of integers that leave their type fail when a row asks for them.
///
/// The simplifier of DataFusion 55 wraps around too, and it runs before there are operators. An
/// error right away would be wrong: `CASE` may never ask. The rule must run before the simplifier.
#[derive(Debug, Default)]
pub(crate) struct CheckedConstants;

impl OptimizerRule for CheckedConstants {
    fn name(&self) -> &str {
        "tierloom_checked_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        rewrite_expressions(plan, computes, |expr| {
            Ok(match expr {
                Expr::BinaryExpr(binary) if binary.op.supports_propagation() => negated(binary),
                other => constant(other),
            })
        })
    }
}

/// Compares `x` with the negated constant in the place of `-x` with the constant: the smallest
/// value of a type has no opposite, and need not have one to be compared.
fn negated(binary: BinaryExpr) -> Transformed<Expr> {
    let BinaryExpr { left, op, right } = binary;
    let (Expr::Negative(inner), Some(swapped)) = (&*left, op.swap()) else {
        return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }));
    };
    let opposite = operand(&right).and_then(|value| value.arithmetic_negate().ok());
    match opposite {
        Some(value) => {
            let value = Box::new(Expr::Literal(value, None));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
                inner.clone(),
                swapped,
                value,
            )))
        }
        None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    }
}

/// The value of an integer expression whose operands are constants.
fn constant(expr: Expr) -> Transformed<Expr> {
    let result = match &expr {
        Expr::BinaryExpr(binary) if is_arithmetic(binary.op) => {
            let operands = operand(&binary.left).zip(operand(&binary.right));
            operands.map(|(left, right)| match binary.op {
                Operator::Plus => (left.add_checked(&right), left),
                Operator::Minus => (left.sub_checked(&right), left),
                _ => (left.mul_checked(&right), left),
            })
        }
        Expr::Negative(inner) => operand(inner).map(|value| (value.arithmetic_negate(), value)),
        _ => None,
    };
    match result {
        None => Transformed::no(expr),
        Some((Ok(value), _)) => Transformed::yes(Expr::Literal(value, None)),
        Some((Err(_), like)) => {
            let failing = Overflow::new(expr.to_string(), like.data_type());
            Transformed::yes(ScalarUDF::new_from_impl(failing).call(Vec::new()))
        }
    }
}

/// The value of a constant integer operand.
fn operand(expr: &Expr) -> Option<ScalarValue> {
    let is_short = match expr {
        // Operands of arithmetic are literals by now: expressions are rewritten from their leaves.
        Expr::Literal(..) | Expr::ScalarFunction(_) => true,
        Expr::Cast(cast) => matches!(&*cast.expr, Expr::Literal(..)),
        _ => false,
    };
    let value = is_short.then(|| evaluated(expr)).flatten();
    value.filter(|value| value.data_type().is_integer())
}

/// A constant that its type cannot hold: an error where a row asks for it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Overflow {
    text: String,
    data_type: DataType,
    signature: Signature,
}

impl Overflow {
    fn new(text: String, data_type: DataType) -> Self {
        Overflow {
            text,
            data_type,
            // Anything else would be evaluated while planning.
            signature: Signature::nullary(Volatility::Volatile),
        }
    }
}

impl ScalarUDFImpl for Overflow {
    fn name(&self) -> &str {
        "overflow"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if arguments.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.data_type)));
        }
        exec_err!(
            "Arithmetic overflow: {} is not in {}",
            self.text,
            self.data_type
        )
    }
}
