//! Relations for `FROM` clauses: tables, and subqueries with the same columns.

use super::{Generator, Scope, Typed, scope};
use crate::ast::{Body, Expr, FromItem, Item, Order, Query, Relation, RelationKind, Select};
use crate::data::{Kind, Known, KnownTable};

impl Generator<'_> {
    /// One relation as a `FROM` clause, and its scope.
    pub(crate) fn source(&mut self) -> (FromItem, Scope) {
        let table = self.any_table();
        let (relation, columns) = self.relation(table);
        let scope = scope(&relation.alias, &columns);
        (FromItem::of(relation), scope)
    }

    /// A `SELECT` from `table` with some conditions and no columns yet, and its scope.
    pub(crate) fn some_rows(&mut self, table: &KnownTable) -> (Select, Scope) {
        let (relation, columns) = self.relation(table);
        let inner = scope(&relation.alias, &columns);
        let mut select = Select {
            from: vec![FromItem::of(relation)],
            ..Select::default()
        };
        self.filters(&mut select, &inner, 1);
        (select, inner)
    }

    /// `table`, or a subquery over it that keeps its column names.
    pub(crate) fn relation(&mut self, table: &KnownTable) -> (Relation, Vec<Known>) {
        let alias = self.alias();
        if self.rng.chance(72) {
            return (Relation::table(&table.name, &alias), table.columns.clone());
        }
        let (query, known) = self.derived(table);
        (Relation::query(query, &alias), known)
    }

    /// A query with the same columns as the table, to replace its rows.
    pub(crate) fn replacement(&mut self, table: &KnownTable) -> (Query, Vec<Known>) {
        let (relation, known) = self.relation(table);
        if let RelationKind::Query(query) = relation.what
            && !matches!(query.body, Body::Set { .. } if table.rows > 20_000)
        {
            return (*query, known);
        }
        let (select, known, _) = self.all_of(table);
        (Query::of(select), known)
    }

    /// A subquery over `table` with the same column names.
    fn derived(&mut self, table: &KnownTable) -> (Query, Vec<Known>) {
        match self.rng.below(8) {
            0 | 1 => self.parts_united(table),
            2 => self.once(table),
            3 => self.one_by_key(table),
            4 => self.limited(table),
            5 => self.computed(table),
            _ => self.part(table),
        }
    }

    /// `SELECT a, b, ... FROM table`.
    fn all_of(&mut self, table: &KnownTable) -> (Select, Vec<Known>, Scope) {
        let alias = self.alias();
        let scope = scope(&alias, &table.columns);
        let items = table.columns.iter().map(|c| Item {
            expr: Expr::column(&alias, &c.name),
            name: c.name.clone(),
            inexact: !c.exact,
        });
        let select = Select {
            items: items.collect(),
            from: vec![FromItem::of(Relation::table(&table.name, &alias))],
            ..Select::default()
        };
        (select, table.columns.clone(), scope)
    }

    fn part(&mut self, table: &KnownTable) -> (Query, Vec<Known>) {
        let (mut select, known, scope) = self.all_of(table);
        let condition = self.condition(&scope, 1);
        select.filters.push(condition.expr);
        (Query::of(select), known)
    }

    /// A union of two parts of a table, which may overlap.
    fn parts_united(&mut self, table: &KnownTable) -> (Query, Vec<Known>) {
        let (left, mut known) = self.part(table);
        let (right, _) = if self.rng.chance(70) {
            self.part(table)
        } else {
            self.computed(table)
        };
        known.iter_mut().for_each(|k| k.unique = false);
        let operation = if self.rng.chance(80) {
            "UNION ALL"
        } else {
            "UNION"
        };
        let body = Body::Set {
            operation: operation.into(),
            left: Box::new(left),
            right: Box::new(right),
        };
        (
            Query {
                with: vec![],
                body,
                order: vec![],
                limit: None,
            },
            known,
        )
    }

    fn once(&mut self, table: &KnownTable) -> (Query, Vec<Known>) {
        let (mut select, known, _) = self.all_of(table);
        select.distinct = true;
        (Query::of(select), known)
    }

    /// One row per value of the first column, which is the key in dimensions.
    fn one_by_key(&mut self, table: &KnownTable) -> (Query, Vec<Known>) {
        let (mut select, known, _) = self.all_of(table);
        if known
            .iter()
            .any(|k| matches!(k.kind, Kind::Null | Kind::Bytes) || !k.exact)
        {
            return self.part(table);
        }
        select.groups = vec![select.items[0].expr.clone()];
        for item in &mut select.items[1..] {
            let form = if self.rng.chance(50) {
                "min({})"
            } else {
                "max({})"
            };
            item.expr = Expr::apply(form, vec![item.expr.clone()]);
        }
        (Query::of(select), known)
    }

    /// The first rows by a total order.
    fn limited(&mut self, table: &KnownTable) -> (Query, Vec<Known>) {
        let (query, known) = self.part(table);
        let unordered = known
            .iter()
            .any(|k| matches!(k.kind, Kind::Null | Kind::Bytes));
        if unordered || known.iter().any(|k| !k.exact) {
            return (query, known);
        }
        let order = (1..=known.len()).map(|number| Order {
            by: Expr::Text(number.to_string()),
            descending: number % 2 == 0,
            nulls_first: false,
        });
        let limit = Some((self.rng.below(60), 0));
        (
            Query {
                order: order.collect(),
                limit,
                ..query
            },
            known,
        )
    }

    /// All columns except the first, which may be a key, replaced by expressions of them.
    fn computed(&mut self, table: &KnownTable) -> (Query, Vec<Known>) {
        let (mut select, mut known, _) = self.all_of(table);
        for (item, column) in select.items.iter_mut().zip(&mut known).skip(1) {
            if column.name.ends_with("_k") || self.rng.chance(50) {
                continue;
            }
            let own = Typed {
                expr: item.expr.clone(),
                known: column.clone(),
            };
            let value = match column.kind {
                // A column that says where a row is from is the same in all of them.
                Kind::Int | Kind::Text | Kind::Bool if self.rng.chance(35) => self.constant(column),
                Kind::Int | Kind::Decimal | Kind::Float => {
                    let constant = self.constant(column);
                    self.duck &= column.tame;
                    let kind = column.kind;
                    self.made("({} + {})", vec![own, constant], kind)
                }
                Kind::Text => self.made("upper({})", vec![own], Kind::Text),
                Kind::Bool => self.made("(NOT {})", vec![own], Kind::Bool),
                _ => continue,
            };
            let made = Known {
                name: column.name.clone(),
                unique: false,
                ..value.known
            };
            (item.expr, *column) = (value.expr, made);
        }
        (Query::of(select), known)
    }

    /// Adds up to three conditions on `scope`.
    pub(crate) fn filters(&mut self, select: &mut Select, scope: &Scope, depth: usize) {
        for _ in 0..self.rng.weighted(&[0.35, 0.35, 0.2, 0.1]) {
            let condition = self.condition(scope, depth);
            select.filters.push(condition.expr);
        }
    }
}
