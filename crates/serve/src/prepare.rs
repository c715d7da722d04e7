//! Parts of statements about the catalog that the rules of its crate would spoil, in other words.

use super::key_rows;
use super::pg_catalog::DEFAULT_OF_COLUMN;
use super::syntax::{call, equal_to, is_column, last, list_of_none, null_of, text};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, Query, Select, SetExpr, Statement, TableFactor, Value, VisitorMut,
};
use std::ops::ControlFlow;
use tierloom_corrections::Syntax;

/// Changes what the rules of the catalog's crate would spoil; whether there was something.
pub(super) fn prepare(statement: &mut Statement) -> bool {
    let mut preparing = Preparing { changed: false };
    let _ = statement.change(&mut preparing);
    preparing.changed
}

struct Preparing {
    changed: bool,
}

impl VisitorMut for Preparing {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.changed |= key_rows::join(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // Before the rows inside are joined.
        if let Expr::Function(function) = expr
            && let Some(names) = key_rows::names_of(function)
        {
            *expr = names;
            self.changed = true;
        }
        if let Expr::Function(function) = expr
            && key_rows::is_of_nothing(function)
        {
            *expr = list_of_none();
            self.changed = true;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { left, right, .. } = expr
            && FUNCTIONS_OF_TYPES
                .iter()
                .any(|column| is_column(left, column))
            && let Some(name) = function_named(right)
        {
            **right = text(&name);
            self.changed = true;
        }
        let other = match expr {
            // No table is the type of a column.
            Expr::Subquery(query) if asks_for_composite(query) => {
                Some(Expr::Value(Value::Boolean(false).into()))
            }
            Expr::Subquery(query) => default_of(query),
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } if is_search_path(subquery) => Some(Expr::InList {
                expr: expr.clone(),
                list: vec![text("public")],
                negated: *negated,
            }),
            // No constraint is checked later than its statement.
            Expr::Exists { subquery, negated } if asks_for_deferred(subquery) => {
                Some(Expr::Value(Value::Boolean(*negated).into()))
            }
            Expr::Function(function) if describes_class(function) => Some(null_of(DataType::Text)),
            _ => None,
        };
        if let Some(other) = other {
            *expr = other;
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// Columns with functions, by name in the tables of the catalog's crate.
const FUNCTIONS_OF_TYPES: [&str; 4] = ["typinput", "typoutput", "typreceive", "typsend"];

/// The name in `'pg_catalog.array_in'::regproc`.
fn function_named(expr: &Expr) -> Option<String> {
    let Expr::Cast {
        expr, data_type, ..
    } = expr
    else {
        return None;
    };
    let Expr::Value(value) = expr.as_ref() else {
        return None;
    };
    match (&value.value, data_type.to_string().to_lowercase().as_str()) {
        (Value::SingleQuotedString(name), "regproc" | "pg_catalog.regproc") => {
            name.rsplit('.').next().map(str::to_owned)
        }
        _ => None,
    }
}

/// Whether a query takes the variable `search_path` apart.
fn is_search_path(query: &Query) -> bool {
    let text = query.to_string().to_lowercase();
    text.contains("current_setting('search_path')")
}

/// Whether a query says whether the table of a type is a composite type.
fn asks_for_composite(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let ([from], [asked]) = (select.from.as_slice(), select.projection.as_slice()) else {
        return false;
    };
    let is_class =
        matches!(&from.relation, TableFactor::Table { name, .. } if last(name) == "pg_class");
    is_class && from.joins.is_empty() && asked.to_string().ends_with("relkind = 'c'")
}

/// Whether a query looks for constraints that are checked when transactions end.
fn asks_for_deferred(query: &Query) -> bool {
    let text = query.to_string().to_lowercase();
    text.contains("pg_constraint") && text.contains("condeferr")
}

/// Whether a function gives the comment, of which there are none, of a table that is found by a
/// name that is made when the statement runs.
fn describes_class(function: &Function) -> bool {
    let describes = ["obj_description", "col_description"].contains(&last(&function.name).as_str());
    describes
        && function
            .args
            .to_string()
            .to_lowercase()
            .contains("regclass")
}

/// A function in the place of a subquery for the default of a column.
fn default_of(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [from] = select.from.as_slice() else {
        return None;
    };
    let TableFactor::Table { name, .. } = &from.relation else {
        return None;
    };
    if last(name) != "pg_attrdef" || !from.joins.is_empty() {
        return None;
    }
    let condition = select.selection.as_ref()?;
    let table = equal_to(condition, "adrelid")?;
    let column = equal_to(condition, "adnum")?;
    Some(call(DEFAULT_OF_COLUMN, [table, column]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn prepared(text: &str) -> Option<String> {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text);
        let mut statement = parsed.unwrap().remove(0);
        prepare(&mut statement).then(|| statement.to_string())
    }

    #[test]
    fn what_the_crates_rules_would_spoil_is_replaced_and_other_subqueries_are_left_alone() {
        assert_eq!(
            prepared(
                "SELECT (SELECT pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d \
                 WHERE d.adrelid = a.attrelid AND a.attnum = d.adnum AND a.atthasdef) FROM t a"
            )
            .unwrap(),
            "SELECT tierloom_default_of_column(a.attrelid, a.attnum) FROM t a"
        );
        assert_eq!(
            prepared(
                "SELECT a IN (SELECT x FROM string_to_array(current_setting('search_path'), ',') x)"
            )
            .unwrap(),
            "SELECT a IN ('public')"
        );
        assert_eq!(
            prepared(
                "SELECT col_description(CAST(a || b AS REGCLASS)::oid, 1), obj_description(c)"
            )
            .unwrap(),
            "SELECT CAST(NULL AS TEXT), obj_description(c)"
        );
        assert_eq!(
            prepared("SELECT typinput = 'pg_catalog.array_in'::regproc FROM pg_type").unwrap(),
            "SELECT typinput = 'array_in' FROM pg_type"
        );
        assert_eq!(
            prepared("SELECT 1 FROM pg_type t WHERE t.typrelid = 0 OR (SELECT c.relkind = 'c' FROM pg_class c WHERE c.oid = t.typrelid)").unwrap(),
            "SELECT 1 FROM pg_type t WHERE t.typrelid = 0 OR false"
        );
        assert_eq!(
            prepared("SELECT array(SELECT 1 FROM pg_catalog.pg_auth_members), EXISTS(SELECT 1 FROM pg_constraint WHERE condeferrable)").unwrap(),
            "SELECT CAST(NULL AS TEXT[]), false"
        );
        for other in [
            "SELECT array(SELECT oid FROM pg_class)",
            "SELECT (SELECT max(adnum) FROM pg_attrdef WHERE adrelid = a.x) FROM t a",
            "SELECT (SELECT 1 FROM b WHERE adrelid = 1 AND adnum = 2)",
        ] {
            assert_eq!(prepared(other), None, "{other}");
        }
    }

    #[test]
    fn rows_of_a_list_are_joined_by_its_object() {
        let rows = "(SELECT oid AS tierloom_owner, unnest(conkey) AS n, \
                    unnest(tierloom_places(conkey)) AS p FROM pg_catalog.pg_constraint) AS k";
        for (text, expected) in [
            (
                "SELECT 1 FROM pg_constraint c CROSS JOIN LATERAL unnest(c.conkey) WITH ORDINALITY AS k(n, p)",
                format!(
                    "SELECT 1 FROM pg_constraint c INNER JOIN {rows} ON k.tierloom_owner = c.oid"
                ),
            ),
            (
                "SELECT 1 FROM pg_constraint c LEFT JOIN LATERAL unnest(c.conkey) WITH ORDINALITY AS k(n, p) ON true",
                format!(
                    "SELECT 1 FROM pg_constraint c LEFT OUTER JOIN {rows} ON k.tierloom_owner = c.oid"
                ),
            ),
            (
                "SELECT 1 FROM pg_constraint c, unnest(c.conkey) WITH ORDINALITY AS k(n, p) WHERE a OR b",
                format!(
                    "SELECT 1 FROM pg_constraint c, {rows} WHERE k.tierloom_owner = c.oid AND (a OR b)"
                ),
            ),
        ] {
            assert_eq!(prepared(text).unwrap(), expected, "{text}");
        }
        assert_eq!(prepared("SELECT 1 FROM t, unnest(t.a) AS k(n)"), None);
    }

    #[test]
    fn lists_of_the_names_of_a_key_are_a_call() {
        assert_eq!(
            prepared(
                "SELECT array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, i) \
                 JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid \
                 ORDER BY cols.i) FROM pg_constraint c"
            )
            .unwrap(),
            "SELECT tierloom_names_of_columns(c.conrelid, c.conkey) FROM pg_constraint c"
        );
        assert_eq!(prepared("SELECT array(SELECT a FROM unnest(c.b))"), None);
    }
}
