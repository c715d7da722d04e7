//! Common table expressions that are read once or twice.

use super::{Generator, Scope, scope};
use crate::ast::{Body, Expr, FromItem, Item, Query, Relation, Select};
use crate::data::{Kind, Known};

/// Name of the common table expression.
const NAME: &str = "w";

impl Generator<'_> {
    /// The rows of `query`, which becomes a common table expression that is read at least once.
    pub(crate) fn named(&mut self, query: Query, known: Vec<Known>) -> (Query, Vec<Known>) {
        let mut first = rows_of("w1", &known);
        let first_scope = scope("w1", &known);
        let (body, known) = match self.rng.below(4) {
            0 => (Body::Select(Box::new(first)), known),
            1 => {
                let mut second = rows_of("w2", &known);
                self.filters(&mut first, &first_scope, 1);
                self.filters(&mut second, &scope("w2", &known), 1);
                let body = Body::Set {
                    operation: "UNION ALL".into(),
                    left: Box::new(Query::of(first)),
                    right: Box::new(Query::of(second)),
                };
                let repeated = known.into_iter().map(|k| Known { unique: false, ..k });
                (body, repeated.collect())
            }
            2 => {
                self.among_itself(&mut first, &first_scope, &known);
                (Body::Select(Box::new(first)), known)
            }
            _ => {
                let (item, column) = self.counted_again(&known);
                first.items.push(item);
                let known = known.into_iter().chain([column]).collect();
                (Body::Select(Box::new(first)), known)
            }
        };
        let query = Query {
            with: vec![(NAME.into(), query)],
            body,
            order: vec![],
            limit: None,
        };
        (query, known)
    }

    /// Adds a condition to `first` that a column is, or is not, among some rows of the same
    /// expression.
    fn among_itself(&mut self, first: &mut Select, first_scope: &Scope, known: &[Known]) {
        let comparable = |k: &&Known| k.exact && !matches!(k.kind, Kind::Null | Kind::Bytes);
        let columns: Vec<_> = known.iter().filter(comparable).collect();
        if columns.is_empty() {
            return self.filters(first, first_scope, 1);
        }
        let column = *self.rng.pick(&columns);
        let mut second = rows_of("w2", known);
        second.items.retain(|i| i.name == column.name);
        self.filters(&mut second, &scope("w2", known), 1);
        let form = if self.rng.chance(60) {
            "{} IN {}"
        } else {
            "{} NOT IN {}"
        };
        first.filters.push(Expr::Sub {
            form: form.into(),
            args: vec![Expr::column("w1", &column.name)],
            query: Box::new(Query::of(second)),
        });
    }

    /// How many rows of the expression fulfil a condition, as one more column.
    fn counted_again(&mut self, known: &[Known]) -> (Item, Known) {
        let mut second = rows_of("w2", known);
        self.filters(&mut second, &scope("w2", known), 1);
        let count = self.made("count(*)", Vec::new(), Kind::Int);
        second.items = vec![Item {
            expr: count.expr.clone(),
            name: "v".into(),
            inexact: false,
        }];
        let mut counted = count;
        counted.expr = Expr::Sub {
            form: "{}".into(),
            args: vec![],
            query: Box::new(Query::of(second)),
        };
        self.item(counted, format!("c{}", known.len()))
    }
}

/// `SELECT a, b, ... FROM w AS alias`.
fn rows_of(alias: &str, known: &[Known]) -> Select {
    let items = known.iter().map(|k| Item {
        expr: Expr::column(alias, &k.name),
        name: k.name.clone(),
        inexact: !k.exact,
    });
    Select {
        items: items.collect(),
        from: vec![FromItem::of(Relation::table(NAME, alias))],
        ..Select::default()
    }
}
