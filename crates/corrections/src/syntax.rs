//! Walks over syntax trees whose visitors are behind pointers.
//!
//! The parser's crate compiles the walk through all kinds of nodes, some thousands of functions,
//! anew for each type of visitor. Here it is compiled once for those that read and once for those
//! that change.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, ObjectName, OrderBy, Query, Select, SelectItem, Statement, TableFactor,
    ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// A node of a syntax tree that shows itself and what is below it.
pub trait Syntax {
    /// `Visit::visit`.
    fn show(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()>;

    /// `VisitMut::visit`.
    fn change(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()>;

    /// `visit_expressions`.
    fn each_expression(&self, look: &mut dyn FnMut(&Expr) -> ControlFlow<()>) -> ControlFlow<()> {
        struct Look<'f>(&'f mut dyn FnMut(&Expr) -> ControlFlow<()>);
        impl Visitor for Look<'_> {
            type Break = ();

            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
                (self.0)(expr)
            }
        }
        self.show(&mut Look(look))
    }

    /// `visit_expressions_mut`: an expression is changed after those in it.
    fn change_expressions(
        &mut self,
        change: &mut dyn FnMut(&mut Expr) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        struct Change<'f>(&'f mut dyn FnMut(&mut Expr) -> ControlFlow<()>);
        impl VisitorMut for Change<'_> {
            type Break = ();

            fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                (self.0)(expr)
            }
        }
        self.change(&mut Change(change))
    }

    /// `visit_relations`: the names of tables, including those that the node itself makes.
    fn each_relation(
        &self,
        look: &mut dyn FnMut(&ObjectName) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        struct Look<'f>(&'f mut dyn FnMut(&ObjectName) -> ControlFlow<()>);
        impl Visitor for Look<'_> {
            type Break = ();

            fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
                (self.0)(name)
            }
        }
        self.show(&mut Look(look))
    }
}

macro_rules! syntax {
    ($($node:ty),*) => {
        $(#[expect(clippy::disallowed_methods, reason = "compiled here and nowhere else")]
        impl Syntax for $node {
            fn show(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
                Visit::visit(self, &mut Reading(visitor))
            }

            fn change(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
                VisitMut::visit(self, &mut Changing(visitor))
            }
        })*
    };
}

syntax!(Statement, Query, Expr, SelectItem, GroupByExpr, OrderBy);

/// The type of all visitors that read.
struct Reading<'v>(&'v mut dyn Visitor<Break = ()>);

/// The type of all visitors that change.
struct Changing<'v>(&'v mut dyn VisitorMut<Break = ()>);

macro_rules! forwarded {
    ($($before:ident, $after:ident: $node:ty;)*) => {
        impl Visitor for Reading<'_> {
            type Break = ();
            $(
                fn $before(&mut self, node: &$node) -> ControlFlow<()> {
                    self.0.$before(node)
                }

                fn $after(&mut self, node: &$node) -> ControlFlow<()> {
                    self.0.$after(node)
                }
            )*
        }

        impl VisitorMut for Changing<'_> {
            type Break = ();
            $(
                fn $before(&mut self, node: &mut $node) -> ControlFlow<()> {
                    self.0.$before(node)
                }

                fn $after(&mut self, node: &mut $node) -> ControlFlow<()> {
                    self.0.$after(node)
                }
            )*
        }
    };
}

forwarded! {
    pre_visit_query, post_visit_query: Query;
    pre_visit_select, post_visit_select: Select;
    pre_visit_relation, post_visit_relation: ObjectName;
    pre_visit_table_factor, post_visit_table_factor: TableFactor;
    pre_visit_expr, post_visit_expr: Expr;
    pre_visit_statement, post_visit_statement: Statement;
    pre_visit_value, post_visit_value: ValueWithSpan;
}
