//! Values of expressions that depend on no row.

use crate::walk::Walk;
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Case, Expr, Volatility, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

/// The value of an expression; `None` if it depends on more than its text.
pub(super) fn evaluated(expr: &Expr) -> Option<ScalarValue> {
    // The usual forms, of which a list may have very many.
    match expr {
        Expr::Literal(value, _) => return Some(value.clone()),
        Expr::Cast(cast) if matches!(&*cast.expr, Expr::Literal(..)) => {
            let value = evaluated(&cast.expr)?;
            return value.cast_to(cast.field.data_type()).ok();
        }
        _ => {}
    }
    let depends = expr.has(&mut |expr| {
        Ok(match expr {
            Expr::ScalarFunction(function) => {
                function.func.signature().volatility != Volatility::Immutable
            }
            Expr::Literal(..) | Expr::Cast(_) | Expr::BinaryExpr(_) | Expr::Negative(_) => false,
            _ => true,
        })
    });
    if depends.unwrap_or(true) {
        return None;
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    match simplifier.simplify(expr.clone()) {
        Ok(Expr::Literal(value, _)) => Some(value),
        _ => None,
    }
}

/// The expression as DataFusion simplifies it; what cannot be simplified fails when it runs.
pub(super) fn simplified(expr: &Expr, schema: &DFSchemaRef) -> Expr {
    let context = SimplifyContext::builder().with_schema(Arc::clone(schema));
    let simplifier = ExprSimplifier::new(context.build());
    simplifier
        .simplify(expr.clone())
        .unwrap_or_else(|_| expr.clone())
}

/// NULL where `value` is NULL, `otherwise` everywhere else.
pub(super) fn null_else(value: Expr, otherwise: bool) -> Expr {
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    let branches = vec![(Box::new(value.is_null()), Box::new(null))];
    Expr::Case(Case::new(None, branches, Some(Box::new(lit(otherwise)))))
}
