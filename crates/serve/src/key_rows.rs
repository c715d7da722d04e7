//! Rows of the columns of keys: the engine cannot make them of a table beside it, as in
//! `pg_constraint c, unnest(c.conkey) WITH ORDINALITY AS k(attnum, place)`; it can join them.

use super::pg_catalog::{NAMES_OF_COLUMNS, PLACES};
use super::syntax::{call, equal_to, is_column, last};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join,
    JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, Statement, TableAlias,
    TableFactor, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Lists of positions, the column with the number of their object, and their table.
const LISTS: [(&str, &str, &str); 2] = [
    ("conkey", "oid", "pg_constraint"),
    ("indkey", "indexrelid", "pg_index"),
];

/// The column by which rows of a list are joined.
const OWNER: &str = "tierloom_owner";

/// Joins rows of lists in the place of making them; whether there were such.
pub(super) fn join(select: &mut Select) -> bool {
    let mut changed = false;
    for from in &mut select.from {
        for joined in &mut from.joins {
            changed |= join_one(joined);
        }
        if let Some((rows, condition)) = rows_of(&from.relation) {
            from.relation = rows;
            select.selection = Some(both(condition, select.selection.take()));
            changed = true;
        }
    }
    changed
}

fn join_one(joined: &mut Join) -> bool {
    let Some((rows, condition)) = rows_of(&joined.relation) else {
        return false;
    };
    let on = |given: &JoinConstraint| {
        let other = match given {
            JoinConstraint::On(expr) if !is_true(expr) => Some(expr.clone()),
            _ => None,
        };
        JoinConstraint::On(both(condition.clone(), other))
    };
    joined.join_operator = match &joined.join_operator {
        JoinOperator::Left(given) | JoinOperator::LeftOuter(given) => {
            JoinOperator::LeftOuter(on(given))
        }
        JoinOperator::Join(given) | JoinOperator::Inner(given) | JoinOperator::CrossJoin(given) => {
            JoinOperator::Inner(on(given))
        }
        _ => return false,
    };
    joined.relation = rows;
    true
}

fn is_true(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Boolean(true))
}

fn both(one: Expr, other: Option<Expr>) -> Expr {
    let Some(other) = other else {
        return one;
    };
    Expr::BinaryOp {
        left: Box::new(one),
        op: BinaryOperator::And,
        right: Box::new(Expr::Nested(Box::new(other))),
    }
}

/// The list that a factor makes rows of, and its alias.
fn list_of(factor: &TableFactor) -> Option<(&Expr, Option<&TableAlias>)> {
    match factor {
        TableFactor::UNNEST {
            alias, array_exprs, ..
        } => match array_exprs.as_slice() {
            [list] => Some((list, alias.as_ref())),
            _ => None,
        },
        TableFactor::Table {
            name,
            alias,
            args: Some(args),
            ..
        } if last(name) == "unnest" => match args.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] => Some((list, alias.as_ref())),
            _ => None,
        },
        TableFactor::Function {
            name, args, alias, ..
        } if last(name) == "unnest" => match args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] => Some((list, alias.as_ref())),
            _ => None,
        },
        _ => None,
    }
}

/// Rows of a list of another table, and what they are joined by.
fn rows_of(factor: &TableFactor) -> Option<(TableFactor, Expr)> {
    let (list, alias) = list_of(factor)?;
    let Expr::CompoundIdentifier(names) = list else {
        return None;
    };
    let (column, table) = names.split_last()?;
    let known = |(list, ..): &&(&str, _, _)| column.value.eq_ignore_ascii_case(list);
    let (list, owner, of) = LISTS.iter().find(known)?;
    let alias = alias.cloned();
    let name = alias
        .as_ref()
        .map_or(Ident::new("unnest"), |a| a.name.clone());
    let columns = alias.map(|alias| alias.columns).unwrap_or_default();
    let mut columns = columns.into_iter().map(|column| column.name);
    let element = columns.next().unwrap_or_else(|| name.clone());
    let place = columns.next().unwrap_or_else(|| Ident::new("ordinality"));
    let text = format!(
        "SELECT {owner} AS {OWNER}, unnest({list}) AS {element}, unnest({PLACES}({list})) AS {place} \
         FROM pg_catalog.{of}"
    );
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &text).ok()?.pop();
    let Some(Statement::Query(subquery)) = parsed else {
        return None;
    };
    let condition = Expr::BinaryOp {
        left: Box::new(Expr::CompoundIdentifier(vec![
            name.clone(),
            Ident::new(OWNER),
        ])),
        op: BinaryOperator::Eq,
        right: Box::new(Expr::CompoundIdentifier(
            [table, &[Ident::new(*owner)]].concat(),
        )),
    };
    let rows = TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(TableAlias {
            explicit: true,
            name,
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    };
    Some((rows, condition))
}

/// A call in the place of `ARRAY(SELECT attname FROM unnest(list) ... pg_attribute ...)`, which
/// gives the names of the columns of a key.
pub(super) fn names_of(function: &Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &function.args else {
        return None;
    };
    if last(&function.name) != "array" {
        return None;
    }
    names_in(query)
}

/// Tables of the catalog without rows, and columns whose lists are NULL.
const EMPTY: [&str; 5] = [
    "pg_auth_members",
    "pg_enum",
    "pg_event_trigger",
    "pg_inherits",
    "pg_policy",
];
const NULL_LISTS: [&str; 3] = ["reloptions", "conexclop", "evttags"];

/// Parts of conditions that no row meets: constraints of types, rights on columns.
const NEVER_MET: [&str; 2] = ["contypid", "attacl is not null"];

/// Whether a function makes a list of the rows of a query that has none: `ARRAY(SELECT ...)`.
pub(super) fn is_of_nothing(function: &Function) -> bool {
    let FunctionArguments::Subquery(query) = &function.args else {
        return false;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let joins = select.from.iter().flat_map(|from| &from.joins);
    let factors = select.from.iter().map(|from| &from.relation);
    let mut factors = factors.chain(joins.map(|join| &join.relation));
    let is_empty = |factor: &TableFactor| match factor {
        TableFactor::Table {
            name, args: None, ..
        } => EMPTY.contains(&last(name).as_str()),
        factor => list_of(factor)
            .is_some_and(|(list, _)| NULL_LISTS.iter().any(|column| is_column(list, column))),
    };
    let condition = select.selection.as_ref().map(Expr::to_string);
    let condition = condition.unwrap_or_default().to_lowercase();
    let is_never_met = NEVER_MET.iter().any(|part| condition.contains(part));
    last(&function.name) == "array" && (is_never_met || factors.any(is_empty))
}

fn names_in(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice() else {
        return None;
    };
    if !is_column(expr, "attname") {
        return None;
    }
    let joins = || select.from.iter().flat_map(|from| &from.joins);
    let factors = select.from.iter().map(|from| &from.relation);
    let mut factors = factors.chain(joins().map(|join| &join.relation));
    let (list, _) = factors.find_map(list_of)?;
    let on = joins().filter_map(|join| match &join.join_operator {
        JoinOperator::Join(JoinConstraint::On(expr))
        | JoinOperator::Inner(JoinConstraint::On(expr)) => Some(expr),
        _ => None,
    });
    let mut conditions = select.selection.iter().chain(on);
    let table = conditions.find_map(|condition| equal_to(condition, "attrelid"))?;
    Some(call(NAMES_OF_COLUMNS, [table, list.clone()]))
}
