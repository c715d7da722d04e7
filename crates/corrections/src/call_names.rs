//! Calls that differ only in casts get different names within the planner.
//!
//! DataFusion 55 names a cast after what is cast, and finds the aggregates and window functions of
//! a query by name: it refuses `sum(x), sum(CAST(x AS INT))`. A cast within the later call is put
//! into a `CASE` of one branch that is always taken, which has another name. The optimizer removes
//! it again.

use super::syntax::Syntax;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, OrderBy, Query, Select, SelectItem, SetExpr, Value,
    Visitor, VisitorMut,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Changes calls of one query, not those of its subqueries.
///
/// Returns the expressions of the `SELECT` list that changed: old text by new text.
pub(super) fn tell_apart(query: &mut Query, state: &SessionState) -> HashMap<String, String> {
    let mut changed = HashMap::new();
    of_body(&mut query.body, &mut query.order_by, state, &mut changed);
    changed
}

fn of_body(
    body: &mut SetExpr,
    order_by: &mut Option<OrderBy>,
    state: &SessionState,
    changed: &mut HashMap<String, String>,
) {
    match body {
        SetExpr::Select(select) => of_select(select, order_by, state, changed),
        SetExpr::SetOperation { left, right, .. } => {
            // The order of a set operation has no calls of its parts.
            of_body(left, &mut None, state, changed);
            of_body(right, &mut None, state, changed);
        }
        _ => {}
    }
}

fn of_select(
    select: &mut Select,
    order_by: &mut Option<OrderBy>,
    state: &SessionState,
    changed: &mut HashMap<String, String>,
) {
    let mut calls = NamedCalls {
        state,
        depth: 0,
        found: Vec::new(),
    };
    // Neither this visitor nor the next one ever breaks.
    for item in &select.projection {
        let _ = item.show(&mut calls);
    }
    for filter in [&select.having, &select.qualify].into_iter().flatten() {
        let _ = filter.show(&mut calls);
    }
    if let Some(order_by) = order_by {
        let _ = order_by.show(&mut calls);
    }
    let branches = branches(calls.found);
    if branches.is_empty() {
        return;
    }
    let mut rename = Rename { branches, depth: 0 };
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        let before = expr.to_string();
        let _ = expr.change(&mut rename);
        let after = expr.to_string();
        if after != before {
            changed.insert(after, before);
        }
    }
    let filters = [&mut select.having, &mut select.qualify];
    for filter in filters.into_iter().flatten() {
        let _ = filter.change(&mut rename);
    }
    if let Some(order_by) = order_by {
        let _ = order_by.change(&mut rename);
    }
}

/// The text that decides the name: without casts and brackets.
pub(super) fn text_without_casts(expr: &Expr) -> String {
    let mut named = expr.clone();
    // The closure never breaks.
    let _ = named.change_expressions(&mut |expr| {
        while let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
            *expr = (**inner).clone();
        }
        ControlFlow::Continue(())
    });
    text(&named)
}

/// The same without the tables of columns, which a query may write or leave out.
pub(super) fn text_without_tables(expr: &Expr) -> String {
    let mut named = expr.clone();
    let _ = named.change_expressions(&mut |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(column) = parts.pop()
        {
            *expr = Expr::Identifier(column);
        }
        ControlFlow::Continue(())
    });
    text_without_casts(&named)
}

/// Whether there is a cast in an expression.
pub(super) fn has_cast(expr: &Expr) -> bool {
    let found = expr.each_expression(&mut |inner| match inner {
        Expr::Cast { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The text, in lower case where case says nothing.
fn text(expr: &Expr) -> String {
    match expr.to_string() {
        quoted if quoted.contains(['"', '\'', '`']) => quoted,
        plain => plain.to_ascii_lowercase(),
    }
}

struct Call {
    name: String,
    text: String,
    has_cast: bool,
}

/// By text, the number of the branch of each call that needs another name.
fn branches(mut calls: Vec<Call>) -> HashMap<String, u32> {
    // A call without casts cannot have another name, so it comes before those with casts.
    calls.sort_by_key(|call| call.has_cast);
    // By name: the call that keeps it, and the number of those that do not.
    let mut names: HashMap<String, (String, u32)> = HashMap::new();
    let mut branches = HashMap::new();
    for Call {
        name,
        text,
        has_cast,
    } in calls
    {
        let (first, others) = names.entry(name).or_insert_with(|| (text.clone(), 0));
        if has_cast && *first != text && !branches.contains_key(&text) {
            *others += 1;
            branches.insert(text, *others);
        }
    }
    branches
}

/// Collects the aggregates and window functions of a query.
struct NamedCalls<'a> {
    state: &'a SessionState,
    /// Number of subqueries around the place that is visited.
    depth: u32,
    found: Vec<Call>,
}

impl NamedCalls<'_> {
    fn is_named(&self, function: &Function) -> bool {
        let name = function.name.0.last().and_then(|part| part.as_ident());
        name.is_some_and(|name| {
            let name = name.value.to_ascii_lowercase();
            function.over.is_some() || self.state.aggregate_functions().contains_key(&name)
        })
    }
}

impl Visitor for NamedCalls<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let (0, Expr::Function(function)) = (self.depth, expr)
            && self.is_named(function)
        {
            self.found.push(Call {
                name: text_without_tables(expr),
                text: text(expr),
                has_cast: has_cast(expr),
            });
        }
        ControlFlow::Continue(())
    }
}

/// Puts a cast of each call in `branches` into its branch.
struct Rename {
    branches: HashMap<String, u32>,
    depth: u32,
}

impl VisitorMut for Rename {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && matches!(expr, Expr::Function(_))
            && let Some(branch) = self.branches.get(&text(expr))
        {
            wrap_first_cast(expr, *branch);
        }
        ControlFlow::Continue(())
    }
}

/// Replaces the first cast by `CASE WHEN n = n THEN cast END`.
fn wrap_first_cast(expr: &mut Expr, n: u32) {
    // It breaks where it has found one.
    let _ = expr.change_expressions(&mut |inner| {
        if !matches!(inner, Expr::Cast { .. }) {
            return ControlFlow::Continue(());
        }
        let number = || Box::new(Expr::value(Value::Number(n.to_string(), false)));
        let condition = Expr::BinaryOp {
            left: number(),
            op: BinaryOperator::Eq,
            right: number(),
        };
        let result = inner.clone();
        *inner = Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition, result }],
            else_result: None,
        };
        ControlFlow::Break(())
    });
}
