//! Conditions and values with subqueries.

use super::{Generator, Scope, Typed};
use crate::ast::{Expr, Item, Order, Query, Select};
use crate::data::{Kind, Known};

impl Generator<'_> {
    pub(crate) fn with_subquery(&mut self) -> (Query, Vec<Known>) {
        let (source, outer) = self.source();
        let mut select = Select {
            from: vec![source],
            ..Select::default()
        };
        self.filters(&mut select, &outer, 1);
        let condition = self.subquery_condition(&outer);
        select.filters.push(condition);
        if self.rng.chance(15) {
            let second = self.subquery_condition(&outer);
            select.filters.push(second);
        }
        let known = match self.rng.chance(40) {
            true => {
                let groups = (0..self.rng.below(3)).map(|_| self.group(&outer)).collect();
                self.aggregated(&mut select, groups, &outer)
            }
            false => {
                let (items, mut known) = self.some_items(&outer, 1);
                select.items = items;
                if self.rng.chance(20)
                    && let Some(scalar) = self.scalar(&outer)
                {
                    let (item, column) = self.item(scalar, format!("c{}", known.len()));
                    select.items.push(item);
                    known.push(column);
                }
                known
            }
        };
        (Query::of(select), known)
    }

    /// A condition on columns of `outer` that has a subquery.
    pub(crate) fn subquery_condition(&mut self, outer: &Scope) -> Expr {
        let choice = self.rng.below(10);
        let table = self.any_table();
        let (mut select, inner) = self.some_rows(table);
        let pair = self.pair(outer, &inner);
        match (choice, pair) {
            (0..=3, Some((ours, theirs))) => {
                select.items = vec![item(theirs)];
                if self.rng.chance(30)
                    && let Some((near, far)) = self.pair(outer, &inner)
                {
                    let nearer = Expr::apply("{} <= {}", vec![far.expr, near.expr]);
                    select.filters.push(nearer);
                }
                let form = if choice < 2 {
                    "{} IN {}"
                } else {
                    "{} NOT IN {}"
                };
                let query = Box::new(Query::of(select));
                Expr::Sub {
                    form: form.into(),
                    args: vec![ours.expr],
                    query,
                }
            }
            (4..=6, Some((ours, theirs))) => {
                select
                    .filters
                    .push(Expr::apply("{} = {}", vec![theirs.expr, ours.expr]));
                select.items = vec![Item {
                    expr: Expr::Text("1".into()),
                    name: "one".into(),
                    inexact: false,
                }];
                let form = if choice == 4 {
                    "NOT EXISTS {}"
                } else {
                    "EXISTS {}"
                };
                let query = Box::new(Query::of(select));
                Expr::Sub {
                    form: form.into(),
                    args: vec![],
                    query,
                }
            }
            _ => match self.scalar(outer) {
                Some(scalar) if self.rng.chance(25) => {
                    Expr::apply("({} IS NULL)", vec![scalar.expr])
                }
                Some(scalar) => {
                    let like = self.column_of(outer, &[scalar.kind()]);
                    let one = like.unwrap_or_else(|| self.constant(&scalar.known));
                    let form = *self.rng.pick(&["({} < {})", "({} >= {})", "({} = {})"]);
                    Expr::apply(form, vec![one.expr, scalar.expr])
                }
                None => Expr::Text("true".into()),
            },
        }
    }

    /// Two columns of the same type, one of each scope.
    fn pair(&mut self, outer: &Scope, inner: &Scope) -> Option<(Typed, Typed)> {
        let mut pairs = Vec::new();
        for a in outer {
            for b in inner {
                let fits = a.known.data_type == b.known.data_type
                    && !matches!(a.known.kind, Kind::Null | Kind::Bytes);
                if fits && a.known.exact && b.known.exact {
                    pairs.push((a, b));
                }
            }
        }
        if pairs.is_empty() {
            return None;
        }
        let (a, b) = *self.rng.pick(&pairs);
        Some((
            Typed::column(&a.relation, &a.known),
            Typed::column(&b.relation, &b.known),
        ))
    }

    /// A scalar subquery: an aggregate, or the first value of an order.
    fn scalar(&mut self, outer: &Scope) -> Option<Typed> {
        let table = self.any_table();
        let (mut select, inner) = self.some_rows(table);
        let orderable = [Kind::Int, Kind::Decimal, Kind::Text, Kind::Date];
        let column = self.column_of(&inner, &orderable)?;
        let known = Known {
            unique: false,
            ..column.known.clone()
        };
        if self.rng.chance(30) {
            // It returns at most one row, possibly none.
            select.items = vec![item(column)];
            let order = Order {
                by: Expr::Text("1".into()),
                descending: self.rng.chance(50),
                nulls_first: false,
            };
            let query = Query {
                order: vec![order],
                limit: Some((1, 0)),
                ..Query::of(select)
            };
            let query = Box::new(query);
            return Some(Typed {
                expr: Expr::Sub {
                    form: "{}".into(),
                    args: vec![],
                    query,
                },
                known,
            });
        }
        if self.rng.chance(45)
            && let Some((ours, theirs)) = self.pair(outer, &inner)
        {
            select
                .filters
                .push(Expr::apply("{} = {}", vec![theirs.expr, ours.expr]));
        }
        let form = *self.rng.pick(&["min({})", "max({})", "count({})"]);
        let counted = form.starts_with("count");
        let kind = if counted { Kind::Int } else { column.kind() };
        let made = self.made(form, vec![column], kind);
        let known = if counted { made.known.clone() } else { known };
        select.items = vec![item(made)];
        let query = Box::new(Query::of(select));
        Some(Typed {
            expr: Expr::Sub {
                form: "{}".into(),
                args: vec![],
                query,
            },
            known,
        })
    }
}

fn item(typed: Typed) -> Item {
    Item {
        expr: typed.expr,
        name: "v".into(),
        inexact: false,
    }
}
