//! Parts of PostgreSQL's statements that the engine does not know, in its words.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, CreateTable, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, SelectItem, SetExpr,
    Statement, TableFactor, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Columns of the catalog with the positions of the columns of keys. No table has an index here, so
/// the tables of these columns are empty, and whatever is made of them is never evaluated.
const OF_KEYS: [&str; 6] = [
    "indkey",
    "indclass",
    "indoption",
    "indcollation",
    "conkey",
    "confkey",
];

/// Words that PostgreSQL takes for names of columns, and the engine's parser for parts of a table.
const NAMES: [&str; 4] = ["index", "key", "spatial", "fulltext"];

/// Changes what the engine would not understand or refuse.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut Rewriting);
    if let Statement::CreateTable(CreateTable { columns, .. }) = statement {
        let named = |word: &str| NAMES.iter().any(|name| word.eq_ignore_ascii_case(name));
        for column in columns {
            if column.name.quote_style.is_none() && named(&column.name.value) {
                column.name.value = column.name.value.to_lowercase();
                column.name.quote_style = Some('"');
            }
        }
    }
}

struct Rewriting;

impl VisitorMut for Rewriting {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if expands_keys(function) => {
                *expr = null_of(DataType::SmallInt(None));
            }
            Expr::Subquery(query) if is_never_asked(query) => *expr = null_of(DataType::Text),
            // Options of tables, of which there are none.
            Expr::CompoundIdentifier(names)
                if names.last().is_some_and(|name| name.value == "reloptions") =>
            {
                *expr = null_of(DataType::Text);
            }
            Expr::Like {
                pattern,
                escape_char,
                ..
            }
            | Expr::ILike {
                pattern,
                escape_char,
                ..
            } => escaped_by_backslash(pattern, escape_char),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether a function makes rows of the positions of the columns of keys.
fn expands_keys(function: &Function) -> bool {
    let name = last(&function.name);
    if !["unnest", "generate_subscripts"].contains(&name.as_str()) {
        return false;
    }
    let FunctionArguments::List(arguments) = &function.args else {
        return false;
    };
    match arguments.args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => match expr {
            Expr::Identifier(name) => of_keys(&name.value),
            Expr::CompoundIdentifier(names) => names.last().is_some_and(|n| of_keys(&n.value)),
            _ => false,
        },
        _ => false,
    }
}

fn of_keys(name: &str) -> bool {
    OF_KEYS.contains(&name.to_lowercase().as_str())
}

fn last(name: &ObjectName) -> String {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.map(|ident| ident.value.to_lowercase())
        .unwrap_or_default()
}

/// Whether a subquery asks for the sequence or the default of a column in a table of the catalog
/// that is empty here, or for a collation that is not that of the column's type, which no column
/// has. The engine has no subqueries of that form.
fn is_never_asked(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let tables = select.from.iter().map(|from| &from.relation);
    tables.into_iter().any(|table| match table {
        TableFactor::Table { name, .. } => {
            let collation = select.projection.iter().any(|item| match item {
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names
                    .last()
                    .is_some_and(|name| name.value == "typcollation"),
                _ => false,
            });
            match last(name).as_str() {
                "pg_sequence" | "pg_collation" | "pg_attrdef" => true,
                "pg_type" => collation,
                _ => false,
            }
        }
        _ => false,
    })
}

fn null_of(data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::Null.into())),
        data_type,
        array: false,
        format: None,
    }
}

/// Patterns of LIKE with `ESCAPE` and another character than the backslash.
fn escaped_by_backslash(pattern: &mut Expr, escape: &mut Option<ValueWithSpan>) {
    let Some(Value::SingleQuotedString(text)) = escape.as_ref().map(|value| &value.value) else {
        return;
    };
    let mut chars = text.chars();
    let (Some(by), None) = (chars.next(), chars.next()) else {
        return;
    };
    if by == '\\' {
        return;
    }
    let mut changed = pattern.clone();
    *pattern = match backslashes(&mut changed, by) {
        Some(()) => changed,
        None => computed(pattern.clone(), by),
    };
    *escape = None;
}

/// The same pattern with backslashes, made of one that is only known when the statement runs.
fn computed(pattern: Expr, by: char) -> Expr {
    // A character that no pattern has stands for one that escaped itself.
    const ITSELF: &str = "\u{1}";
    let twice = String::from_iter([by, by]);
    let by = by.to_string();
    let steps = [
        ("\\", "\\\\"),
        (twice.as_str(), ITSELF),
        (by.as_str(), "\\"),
        (ITSELF, by.as_str()),
    ];
    steps.into_iter().fold(pattern, |pattern, (from, to)| {
        let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
        call("replace", [pattern, text(from), text(to)])
    })
}

fn call<const N: usize>(name: &str, arguments: [Expr; N]) -> Expr {
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

/// Puts backslashes into a pattern; `None` for one that is not made of whole literals.
fn backslashes(pattern: &mut Expr, by: char) -> Option<()> {
    match pattern {
        Expr::Nested(inner) => backslashes(inner, by),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::StringConcat,
            right,
        } => {
            backslashes(left, by)?;
            backslashes(right, by)
        }
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }) => {
            let mut changed = String::new();
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                match c {
                    // What it escapes may be in the next literal.
                    c if c == by => changed.extend(['\\', chars.next()?]),
                    '\\' => changed.push_str("\\\\"),
                    c => changed.push(c),
                }
            }
            *text = changed;
            Some(())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn rewritten(text: &str) -> String {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text);
        let mut statement = parsed.unwrap().remove(0);
        rewrite(&mut statement);
        statement.to_string()
    }

    #[test]
    fn patterns_mean_the_same_with_backslashes() {
        for (text, expected) in [
            (
                r"SELECT a LIKE 'x/_\' || '%' ESCAPE '/'",
                r"SELECT a LIKE 'x\_\\' || '%'",
            ),
            (
                r"SELECT a NOT ILIKE '##%' ESCAPE '#'",
                r"SELECT a NOT ILIKE '\#%'",
            ),
            (
                "SELECT a LIKE b ESCAPE '/'",
                "SELECT a LIKE replace(replace(replace(replace(b, '\\', '\\\\'), '//', '\u{1}'), '/', '\\'), '\u{1}', '/')",
            ),
            (
                r"SELECT a LIKE 'x\_' ESCAPE '\'",
                r"SELECT a LIKE 'x\_' ESCAPE '\'",
            ),
        ] {
            assert_eq!(rewritten(text), expected);
        }
    }

    #[test]
    fn columns_of_keys_and_names_are_understood_and_others_left_alone() {
        assert_eq!(
            rewritten("SELECT unnest(pg_index.indkey), generate_subscripts(indkey, 1), unnest(a)"),
            "SELECT CAST(NULL AS SMALLINT), CAST(NULL AS SMALLINT), unnest(a)"
        );
        assert_eq!(
            rewritten("SELECT a, (SELECT x FROM pg_catalog.pg_sequence WHERE y = a), (SELECT 1)"),
            "SELECT a, CAST(NULL AS TEXT), (SELECT 1)"
        );
        assert_eq!(
            rewritten("CREATE TABLE t (Index BIGINT, a INT)"),
            "CREATE TABLE t (\"index\" BIGINT, a INT)"
        );
    }
}
