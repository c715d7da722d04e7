//! Statements that change the rows of a table.

use super::{Generator, Scope, Typed, scope};
use crate::ast::{Change, Expr, Item, NewRows, Query, Select};
use crate::data::{Kind, Known, KnownTable};

/// Rows of a table above which no rows of queries are added to it.
const MOST_ROWS: usize = 3_000;

/// A change of a table, and what is known of the table afterwards.
pub(crate) struct Changed {
    pub change: Change,
    pub rows: usize,
    pub columns: Vec<Known>,
}

impl Generator<'_> {
    /// A change of the rows of `table`.
    pub(crate) fn change(&mut self, table: &KnownTable) -> Changed {
        match self.rng.weighted(&[0.4, 0.2, 0.4]) {
            0 => self.insertion(table),
            1 => Changed {
                change: Change::Delete {
                    filters: self.meant_rows(&scope(&table.name, &table.columns)),
                },
                rows: table.rows,
                columns: table.columns.clone(),
            },
            _ => self.update(table),
        }
    }

    /// Conditions for the rows that a statement changes.
    fn meant_rows(&mut self, own: &Scope) -> Vec<Expr> {
        let mut select = Select::default();
        self.filters(&mut select, own, 2);
        if self.rng.chance(30) {
            let condition = self.subquery_condition(own);
            select.filters.push(condition);
        }
        // Without conditions all rows would be deleted or overwritten too often.
        if select.filters.is_empty() && self.rng.chance(90) {
            let condition = self.condition(own, 2);
            select.filters.push(condition.expr);
        }
        select.filters
    }

    fn insertion(&mut self, table: &KnownTable) -> Changed {
        let mut chosen: Vec<usize> = (0..table.columns.len()).collect();
        if self.rng.chance(30) {
            for at in (1..chosen.len()).rev() {
                chosen.swap(at, self.rng.below(at + 1));
            }
            chosen.truncate(1 + self.rng.below(chosen.len()));
        }
        let mut columns = table.columns.clone();
        columns.iter_mut().for_each(|c| c.unique = false);
        let (rows, count) = if table.rows > MOST_ROWS || self.rng.chance(40) {
            let count = 1 + self.rng.below(4);
            let row = |generator: &mut Self| {
                let values = chosen.iter().map(|&index| {
                    let column = &table.columns[index];
                    match generator.rng.chance(15) {
                        true => Expr::Text("NULL".into()),
                        false => generator.constant(column).expr,
                    }
                });
                values.collect()
            };
            (
                NewRows::Values((0..count).map(|_| row(self)).collect()),
                count,
            )
        } else {
            let source = match self.rng.chance(50) {
                true => table,
                false => self.any_table(),
            };
            let (mut select, inner) = self.some_rows(source);
            for (number, &index) in chosen.iter().enumerate() {
                let column = &mut columns[index];
                let value = self.value_for(column, &inner);
                lose(column, &value);
                select.items.push(Item {
                    expr: value.expr,
                    name: format!("c{number}"),
                    inexact: false,
                });
            }
            let query = Query::of(select);
            // DuckDB 2.0 reads rows that it is inserting where a set operation reads their table.
            let read = format!("{query:?}");
            let own = format!("Table({:?})", table.name);
            self.duck &= !(read.contains(&own) && read.contains("Set {"));
            (NewRows::Query(query), source.rows)
        };
        let names = chosen
            .iter()
            .map(|&index| table.columns[index].name.clone());
        Changed {
            change: Change::Insert {
                columns: names.collect(),
                rows,
            },
            rows: table.rows + count,
            columns,
        }
    }

    fn update(&mut self, table: &KnownTable) -> Changed {
        let own = scope(&table.name, &table.columns);
        let filters = self.meant_rows(&own);
        let mut columns = table.columns.clone();
        let mut set: Vec<(String, Expr)> = Vec::new();
        for _ in 0..=self.rng.below(3) {
            let index = self.rng.below(columns.len());
            let column = &mut columns[index];
            if set.iter().any(|(name, _)| *name == column.name) {
                continue;
            }
            let value = self.value_for(column, &own);
            lose(column, &value);
            column.unique = false;
            set.push((column.name.clone(), value.expr));
        }
        Changed {
            change: Change::Update { set, filters },
            rows: table.rows,
            columns,
        }
    }

    /// A value for `column`: of its type, or of one that is converted to it without rounding.
    fn value_for(&mut self, column: &Known, from: &Scope) -> Typed {
        let fits = |other: &Known| {
            other.data_type == column.data_type
                || (other.kind == column.kind && matches!(column.kind, Kind::Int | Kind::Text))
        };
        let fitting: Scope = from.iter().filter(|c| fits(&c.known)).cloned().collect();
        if column.kind == Kind::Null || self.rng.chance(10) {
            let mut null = self.constant(column);
            null.expr = Expr::Text("NULL".into());
            return null;
        }
        if fitting.is_empty() || self.rng.chance(25) {
            return self.constant(column);
        }
        let other = self.any_column(&fitting);
        if self.rng.chance(50) {
            return other;
        }
        match other.kind() {
            Kind::Int => {
                let constant = self.constant(&other.known);
                self.duck &= other.known.tame;
                self.made("({} + {})", vec![other, constant], Kind::Int)
            }
            Kind::Text => self.made("upper({})", vec![other], Kind::Text),
            Kind::Bool => self.made("(NOT {})", vec![other], Kind::Bool),
            _ => other,
        }
    }
}

/// Takes from `column` the properties that `value`, which it gets in some rows, does not have.
fn lose(column: &mut Known, value: &Typed) {
    column.tame &= value.known.tame;
    column.exact &= value.known.exact;
}
