//! `IN` over lists, several of them on one value.

use super::constants::{evaluated, null_else};
use super::{holds, rewrite_expressions};
use crate::walk::WalkAll;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::collections::HashSet;

/// Merges lists on one value below `AND` and `OR` before DataFusion does.
///
/// The optimizer of DataFusion 55 makes `a IN (1, 2) AND a IN (3, 4)` false, where it is NULL for a
/// NULL `a`; it takes a NULL in a list for a value, so that `a NOT IN (1, NULL) AND a IN (2, NULL)`
/// becomes `a = 2`; and it takes different columns for different values in `a IN (b, 1) AND a IN
/// (c, 2)`. After this rule no list has a NULL or a column, and no two lists meet.
#[derive(Debug, Default)]
pub(crate) struct MergedLists;

impl AnalyzerRule for MergedLists {
    fn name(&self) -> &str {
        "tierloom_merged_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !holds(&plan, is_list)? {
            return Ok(plan);
        }
        let plan = plan.up_all(&mut |node| {
            rewrite_expressions(node, is_list, |expr| {
                Ok(match expr {
                    Expr::InList(list) => plain(list),
                    Expr::BinaryExpr(binary)
                        if matches!(binary.op, Operator::And | Operator::Or) =>
                    {
                        merged(binary)
                    }
                    other => Transformed::no(other),
                })
            })
        })?;
        Ok(plan.data)
    }
}

/// A list of values that are known and not NULL; others become comparisons beside it.
fn plain(list: InList) -> Transformed<Expr> {
    if list.list.iter().all(is_value) || list.expr.is_volatile() {
        return Transformed::no(Expr::InList(list));
    }
    let negated = list.negated;
    let (mut values, mut others, mut has_null) = (Vec::new(), Vec::new(), false);
    for item in list.list {
        match evaluated(&item) {
            Some(value) if value.is_null() => has_null = true,
            Some(value) => values.push(Expr::Literal(value, None)),
            None => others.push(item),
        }
    }
    let mut parts = Vec::new();
    if !values.is_empty() {
        let values = InList::new(list.expr.clone(), values, negated);
        parts.push(Expr::InList(values));
    }
    let compare = if negated { Expr::not_eq } else { Expr::eq };
    parts.extend(others.into_iter().map(|o| compare(*list.expr.clone(), o)));
    if has_null {
        parts.push(Expr::Literal(ScalarValue::Boolean(None), None));
    }
    let join = if negated { Expr::and } else { Expr::or };
    // A list of nothing but NULLs is NULL, and there is no empty list.
    let whole = parts.into_iter().reduce(join);
    Transformed::yes(whole.unwrap_or_else(|| lit(negated)))
}

/// A chain of one operator, in which lists on one value are merged.
fn merged(binary: BinaryExpr) -> Transformed<Expr> {
    let op = binary.op;
    // All pairs to the left of the last operand have met below.
    let is_chain = matches!(&*binary.right, Expr::BinaryExpr(right) if right.op == op);
    if !is_list(&binary.right) && !is_chain {
        return Transformed::no(Expr::BinaryExpr(binary));
    }
    let operands = operands(&binary, op);
    if operands.iter().filter(|operand| is_list(operand)).count() < 2 {
        return Transformed::no(Expr::BinaryExpr(binary));
    }
    let mut kept: Vec<Expr> = Vec::with_capacity(operands.len());
    let mut changed = false;
    for operand in operands {
        let list = as_list(operand);
        let earlier = list.as_ref().and_then(|list| {
            let meets = |other: &Expr| as_list(other).is_some_and(|o| o.expr == list.expr);
            kept.iter().position(meets)
        });
        match (earlier, list) {
            (Some(at), Some(list)) => {
                if let Some(both) = as_list(&kept[at]).and_then(|other| both(other, list, op)) {
                    kept[at] = both;
                    changed = true;
                    continue;
                }
                kept.push(operand.clone());
            }
            _ => kept.push(operand.clone()),
        }
    }
    if !changed {
        return Transformed::no(Expr::BinaryExpr(binary));
    }
    let join = if op == Operator::And {
        Expr::and
    } else {
        Expr::or
    };
    let whole = kept.into_iter().reduce(join);
    // A chain has at least one operand.
    Transformed::yes(whole.unwrap_or_else(|| Expr::BinaryExpr(binary)))
}

/// The operands of a chain of `op`, left to right.
fn operands(binary: &BinaryExpr, op: Operator) -> Vec<&Expr> {
    let mut found = Vec::new();
    let mut open = vec![&*binary.right, &*binary.left];
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryExpr(inner) if inner.op == op => {
                open.extend([&*inner.right, &*inner.left]);
            }
            other => found.push(other),
        }
    }
    found
}

/// Whether an item of a list is a literal other than NULL.
fn is_value(item: &Expr) -> bool {
    matches!(item, Expr::Literal(value, _) if !value.is_null())
}

fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        Expr::Not(inner) => is_list(inner),
        _ => false,
    }
}

/// A list of values, also behind `NOT`.
fn as_list(expr: &Expr) -> Option<InList> {
    match expr {
        Expr::InList(list) if !list.expr.is_volatile() => Some(list.clone()),
        Expr::Not(inner) => {
            let list = as_list(inner)?;
            let negated = !list.negated;
            Some(InList { negated, ..list })
        }
        _ => None,
    }
}

/// Two lists on one value as one; `None` if they have items that are not known values.
fn both(a: InList, b: InList, op: Operator) -> Option<Expr> {
    // `OR` is `AND` of the opposites.
    let opposite = op == Operator::Or;
    let values = |list: &InList| -> Option<HashSet<Expr>> {
        let items = list.list.iter();
        items
            .map(|item| is_value(item).then(|| with_one_zero(item)))
            .collect()
    };
    let (in_a, in_b) = (values(&a)?, values(&b)?);
    let (list, negated) = match (a.negated != opposite, b.negated != opposite) {
        (false, false) => (
            retained(a.list, |item| in_b.contains(&with_one_zero(item))),
            false,
        ),
        (false, true) => (
            retained(a.list, |item| !in_b.contains(&with_one_zero(item))),
            false,
        ),
        (true, false) => (
            retained(b.list, |item| !in_a.contains(&with_one_zero(item))),
            false,
        ),
        (true, true) => {
            let more = retained(b.list, |item| !in_a.contains(&with_one_zero(item)));
            (a.list.into_iter().chain(more).collect(), true)
        }
    };
    let negated = negated != opposite;
    Some(match list.is_empty() {
        true => null_else(*a.expr, negated),
        false => Expr::InList(InList::new(a.expr, list, negated)),
    })
}

/// The item, or 0.0 for -0.0, which equals it.
fn with_one_zero(item: &Expr) -> Expr {
    match item {
        Expr::Literal(ScalarValue::Float32(Some(0.0)), _) => lit(0.0f32),
        Expr::Literal(ScalarValue::Float64(Some(0.0)), _) => lit(0.0f64),
        other => other.clone(),
    }
}

fn retained(mut list: Vec<Expr>, keep: impl Fn(&Expr) -> bool) -> Vec<Expr> {
    list.retain(keep);
    list
}
