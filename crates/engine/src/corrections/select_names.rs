//! Names for equal columns of a `SELECT` list.
//!
//! DataFusion 55 refuses a list in which two columns have the same name, such as `SELECT x, x` and
//! `SELECT x, CAST(x AS INT)`: it names a cast after what is cast. The later ones get names here.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, VisitorMut, visit_expressions_mut,
};
use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// Gives a later column of the same name another one: its text, or a number at the end.
pub(super) struct SelectNames;

impl VisitorMut for SelectNames {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        // Names that the query gives stay as they are.
        let given = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            _ => None,
        });
        let mut taken: HashSet<String> = given.collect();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else {
                continue;
            };
            if taken.insert(name(expr)) {
                continue;
            }
            let text = expr.to_string();
            let numbered = (1..).map(|number| format!("{text}_{number}"));
            let mut names = std::iter::once(text.clone()).chain(numbered);
            if let Some(free) = names.find(|name| taken.insert(name.clone())) {
                let alias = Ident::with_quote('"', free);
                let expr = expr.clone();
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }
}

/// The text that decides the name: without casts, in lower case where case says nothing.
fn name(expr: &Expr) -> String {
    let mut named = expr.clone();
    // The closure never breaks.
    let _ = visit_expressions_mut(&mut named, |expr| {
        while let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
            *expr = (**inner).clone();
        }
        ControlFlow::<()>::Continue(())
    });
    match named.to_string() {
        quoted if quoted.contains(['"', '\'', '`']) => quoted,
        plain => plain.to_ascii_lowercase(),
    }
}
