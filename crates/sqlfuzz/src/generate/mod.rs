//! Generates random statements, biased to those that Tierloom's own operators run.
//!
//! Every expression carries the properties of its values ([`Known`]). They decide whether a result
//! can be compared exactly and whether DuckDB, with its different rules for overflow, zeros and
//! types, can be asked at all.

mod aggregates;
mod changes;
mod common_tables;
mod expressions;
mod literal;
mod relations;
mod shapes;
mod star;
mod subqueries;
mod windows;

pub(crate) use changes::Changed;

use crate::ast::{Expr, Item, Order, Query, Statement};
use crate::data::{Kind, Known, KnownTable, World};
use crate::rng::Rng;

/// The shape of a random query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// An aggregation over a fact table and its dimensions.
    Star,
    /// An aggregation of that shape inside another query.
    StarInside,
    /// Joins of two or three relations, on any columns.
    Join,
    /// A group-by on one relation.
    Group,
    /// Filtered rows of one relation.
    Filter,
    /// Set operations on two relations.
    Set,
    /// Window functions over one relation.
    Window,
    /// Filters with subqueries, correlated or not.
    Subquery,
}

impl Shape {
    /// All shapes, in the order of their weights.
    pub const ALL: [Shape; 8] = [
        Shape::Star,
        Shape::StarInside,
        Shape::Join,
        Shape::Group,
        Shape::Filter,
        Shape::Set,
        Shape::Window,
        Shape::Subquery,
    ];
}

/// A column in scope: the alias of its relation, and its properties.
#[derive(Debug, Clone)]
pub(crate) struct InScope {
    pub relation: String,
    pub known: Known,
}

/// The columns that an expression can use.
pub(crate) type Scope = Vec<InScope>;

/// An expression and the properties of its values.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub expr: Expr,
    pub known: Known,
}

/// Generates statements about the tables of a schema.
pub struct Generator<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) world: &'a World,
    aliases: usize,
    /// Whether DuckDB gives everything generated since this was set the same meaning.
    pub(crate) duck: bool,
}

impl<'a> Generator<'a> {
    /// A generator for the tables of `world`.
    pub fn new(rng: &'a mut Rng, world: &'a World) -> Self {
        Generator {
            rng,
            world,
            aliases: 0,
            duck: true,
        }
    }

    /// A query of the given shape, and the properties of its columns.
    pub fn query(&mut self, shape: Shape) -> (Statement, Vec<Known>) {
        self.aliases = 0;
        self.duck = true;
        let (query, known) = self.shaped(shape);
        let (query, known) = self.finished(query, known);
        (
            Statement::Query {
                query,
                duck: self.duck,
            },
            known,
        )
    }

    /// An alias that was not used before in this query.
    pub(crate) fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("t{}", self.aliases)
    }

    /// Any table or view.
    pub(crate) fn any_table(&mut self) -> &'a KnownTable {
        let tables: &'a [KnownTable] = &self.world.tables;
        self.rng.pick(tables)
    }

    /// `typed` as the result column `name`, and the properties of that column.
    pub(crate) fn item(&mut self, typed: Typed, name: String) -> (Item, Known) {
        let known = Known {
            name: name.clone(),
            ..typed.known
        };
        (
            Item {
                expr: typed.expr,
                name,
                inexact: !known.exact,
            },
            known,
        )
    }

    /// The query, sometimes with an order, and with a limit only if that order is total.
    pub(crate) fn finished(&mut self, mut query: Query, known: Vec<Known>) -> (Query, Vec<Known>) {
        if self.rng.chance(35) {
            self.order(&mut query, &known);
        }
        (query, known)
    }

    /// Orders by all columns, which makes the order total, and sometimes adds a limit.
    pub(crate) fn order(&mut self, query: &mut Query, known: &[Known]) {
        if known
            .iter()
            // The engines could order values differently that differ in their last digits.
            .any(|k| !k.exact || matches!(k.kind, Kind::Bytes | Kind::Null))
        {
            return;
        }
        let mut numbers: Vec<usize> = (1..=known.len()).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.rng.below(at + 1));
        }
        query.order = numbers
            .iter()
            .map(|number| Order {
                by: Expr::Text(number.to_string()),
                descending: self.rng.chance(40),
                nulls_first: self.rng.chance(50),
            })
            .collect();
        if self.rng.chance(60) {
            let skipped = if self.rng.chance(20) {
                self.rng.below(8)
            } else {
                0
            };
            query.limit = Some((self.rng.below(30), skipped));
        }
    }
}

impl Typed {
    /// A reference to the column `column` of the relation `relation`.
    pub fn column(relation: &str, column: &Known) -> Typed {
        Typed {
            expr: Expr::column(relation, &column.name),
            known: column.clone(),
        }
    }

    pub fn kind(&self) -> Kind {
        self.known.kind
    }
}

/// The scope of one relation with these columns.
pub(crate) fn scope(relation: &str, columns: &[Known]) -> Scope {
    let in_scope = |c: &Known| InScope {
        relation: relation.to_owned(),
        known: c.clone(),
    };
    columns.iter().map(in_scope).collect()
}
