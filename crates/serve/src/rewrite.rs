//! Parts of PostgreSQL's statements that the engine does not know, in its words.

use super::information::Information;
use super::syntax::{binary, call, is_column, last, list_of_none, name_of, null_of, number, text};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CreateTable, DataType, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, ObjectNamePart, Query, SelectItem, SetExpr,
    Statement, Subscript, TableFactor, Value, ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;
use tierloom_corrections::Syntax;

/// Functions that give a row for each element; the engine's give lists of them.
const OF_ELEMENTS: [&str; 2] = ["generate_subscripts", "_pg_expandarray"];

/// Words that PostgreSQL takes for names of columns, and the engine's parser for parts of a table.
const NAMES: [&str; 4] = ["index", "key", "spatial", "fulltext"];

/// Tables of the catalog that the parser of the catalog's crate does not know by name alone.
const NOT_QUALIFIED: [&str; 3] = ["pg_user", "pg_locks", "pg_available_extensions"];

/// Changes what the engine would not understand or refuse.
pub(super) fn rewrite(statement: &mut Statement, information: &Information) {
    let mut of_catalog = false;
    let _ = statement.each_relation(&mut |name| {
        of_catalog |= last(name).starts_with("pg_");
        ControlFlow::Continue(())
    });
    let _ = statement.change(&mut Rewriting {
        information,
        of_catalog,
    });
    if let Statement::CreateTable(CreateTable { columns, .. }) = statement {
        let named = |word: &str| NAMES.iter().any(|name| word.eq_ignore_ascii_case(name));
        for column in columns {
            keep_as_text(&mut column.data_type);
            if column.name.quote_style.is_none() && named(&column.name.value) {
                column.name.value = column.name.value.to_lowercase();
                column.name.quote_style = Some('"');
            }
        }
    }
}

struct Rewriting<'a> {
    information: &'a Information,
    /// Whether the statement reads the system catalog: others may have columns of the same names.
    of_catalog: bool,
}

impl VisitorMut for Rewriting<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.information.replace(factor);
        if let TableFactor::Table { name, .. } = factor
            && let [ObjectNamePart::Identifier(one)] = name.0.as_slice()
            && NOT_QUALIFIED.contains(&one.value.to_lowercase().as_str())
        {
            let schema = ObjectNamePart::Identifier(Ident::new("pg_catalog"));
            name.0.insert(0, schema);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.information.shorten(expr);
        if self.of_catalog {
            in_catalog(expr);
        }
        match expr {
            Expr::Cast { data_type, .. } => keep_as_text(data_type),
            Expr::Function(function) if gives_elements(function) => {
                let from_zero = counts_from_zero(function);
                let elements = call("unnest", [expr.clone()]);
                *expr = match from_zero {
                    true => binary(elements, BinaryOperator::Minus, number("1")),
                    false => elements,
                };
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                if let Some(field) = field_of(root, access_chain) {
                    *expr = field;
                }
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

/// Types that the engine does not have are texts here.
fn keep_as_text(data_type: &mut DataType) {
    if let DataType::Uuid | DataType::JSON | DataType::JSONB = data_type {
        *data_type = DataType::Text;
    }
}

/// Changes what only statements about the catalog have.
fn in_catalog(expr: &mut Expr) {
    match expr {
        Expr::Subquery(query) if is_never_asked(query) => *expr = null_of(DataType::Text),
        Expr::CompoundFieldAccess { root, access_chain } => count_from_one(root, access_chain),
        Expr::Function(function) if joins_rights(function) => *expr = null_of(DataType::Text),
        Expr::BinaryOp { left, op, right } if is_comparison(op) => {
            true_or_false(left, right);
            true_or_false(right, left);
        }
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => match name_of(expr) {
            // Versions of rows, which have no history, and the tables that they are in.
            Some("xmin") => *expr = number("1"),
            Some("tableoid") => *expr = number("0"),
            // Options and rights of tables, of which there are none.
            Some("reloptions" | "relacl") => *expr = list_of_none(),
            _ => {}
        },
        _ => {}
    }
}

/// Whether a function makes a row of each element.
fn gives_elements(function: &Function) -> bool {
    OF_ELEMENTS.contains(&last(&function.name).as_str())
}

/// Whether a function makes a text of a list of rights or settings, which is NULL in all rows.
fn joins_rights(function: &Function) -> bool {
    let FunctionArguments::List(arguments) = &function.args else {
        return false;
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = arguments.args.first() else {
        return false;
    };
    let is_none = |name: &str| name.ends_with("acl") || name == "setconfig";
    last(&function.name) == "array_to_string" && name_of(first).is_some_and(is_none)
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq)
}

/// `'t'` or `'f'` beside a column of indexes that is true or false.
fn true_or_false(column: &Expr, literal: &mut Expr) {
    let is_flag = name_of(column).is_some_and(|name| name.starts_with("indis"));
    let Expr::Value(value) = literal else {
        return;
    };
    if let (true, Value::SingleQuotedString(text)) = (is_flag, &value.value) {
        match text.as_str() {
            "t" | "true" => value.value = Value::Boolean(true),
            "f" | "false" => value.value = Value::Boolean(false),
            _ => {}
        }
    }
}

/// Columns whose elements PostgreSQL counts from 0, unlike those of lists.
const FROM_ZERO: [&str; 5] = [
    "indkey",
    "indoption",
    "indclass",
    "indcollation",
    "i_indoption",
];

fn is_from_zero(expr: &Expr) -> bool {
    FROM_ZERO.iter().any(|column| is_column(expr, column))
}

/// Whether a function gives positions in a column that is counted from 0.
fn counts_from_zero(function: &Function) -> bool {
    let FunctionArguments::List(arguments) = &function.args else {
        return false;
    };
    match arguments.args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => {
            last(&function.name) == "generate_subscripts" && is_from_zero(expr)
        }
        _ => false,
    }
}

/// Counts elements of such a column as the engine does.
fn count_from_one(root: &Expr, chain: &mut [AccessExpr]) {
    let (column, access) = match chain {
        [access] => (root, access),
        [AccessExpr::Dot(column), access] => (&*column, access),
        _ => return,
    };
    if let AccessExpr::Subscript(Subscript::Index { index }) = access
        && is_from_zero(column)
    {
        *index = binary(index.clone(), BinaryOperator::Plus, number("1"));
    }
}

/// `(pair).name` in the engine's words.
fn field_of(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let (Expr::Nested(inner), [AccessExpr::Dot(Expr::Identifier(name))]) = (root, chain) else {
        return None;
    };
    let name = text(&name.value.to_lowercase());
    Some(call("get_field", [inner.as_ref().clone(), name]))
}

/// Whether a subquery asks for the sequence of a column, of which there are none, or for a
/// collation that is not that of the column's type, which no column
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
                "pg_sequence" | "pg_collation" => true,
                "pg_type" => collation,
                _ => false,
            }
        }
        _ => false,
    })
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
        call("replace", [pattern, text(from), text(to)])
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
        rewrite(&mut statement, &Information::new());
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
            rewritten(
                "SELECT unnest(conkey), generate_subscripts(conkey, 1), c.xmin FROM pg_index c"
            ),
            "SELECT unnest(conkey), unnest(generate_subscripts(conkey, 1)), 1 FROM pg_index c"
        );
        // Counted from 0 there, and from 1 here.
        assert_eq!(
            rewritten(
                "SELECT generate_subscripts(i.indkey, 1), indkey[0], i.indoption[k] FROM pg_index i"
            ),
            "SELECT (unnest(generate_subscripts(i.indkey, 1)) - 1), indkey[(0 + 1)], i.indoption[(k + 1)] FROM pg_index i"
        );
        assert_eq!(
            rewritten(
                "SELECT array_to_string(n.nspacl, ',') FROM pg_namespace n WHERE indisvalid = 't'"
            ),
            "SELECT CAST(NULL AS TEXT) FROM pg_namespace n WHERE indisvalid = true"
        );
        // Tables of users may have columns of these names.
        let of_users = "SELECT xmin, b.tableoid, b.indkey[0] FROM boxes b WHERE indisposed = 't'";
        assert_eq!(rewritten(of_users), of_users);
        assert_eq!(
            rewritten("SELECT (_pg_expandarray(indkey)).n FROM t WHERE a = (keys).X"),
            "SELECT get_field(unnest(_pg_expandarray(indkey)), 'n') FROM t WHERE a = get_field(keys, 'x')"
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

    #[test]
    fn tables_of_the_information_schema_are_queries_under_their_names() {
        let text = rewritten(
            "SELECT information_schema.columns.column_name, k.table_name \
             FROM INFORMATION_SCHEMA.columns, information_schema.key_column_usage k, \
             information_schema.routines, columns",
        );
        assert!(
            text.starts_with("SELECT columns.column_name, k.table_name FROM (SELECT"),
            "{text}"
        );
        assert!(
            text.ends_with(") k, information_schema.routines, columns"),
            "{text}"
        );
        assert!(text.contains(") AS columns, (SELECT"), "{text}");
    }
}
