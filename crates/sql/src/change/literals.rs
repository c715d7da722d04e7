//! Numbers of a statement with all their digits.
//!
//! DataFusion reads a number with a point as a double, which keeps 15 digits of it; a number on
//! its way into a decimal or whole column is taken as it is written.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr, UnaryOperator, Value,
};

/// Digits of the longest decimal that DataFusion casts text to.
const MOST_DIGITS: usize = 38;

/// A literal on its way into a column of this type; other expressions stay as they are.
pub(super) fn exact(value: Expr, data_type: &DataType) -> Expr {
    let whole = data_type.is_integer();
    if !whole && !data_type.is_decimal() {
        return value;
    }
    let Some(text) = number(&value) else {
        return value;
    };
    if !whole {
        return Expr::Value(Value::SingleQuotedString(text).into());
    }
    match decimal_type(&text) {
        Some(exact) => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(Expr::Value(Value::SingleQuotedString(text).into())),
            data_type: SqlType::Decimal(exact),
            array: false,
            format: None,
        },
        None => value,
    }
}

/// The text of a number with or without a sign.
fn number(value: &Expr) -> Option<String> {
    match value {
        Expr::Nested(inner) => number(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits.clone()),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => number(expr)
            .filter(|text| !text.starts_with('-'))
            .map(|text| format!("-{text}")),
        Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr,
        } => number(expr),
        _ => None,
    }
}

/// The decimal that holds a number with a point; `None` for others and for those with too many
/// digits.
fn decimal_type(text: &str) -> Option<ExactNumberInfo> {
    let (before, after) = text.trim_start_matches('-').split_once('.')?;
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let most = before.len() + after.len();
    if !digits(before) || !digits(after) || most > MOST_DIGITS {
        return None;
    }
    let places = i64::try_from(after.len()).ok()?;
    Some(ExactNumberInfo::PrecisionAndScale(
        MOST_DIGITS as u64,
        places,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn made(text: &str, data_type: &DataType) -> String {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap();
        exact(parser.parse_expr().unwrap(), data_type).to_string()
    }

    #[test]
    fn numbers_keep_their_digits_and_expressions_stay() {
        let decimal = DataType::Decimal128(38, 4);
        assert_eq!(
            made("-1.0000000000000000001", &decimal),
            "'-1.0000000000000000001'"
        );
        assert_eq!(made("1.5 + 1", &decimal), "1.5 + 1");
        assert_eq!(made("1.5", &DataType::Float64), "1.5");
        assert_eq!(
            made("2.5", &DataType::Int32),
            "CAST('2.5' AS DECIMAL(38,1))"
        );
        assert_eq!(made("25", &DataType::Int32), "25");
        assert_eq!(
            made("(2.5)", &DataType::Int32),
            "CAST('2.5' AS DECIMAL(38,1))"
        );
        assert_eq!(made("1e3", &DataType::Int32), "1e3");
        assert_eq!(made("5 - -2.5", &DataType::Int32), "5 - -2.5");
    }
}
