//! Prepared statements with the parameters of an `EXECUTE`.

use datafusion::logical_expr::{LogicalPlan, Statement as Planned};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Statement as Ast, Value, visit_expressions, visit_expressions_mut,
};
use std::ops::ControlFlow;

/// The name of the prepared statement that `logical` executes.
pub(super) fn executes(logical: &LogicalPlan) -> Option<&str> {
    match logical {
        LogicalPlan::Statement(Planned::Execute(execute)) => Some(&execute.name),
        _ => None,
    }
}

/// The query of the statement `prepare` with the parameters of the statement `execute` in the place
/// of `$1`, `$2` and so on.
///
/// DataFusion 55 casts a parameter to the type that its planner took when the statement was
/// prepared: beside an integer column, 2.5 became 2. In a query each is compared as what it is,
/// unless `PREPARE` gives it a type. `None` for what DataFusion refuses, such as too few
/// parameters, and for statements without rows.
pub(super) fn with_parameters(prepare: &Parsed, execute: &Parsed) -> Option<Parsed> {
    let (Parsed::Statement(prepare), Parsed::Statement(execute)) = (prepare, execute) else {
        return None;
    };
    let Ast::Prepare {
        data_types,
        statement,
        ..
    } = &**prepare
    else {
        return None;
    };
    let Ast::Execute {
        parameters,
        immediate: false,
        into,
        using,
        ..
    } = &**execute
    else {
        return None;
    };
    let is_plain = into.is_empty() && using.is_empty() && matches!(**statement, Ast::Query(_));
    let typed = data_types.is_empty() || data_types.len() == parameters.len();
    if !is_plain || !typed || placeholders(statement)? != parameters.len() {
        return None;
    }
    let mut statement = statement.clone();
    let _ = visit_expressions_mut(&mut statement, |expr| {
        if let Some(place) = place(expr) {
            let value = parameters[place - 1].clone();
            *expr = match data_types.get(place - 1) {
                Some(field) => Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(value),
                    data_type: field.clone(),
                    array: false,
                    format: None,
                },
                None => Expr::Nested(Box::new(value)),
            };
        }
        ControlFlow::<()>::Continue(())
    });
    Some(Parsed::Statement(statement))
}

/// The largest n of `$n`; `None` if a placeholder is of another kind.
fn placeholders(statement: &Ast) -> Option<usize> {
    let mut most = 0;
    let visited = visit_expressions(statement, |expr| {
        if is_placeholder(expr) {
            match place(expr) {
                Some(place) => most = most.max(place),
                None => return ControlFlow::Break(()),
            }
        }
        ControlFlow::Continue(())
    });
    visited.is_continue().then_some(most)
}

fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

/// The n of `$n`, from 1.
fn place(expr: &Expr) -> Option<usize> {
    let Expr::Value(value) = expr else {
        return None;
    };
    let Value::Placeholder(name) = &value.value else {
        return None;
    };
    let place = name.strip_prefix('$')?.parse().ok()?;
    (place > 0).then_some(place)
}
