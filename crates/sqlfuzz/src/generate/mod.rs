//! Random statements, aimed at the operators of ours.

mod aggregates;
mod expressions;
mod literal;
mod relations;
mod shapes;
mod star;
mod subqueries;

use crate::ast::{Expr, Item, Order, Query, Statement};
use crate::data::{Kind, Known, KnownTable, World};
use crate::rng::Rng;

/// What a random query is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// An aggregation over a fact table and its dimensions.
    Star,
    /// One inside of something else.
    StarInside,
    /// Two or three relations joined in any way.
    Join,
    /// Groups of one relation.
    Group,
    /// Rows of one relation.
    Filter,
    /// Set operations.
    Set,
    /// Window functions.
    Window,
    /// Conditions with queries in them.
    Subquery,
}

impl Shape {
    /// All of them.
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

/// A column in scope: of which relation, and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct InScope {
    pub relation: String,
    pub known: Known,
}

/// The columns that an expression can use.
pub(crate) type Scope = Vec<InScope>;

/// An expression and what is known of its values.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub expr: Expr,
    pub known: Known,
}

/// Makes statements about the tables of a world.
pub struct Generator<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) world: &'a World,
    aliases: usize,
    /// Whether DuckDB means the same by all that was made since this was set.
    pub(crate) duck: bool,
}

impl<'a> Generator<'a> {
    /// Makes statements about `world`.
    pub fn new(rng: &'a mut Rng, world: &'a World) -> Self {
        Generator {
            rng,
            world,
            aliases: 0,
            duck: true,
        }
    }

    /// A query, and what is known of its columns.
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

    /// A new alias.
    pub(crate) fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("t{}", self.aliases)
    }

    /// Any table.
    pub(crate) fn any_table(&mut self) -> &'a KnownTable {
        let tables: &'a [KnownTable] = &self.world.tables;
        self.rng.pick(tables)
    }

    /// `typed` as column `name` of a selection, and what is known of that.
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

    /// Perhaps with an order, and with a limit where the order is total.
    pub(crate) fn finished(&mut self, mut query: Query, known: Vec<Known>) -> (Query, Vec<Known>) {
        if self.rng.chance(35) {
            self.order(&mut query, &known);
        }
        (query, known)
    }

    /// Orders by all columns, and perhaps limits.
    pub(crate) fn order(&mut self, query: &mut Query, known: &[Known]) {
        if known
            .iter()
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
        self.duck &= known.iter().all(|k| k.common);
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
    /// The column `column` of the relation `relation`.
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

/// `columns` in scope under `relation`.
pub(crate) fn scope(relation: &str, columns: &[Known]) -> Scope {
    let in_scope = |c: &Known| InScope {
        relation: relation.to_owned(),
        known: c.clone(),
    };
    columns.iter().map(in_scope).collect()
}
