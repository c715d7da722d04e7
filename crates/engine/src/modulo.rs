//! `mod(a, b)`, as other databases call the operator `%`.

use arrow::compute::kernels::numeric::rem;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, binary_expr,
};
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// The function for a session.
pub(crate) fn modulo() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Modulo {
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Modulo {
    signature: Signature,
}

impl Modulo {
    fn types(types: &[DataType]) -> Result<BinaryTypeCoercer<'_>> {
        match types {
            [left, right] => Ok(BinaryTypeCoercer::new(left, &Operator::Modulo, right)),
            _ => plan_err!("mod has two arguments, and not {}", types.len()),
        }
    }
}

impl ScalarUDFImpl for Modulo {
    fn name(&self) -> &str {
        "mod"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (left, right) = Self::types(types)?.get_input_types()?;
        Ok(vec![left, right])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Self::types(types)?.get_result_type()
    }

    // The rules know the operator.
    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let (Some(right), Some(left)) = (args.pop(), args.pop()) else {
            return plan_err!("mod has two arguments");
        };
        let rest = binary_expr(left, Operator::Modulo, right);
        Ok(ExprSimplifyResult::Simplified(rest))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else {
            return plan_err!("mod has two arguments");
        };
        apply(left, right, rem)
    }
}
