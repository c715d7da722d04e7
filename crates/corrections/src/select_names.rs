//! Names for equal columns of a `SELECT` list.
//!
//! DataFusion 55 refuses a list in which two columns have the same name, such as `SELECT x, x` and
//! `SELECT x, CAST(x AS INT)`: it names a cast after what is cast. The later ones get names here.

use super::call_names::{has_cast, tell_apart, text_without_casts, text_without_tables};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Gives a later column of the same name another one: its text, or a number at the end.
pub(super) struct SelectNames<'a> {
    state: &'a SessionState,
    /// Expressions that were changed for the planner, with the text that users know.
    changed: HashMap<String, String>,
}

impl<'a> SelectNames<'a> {
    pub(super) fn new(state: &'a SessionState) -> Self {
        SelectNames {
            state,
            changed: HashMap::new(),
        }
    }
}

impl VisitorMut for SelectNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.changed.extend(tell_apart(query, self.state));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // Names that the query gives stay as they are.
        let given = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            _ => None,
        });
        let mut taken: HashSet<String> = given.collect();
        let mut names = Names::default();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else {
                continue;
            };
            let text = expr.to_string();
            let before = self.changed.get(&text);
            if before.is_none() && names.add(&named_after(expr), &mut taken) {
                continue;
            }
            let text = before.cloned().unwrap_or(text);
            let numbered = (1..).map(|number| format!("{text}_{number}"));
            let mut free = std::iter::once(text.clone()).chain(numbered);
            if let Some(free) = free.find(|name| taken.insert(name.clone())) {
                let alias = Ident::with_quote('"', free);
                let expr = expr.clone();
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names of the expressions so far, without tables: `t.x` and `CAST(x AS INT)` are one name.
#[derive(Default)]
struct Names {
    all: HashSet<String>,
    of_casts: HashSet<String>,
}

impl Names {
    /// Whether no other column has the name of `expr`.
    fn add(&mut self, expr: &Expr, taken: &mut HashSet<String>) -> bool {
        let (name, has_cast) = (text_without_tables(expr), has_cast(expr));
        // Without a cast, columns of two tables may have one name.
        let is_free = match has_cast {
            true => !self.all.contains(&name),
            false => !self.of_casts.contains(&name),
        };
        self.all.insert(name.clone());
        if has_cast {
            self.of_casts.insert(name);
        }
        let text = text_without_casts(expr);
        if text == "null" {
            // The planner writes it so.
            taken.insert("NULL".into());
        }
        taken.insert(text) && is_free
    }
}

/// The expression that names a column: a subquery is named after the column that it returns.
fn named_after(expr: &Expr) -> Expr {
    if let Expr::Subquery(query) = expr
        && let SetExpr::Select(select) = &*query.body
    {
        return match select.projection.first() {
            Some(SelectItem::UnnamedExpr(inner)) => named_after(inner),
            Some(SelectItem::ExprWithAlias { alias, .. }) => Expr::Identifier(alias.clone()),
            _ => expr.clone(),
        };
    }
    expr.clone()
}
