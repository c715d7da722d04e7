//! SQL text to a syntax tree, with operators that bind as tightly as SQL says.

use super::output_order::OutputOrder;
use super::select_names::SelectNames;
use super::syntax::Syntax;
use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, VisitorMut};
use std::mem;
use std::ops::ControlFlow;

/// Parses one statement in the dialect of the session.
///
/// # Errors
/// DataFusion's, if the text is not one statement.
pub fn statement(state: &SessionState, sql: &str) -> Result<Statement> {
    let dialect = state.config_options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(sql, &dialect)?;
    // Only statements with these words can be wrong.
    if sql.to_ascii_uppercase().contains("DISTINCT") {
        correct(&mut statement, &mut TighterBinding);
    }
    correct(&mut statement, &mut OutputOrder::new(state));
    correct(&mut statement, &mut SelectNames::new(state));
    Ok(statement)
}

/// Shows all of a statement that is a query, or has one, to `correction`.
fn correct(statement: &mut Statement, correction: &mut dyn VisitorMut<Break = ()>) {
    // It never breaks.
    let _ = match statement {
        Statement::Statement(inner) => inner.change(correction),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.change(correction),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => {
            correct(&mut explain.statement, correction);
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Continue(()),
    };
}

/// Corrects what `IS [NOT] DISTINCT FROM` compares with.
///
/// The parser of DataFusion 55 takes all that follows for the right side: it reads `a IS DISTINCT
/// FROM b AND c` as `a IS DISTINCT FROM (b AND c)`.
struct TighterBinding;

impl VisitorMut for TighterBinding {
    type Break = ();

    // From the leaves to the root: what is moved out of a comparison may have to be moved out of
    // the operators above it as well.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        regroup(expr);
        ControlFlow::Continue(())
    }
}

/// Makes `x OP (y AND z)` into `(x OP y) AND z` if there are no brackets in the text and OP binds
/// tighter; likewise for OR and for NOT.
fn regroup(expr: &mut Expr) {
    let limit = match expr {
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => u8::MAX,
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            ..
        } => u8::MAX,
        Expr::BinaryOp { op, .. } => tightness(op).unwrap_or(0),
        _ => return,
    };
    let (Expr::IsDistinctFrom(_, right)
    | Expr::IsNotDistinctFrom(_, right)
    | Expr::UnaryOp { expr: right, .. }
    | Expr::BinaryOp { right, .. }) = expr
    else {
        return;
    };
    if !is_looser(right, limit) {
        return;
    }
    let mut whole = mem::replace(&mut **right, nothing());
    let mut first = &mut whole;
    while is_looser(first, limit)
        && let Expr::BinaryOp { left, .. } = first
    {
        first = &mut **left;
    }
    // `expr` gets the first operand back, and takes its place.
    if let Expr::IsDistinctFrom(_, right)
    | Expr::IsNotDistinctFrom(_, right)
    | Expr::UnaryOp { expr: right, .. }
    | Expr::BinaryOp { right, .. } = expr
    {
        **right = mem::replace(first, nothing());
    }
    *first = mem::replace(expr, nothing());
    *expr = whole;
}

/// Whether `expr` is an AND or OR, without brackets, of less tightness than `limit`.
fn is_looser(expr: &Expr, limit: u8) -> bool {
    match expr {
        Expr::BinaryOp { op, .. } => tightness(op).is_some_and(|tightness| tightness < limit),
        _ => false,
    }
}

/// How tightly the logical operators bind that are looser than comparisons.
fn tightness(op: &BinaryOperator) -> Option<u8> {
    match op {
        BinaryOperator::Or => Some(1),
        BinaryOperator::And => Some(2),
        _ => None,
    }
}

/// An expression that is replaced at once.
fn nothing() -> Expr {
    Expr::Tuple(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;

    /// The condition of a query, with all brackets.
    fn read(condition: &str) -> String {
        let state = SessionContext::new().state();
        let sql = format!("SELECT {condition}");
        let parsed = statement(&state, &sql).unwrap();
        let Statement::Statement(mut parsed) = parsed else {
            panic!("{parsed}");
        };
        let _ = parsed.change_expressions(&mut |expr| {
            if matches!(expr, Expr::BinaryOp { .. } | Expr::UnaryOp { .. })
                || matches!(expr, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..))
            {
                let inner = mem::replace(expr, nothing());
                *expr = Expr::Nested(Box::new(inner));
            }
            ControlFlow::Continue(())
        });
        parsed.to_string().replace("SELECT ", "")
    }

    #[test]
    fn distinct_from_binds_as_tightly_as_other_comparisons() {
        for (text, right) in [
            (
                "a IS DISTINCT FROM b AND c",
                "((a IS DISTINCT FROM b) AND c)",
            ),
            (
                "a IS NOT DISTINCT FROM b OR c",
                "((a IS NOT DISTINCT FROM b) OR c)",
            ),
            (
                "x AND a IS DISTINCT FROM b OR c",
                "((x AND (a IS DISTINCT FROM b)) OR c)",
            ),
            (
                "x OR a IS DISTINCT FROM b AND c OR d",
                "(x OR (((a IS DISTINCT FROM b) AND c) OR d))",
            ),
            (
                "NOT a IS DISTINCT FROM b AND c",
                "((NOT (a IS DISTINCT FROM b)) AND c)",
            ),
            (
                "a IS DISTINCT FROM b + 1 AND c IS DISTINCT FROM d OR e",
                "(((a IS DISTINCT FROM (b + 1)) AND (c IS DISTINCT FROM d)) OR e)",
            ),
            (
                "a IS DISTINCT FROM (b AND c)",
                "(a IS DISTINCT FROM ((b AND c)))",
            ),
            ("NOT (a AND b) OR c", "((NOT ((a AND b))) OR c)"),
        ] {
            assert_eq!(read(text), right, "{text}");
        }
    }

    #[test]
    fn conditions_without_it_stay_as_they_are_read() {
        for (text, right) in [
            ("DISTINCT a AND b OR c", "DISTINCT ((a AND b) OR c)"),
            ("DISTINCT a OR b AND c", "DISTINCT (a OR (b AND c))"),
            ("DISTINCT NOT a AND NOT b", "DISTINCT ((NOT a) AND (NOT b))"),
            (
                "DISTINCT a = b OR - c < d",
                "DISTINCT ((a = b) OR ((-c) < d))",
            ),
        ] {
            assert_eq!(read(text), right, "{text}");
        }
    }
}
