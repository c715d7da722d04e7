//! Prepared statements with the parameters of an `EXECUTE`.

use super::error::SqlError;
use super::parameters::number_of;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{LogicalPlan, Statement as Planned};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Statement as Ast, TimezoneInfo, Value,
};
use std::ops::ControlFlow;
use tierloom_corrections::Syntax;

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
/// parameters, and for other statements than queries and changes.
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
    let is_plain = into.is_empty()
        && using.is_empty()
        && matches!(
            **statement,
            Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_)
        );
    let typed = data_types.is_empty() || data_types.len() == parameters.len();
    if !is_plain || !typed || placeholders(statement)? != parameters.len() {
        return None;
    }
    let mut statement = statement.clone();
    let _ = statement.change_expressions(&mut |expr| {
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
        ControlFlow::Continue(())
    });
    Some(Parsed::Statement(statement))
}

/// The number of parameters of a statement: the largest n of `$n`.
pub(super) fn parameters_of(parsed: &Parsed) -> usize {
    match parsed {
        Parsed::Statement(ast) => placeholders(ast).unwrap_or(0),
        _ => 0,
    }
}

/// The text of a statement with literals in the place of `$1`, `$2` and so on.
pub(super) fn filled_in(parsed: Parsed, values: &[ScalarValue]) -> Result<String, SqlError> {
    let Parsed::Statement(mut statement) = parsed else {
        return Err(SqlError::input("this statement takes no parameters"));
    };
    let mut failed = None;
    let _ = statement.change_expressions(&mut |expr| {
        let Some(place) = place(expr) else {
            return ControlFlow::Continue(());
        };
        match values.get(place - 1).map(literal) {
            Some(Ok(value)) => *expr = value,
            Some(Err(error)) => failed = Some(error),
            None => failed = Some(SqlError::input(format!("there is no value for ${place}"))),
        }
        ControlFlow::Continue(())
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(statement.to_string()),
    }
}

/// A value as the text of its type; only types that a client can bind.
fn literal(value: &ScalarValue) -> Result<Expr, SqlError> {
    let quoted = |text: &str| Value::SingleQuotedString(text.replace('\'', "''"));
    let plain = |value: Value| Expr::Value(value.into());
    if value.is_null() {
        return Ok(plain(Value::Null));
    }
    let (text, kind) = match value {
        ScalarValue::Boolean(Some(it)) => return Ok(plain(Value::Boolean(*it))),
        ScalarValue::Utf8(Some(it))
        | ScalarValue::LargeUtf8(Some(it))
        | ScalarValue::Utf8View(Some(it)) => {
            return Ok(plain(quoted(it)));
        }
        ScalarValue::Dictionary(_, it) => return literal(it),
        ScalarValue::Int8(_)
        | ScalarValue::Int16(_)
        | ScalarValue::Int32(_)
        | ScalarValue::Int64(_)
        | ScalarValue::UInt8(_)
        | ScalarValue::UInt16(_)
        | ScalarValue::UInt32(_) => (value.to_string(), DataType::BigInt(None)),
        ScalarValue::UInt64(_) => {
            let exact = ExactNumberInfo::PrecisionAndScale(20, 0);
            (value.to_string(), DataType::Decimal(exact))
        }
        ScalarValue::Float32(_) | ScalarValue::Float64(_) => {
            (value.to_string(), DataType::DoublePrecision)
        }
        ScalarValue::Decimal128(_, precision, scale) => {
            let exact = ExactNumberInfo::PrecisionAndScale((*precision).into(), (*scale).into());
            (text_of(value)?, DataType::Decimal(exact))
        }
        ScalarValue::Date32(_) => (text_of(value)?, DataType::Date),
        ScalarValue::TimestampMicrosecond(_, None) | ScalarValue::TimestampNanosecond(_, None) => (
            text_of(value)?,
            DataType::Timestamp(None, TimezoneInfo::None),
        ),
        other => {
            return Err(SqlError::input(format!(
                "a parameter of type {} can only be used in a query",
                other.data_type()
            )));
        }
    };
    Ok(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(plain(quoted(&text))),
        data_type: kind,
        array: false,
        format: None,
    })
}

fn text_of(value: &ScalarValue) -> Result<String, SqlError> {
    let text = value.cast_to(&arrow::datatypes::DataType::Utf8);
    text.map(|text| text.to_string())
        .map_err(|e| SqlError::planning(&e))
}

/// The largest n of `$n`; `None` if a placeholder is of another kind.
fn placeholders(statement: &Ast) -> Option<usize> {
    let mut most = 0;
    let visited = statement.each_expression(&mut |expr| {
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
    number_of(name)
}
