//! Parts of statements that are looked for and made.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Value,
};

/// The last part of a name, in lower case.
pub(super) fn last(name: &ObjectName) -> String {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.map(|ident| ident.value.to_lowercase())
        .unwrap_or_default()
}

/// What a condition says that a column is equal to.
pub(super) fn equal_to(condition: &Expr, column: &str) -> Option<Expr> {
    let Expr::BinaryOp { left, op, right } = condition else {
        return match condition {
            Expr::Nested(inner) => equal_to(inner, column),
            _ => None,
        };
    };
    match op {
        BinaryOperator::And => equal_to(left, column).or_else(|| equal_to(right, column)),
        BinaryOperator::Eq if is_column(left, column) => Some(right.as_ref().clone()),
        BinaryOperator::Eq if is_column(right, column) => Some(left.as_ref().clone()),
        _ => None,
    }
}

pub(super) fn is_column(expr: &Expr, column: &str) -> bool {
    name_of(expr).is_some_and(|name| name.eq_ignore_ascii_case(column))
}

/// The name of a column, without that of its table.
pub(super) fn name_of(expr: &Expr) -> Option<&str> {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    name.map(|name| name.value.as_str())
}

/// No texts.
pub(super) fn list_of_none() -> Expr {
    let texts = ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None);
    null_of(DataType::Array(texts))
}

pub(super) fn call<const N: usize>(name: &str, arguments: [Expr; N]) -> Expr {
    let unnamed = |argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument));
    Expr::Function(Function {
        name: Ident::new(name).into(),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.into_iter().map(unnamed).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// NULL of a type.
pub(super) fn null_of(data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::Null.into())),
        data_type,
        array: false,
        format: None,
    }
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }))
}

pub(super) fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}

pub(super) fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}
