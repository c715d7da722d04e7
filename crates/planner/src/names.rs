//! Which columns the names and wildcards of a text may mean.

use arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, TableFactor,
    TableWithJoins, Visitor,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use tierloom_corrections::Syntax;

/// What a query may mean by the names in its text.
pub(crate) struct Mentions {
    /// All words of the text in small letters.
    words: HashSet<String>,
    /// Names, in small letters, of tables of which a wildcard or a list of other names for their
    /// columns means every column.
    whole: HashSet<String>,
}

impl Mentions {
    /// `None` if columns may be meant that are not named, or if the statement is no query.
    pub fn of(sql: &str, statement: &Statement) -> Option<Self> {
        let Statement::Statement(inner) = statement else {
            return None;
        };
        let ast::Statement::Query(query) = inner.as_ref() else {
            return None;
        };
        let words = words(sql)?;
        if words.contains("natural") {
            return None;
        }
        let mut wildcards = Wildcards::default();
        match query.show(&mut wildcards) {
            ControlFlow::Continue(()) => Some(Mentions {
                words,
                whole: wildcards.whole,
            }),
            ControlFlow::Break(()) => None,
        }
    }

    /// Numbers of the columns that may be meant, at least one; `None` for all.
    pub fn columns(&self, table: &str, schema: &SchemaRef) -> Option<Vec<usize>> {
        if self.whole.contains(&table.to_lowercase()) {
            return None;
        }
        let fields = schema.fields().iter().enumerate();
        let mut columns: Vec<_> = fields
            .filter(|(_, field)| self.may_mean(field.name()))
            .map(|(at, _)| at)
            .collect();
        if columns.is_empty() && !schema.fields().is_empty() {
            columns.push(0);
        }
        (columns.len() < schema.fields().len()).then_some(columns)
    }

    fn may_mean(&self, column: &str) -> bool {
        // Other names are written with quotes, in which some characters are written twice.
        let is_word = !column.is_empty() && column.bytes().all(is_word_byte) && column.is_ascii();
        !is_word || self.words.contains(&column.to_ascii_lowercase())
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The words of the text in small letters; `None` if a word begins within one.
fn words(sql: &str) -> Option<HashSet<String>> {
    let lower = sql.to_ascii_lowercase();
    let mut words = HashSet::new();
    for word in lower.split(|c: char| c.is_ascii() && !is_word_byte(c as u8)) {
        // Dialects may read `1x` as a number and a name.
        let mut bytes = word.bytes();
        match bytes.next() {
            Some(b'0'..=b'9') if !bytes.all(|b| b.is_ascii_digit()) => return None,
            Some(b'0'..=b'9') | None => {}
            Some(_) => drop(words.insert(word.to_owned())),
        }
    }
    Some(words)
}

/// Looks for what means columns without their names; breaks where it cannot tell of which table.
#[derive(Default)]
struct Wildcards {
    whole: HashSet<String>,
    /// The operands of `EXISTS`, which asks for rows only.
    only_rows: Vec<*const ast::Query>,
}

impl Wildcards {
    fn query(&mut self, body: &SetExpr, only_rows: bool) -> ControlFlow<()> {
        match body {
            SetExpr::Select(select) => {
                let wildcard = select.projection.iter().any(|item| {
                    matches!(
                        item,
                        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
                    )
                });
                if wildcard && !only_rows {
                    return select
                        .from
                        .iter()
                        .try_for_each(|from| self.all_joined(from));
                }
                ControlFlow::Continue(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.query(left, false)?;
                self.query(right, false)
            }
            // Visited by itself.
            SetExpr::Query(_) | SetExpr::Values(_) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    /// All columns of the tables are meant. Those of subqueries are their own affair.
    fn all_of(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, .. } => {
                let Some(table) = name.0.last().and_then(|part| part.as_ident()) else {
                    return ControlFlow::Break(());
                };
                self.whole.insert(table.value.to_lowercase());
                ControlFlow::Continue(())
            }
            TableFactor::Derived { .. } => ControlFlow::Continue(()),
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => self.all_joined(table_with_joins),
            _ => ControlFlow::Break(()),
        }
    }

    fn all_joined(&mut self, tables: &TableWithJoins) -> ControlFlow<()> {
        self.all_of(&tables.relation)?;
        let mut joins = tables.joins.iter();
        joins.try_for_each(|join| self.all_of(&join.relation))
    }
}

impl Visitor for Wildcards {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let only_rows = self
            .only_rows
            .iter()
            .any(|known| std::ptr::eq(*known, query));
        self.query(&query.body, only_rows)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { alias, .. } => match alias {
                // New names by position.
                Some(alias) if !alias.columns.is_empty() => self.all_of(factor),
                _ => ControlFlow::Continue(()),
            },
            TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => {
                ControlFlow::Continue(())
            }
            // PIVOT groups by columns that it does not name.
            _ => ControlFlow::Break(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::Exists { subquery, .. } => {
                self.only_rows.push(std::ptr::from_ref(subquery.as_ref()));
                ControlFlow::Continue(())
            }
            ast::Expr::Wildcard(_) | ast::Expr::QualifiedWildcard(..) => ControlFlow::Break(()),
            ast::Expr::Function(call) if has_wildcard(call) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether a function is called with a wildcard; `count(*)` means rows.
fn has_wildcard(call: &ast::Function) -> bool {
    let FunctionArguments::List(list) = &call.args else {
        return false;
    };
    let counts = call.name.to_string().eq_ignore_ascii_case("count");
    list.args.iter().any(|argument| match argument {
        FunctionArg::Unnamed(argument)
        | FunctionArg::Named { arg: argument, .. }
        | FunctionArg::ExprNamed { arg: argument, .. } => match argument {
            FunctionArgExpr::Expr(_) => false,
            FunctionArgExpr::Wildcard => !counts,
            _ => true,
        },
    })
}
