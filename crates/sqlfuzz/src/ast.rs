//! Statements as trees, so that they can be made, written in two dialects, and shrunk.

use std::fmt::Write;

/// Whose SQL is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// DataFusion's, which is Tierloom's.
    DataFusion,
    /// DuckDB's.
    DuckDb,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A column of a relation in scope.
    Column {
        /// The relation's alias.
        table: String,
        /// The column.
        name: String,
    },
    /// A constant, as it is written.
    Text(String),
    /// Something made of other expressions: `{}` in the form stands for the next one.
    Apply {
        /// As DataFusion writes it.
        form: String,
        /// As DuckDB writes it, if otherwise.
        duck: Option<String>,
        /// What is put in.
        args: Vec<Expr>,
    },
    /// A form around a query, which stands for the last `{}`.
    Sub {
        /// `{} IN {}`, `EXISTS {}`, `{}`.
        form: String,
        /// What is put in before the query.
        args: Vec<Expr>,
        /// The query, put in brackets.
        query: Box<Query>,
    },
}

impl Expr {
    /// A column.
    pub fn column(table: &str, name: &str) -> Expr {
        Expr::Column {
            table: table.into(),
            name: name.into(),
        }
    }

    /// A form with its parts.
    pub fn apply(form: &str, args: Vec<Expr>) -> Expr {
        Expr::Apply {
            form: form.into(),
            duck: None,
            args,
        }
    }

    fn write(&self, dialect: Dialect, out: &mut String) {
        match self {
            Expr::Column { table, name } if table.is_empty() => out.push_str(name),
            Expr::Column { table, name } => {
                let _ = write!(out, "{table}.{name}");
            }
            Expr::Text(text) => out.push_str(text),
            Expr::Apply { form, duck, args } => {
                let form = match (dialect, duck) {
                    (Dialect::DuckDb, Some(duck)) => duck,
                    _ => form,
                };
                fill(form, args, None, dialect, out);
            }
            Expr::Sub { form, args, query } => fill(form, args, Some(query), dialect, out),
        }
    }

    /// As SQL.
    pub fn sql(&self, dialect: Dialect) -> String {
        let mut out = String::new();
        self.write(dialect, &mut out);
        out
    }
}

fn fill(form: &str, args: &[Expr], query: Option<&Query>, dialect: Dialect, out: &mut String) {
    let mut args = args.iter();
    let mut parts = form.split("{}");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        match (args.next(), query) {
            (Some(arg), _) => arg.write(dialect, out),
            (None, Some(query)) => {
                out.push('(');
                query.write(dialect, out);
                out.push(')');
            }
            (None, None) => out.push_str("NULL"),
        }
        out.push_str(part);
    }
}

/// A query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Named queries before it.
    pub with: Vec<(String, Query)>,
    /// What gives the rows.
    pub body: Body,
    /// Order of the rows.
    pub order: Vec<Order>,
    /// How many, and how many are left out before.
    pub limit: Option<(usize, usize)>,
}

/// One key of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// What it is by: an expression or a column's number.
    pub by: Expr,
    /// From the largest down.
    pub descending: bool,
    /// NULL first.
    pub nulls_first: bool,
}

/// What gives rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A selection.
    Select(Box<Select>),
    /// A set operation.
    Set {
        /// `UNION ALL` and the like.
        operation: String,
        /// One side.
        left: Box<Query>,
        /// The other.
        right: Box<Query>,
    },
}

/// A selection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Select {
    /// Each row once.
    pub distinct: bool,
    /// Its columns.
    pub items: Vec<Item>,
    /// Its relations, with commas in between.
    pub from: Vec<Source>,
    /// Conditions, all of which hold.
    pub filters: Vec<Expr>,
    /// What it is grouped by.
    pub groups: Vec<Expr>,
    /// Conditions on groups, all of which hold.
    pub having: Vec<Expr>,
}

/// A column of a selection.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its value.
    pub expr: Expr,
    /// Its name.
    pub name: String,
    /// Whether the order of additions shows in its last digits.
    pub inexact: bool,
}

/// A relation and what is joined to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The first relation.
    pub relation: Relation,
    /// The others.
    pub joins: Vec<Join>,
}

/// A join with what stands before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// `LEFT JOIN` and the like.
    pub kind: String,
    /// What is joined.
    pub relation: Relation,
    /// Conditions; none is written as `ON true`, and not at all for a cross join.
    pub on: Vec<Expr>,
}

/// A table or a query with an alias.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// Its alias.
    pub alias: String,
    /// What it is.
    pub what: What,
}

/// What a relation is.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A table, a view or a query with a name.
    Table(String),
    /// A query.
    Query(Box<Query>),
}

impl Query {
    /// A selection as a query.
    pub fn of(select: Select) -> Query {
        Query {
            with: Vec::new(),
            body: Body::Select(Box::new(select)),
            order: vec![],
            limit: None,
        }
    }

    /// The items of its first selection.
    pub fn items(&self) -> &[Item] {
        match &self.body {
            Body::Select(select) => &select.items,
            Body::Set { left, .. } => left.items(),
        }
    }

    /// Which columns may differ in their last digits: those that do in any part of it.
    pub fn inexact(&self) -> Vec<bool> {
        match &self.body {
            Body::Select(select) => select.items.iter().map(|i| i.inexact).collect(),
            Body::Set { left, right, .. } => left
                .inexact()
                .iter()
                .zip(right.inexact())
                .map(|(a, b)| *a || b)
                .collect(),
        }
    }

    /// As SQL.
    pub fn sql(&self, dialect: Dialect) -> String {
        let mut out = String::new();
        self.write(dialect, &mut out);
        out
    }

    fn write(&self, dialect: Dialect, out: &mut String) {
        for (index, (name, query)) in self.with.iter().enumerate() {
            let word = if index == 0 { "WITH " } else { ", " };
            let _ = write!(out, "{word}{name} AS (");
            query.write(dialect, out);
            out.push(')');
        }
        if !self.with.is_empty() {
            out.push(' ');
        }
        match &self.body {
            Body::Select(select) => select.write(dialect, out),
            Body::Set {
                operation,
                left,
                right,
            } => {
                out.push('(');
                left.write(dialect, out);
                let _ = write!(out, ") {operation} (");
                right.write(dialect, out);
                out.push(')');
            }
        }
        for (index, order) in self.order.iter().enumerate() {
            out.push_str(if index == 0 { " ORDER BY " } else { ", " });
            order.write(dialect, out);
        }
        if let Some((rows, skipped)) = self.limit {
            let _ = write!(out, " LIMIT {rows}");
            if skipped > 0 {
                let _ = write!(out, " OFFSET {skipped}");
            }
        }
    }
}

impl Order {
    fn write(&self, dialect: Dialect, out: &mut String) {
        self.by.write(dialect, out);
        out.push_str(if self.descending { " DESC" } else { " ASC" });
        out.push_str(if self.nulls_first {
            " NULLS FIRST"
        } else {
            " NULLS LAST"
        });
    }

    /// As SQL.
    pub fn sql(&self, dialect: Dialect) -> String {
        let mut out = String::new();
        self.write(dialect, &mut out);
        out
    }
}

impl Select {
    fn write(&self, dialect: Dialect, out: &mut String) {
        out.push_str(if self.distinct {
            "SELECT DISTINCT "
        } else {
            "SELECT "
        });
        for (index, item) in self.items.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { ", " });
            item.expr.write(dialect, out);
            let _ = write!(out, " AS {}", item.name);
        }
        for (index, source) in self.from.iter().enumerate() {
            out.push_str(if index == 0 { " FROM " } else { ", " });
            source.write(dialect, out);
        }
        list(" WHERE ", " AND ", &self.filters, dialect, out);
        list(" GROUP BY ", ", ", &self.groups, dialect, out);
        list(" HAVING ", " AND ", &self.having, dialect, out);
    }
}

fn list(first: &str, between: &str, exprs: &[Expr], dialect: Dialect, out: &mut String) {
    for (index, expr) in exprs.iter().enumerate() {
        out.push_str(if index == 0 { first } else { between });
        expr.write(dialect, out);
    }
}

impl Source {
    fn write(&self, dialect: Dialect, out: &mut String) {
        self.relation.write(dialect, out);
        for join in &self.joins {
            // DuckDB has semi joins of one side only.
            let kind = match dialect {
                Dialect::DuckDb => join
                    .kind
                    .replace("LEFT SEMI", "SEMI")
                    .replace("LEFT ANTI", "ANTI"),
                Dialect::DataFusion => join.kind.clone(),
            };
            let _ = write!(out, " {kind} ");
            join.relation.write(dialect, out);
            match join.on.is_empty() {
                true if join.kind == "CROSS JOIN" => {}
                true => out.push_str(" ON true"),
                false => list(" ON ", " AND ", &join.on, dialect, out),
            }
        }
    }
}

impl Relation {
    /// A table.
    pub fn table(name: &str, alias: &str) -> Relation {
        Relation {
            alias: alias.into(),
            what: What::Table(name.into()),
        }
    }

    /// A query.
    pub fn query(query: Query, alias: &str) -> Relation {
        Relation {
            alias: alias.into(),
            what: What::Query(Box::new(query)),
        }
    }

    fn write(&self, dialect: Dialect, out: &mut String) {
        match &self.what {
            What::Table(name) if *name == self.alias => out.push_str(name),
            What::Table(name) => {
                let _ = write!(out, "{name} AS {}", self.alias);
            }
            What::Query(query) => {
                out.push('(');
                query.write(dialect, out);
                let _ = write!(out, ") AS {}", self.alias);
            }
        }
    }
}

/// A statement of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// A query, whose rows are compared.
    Query {
        /// The query.
        query: Query,
        /// Whether DuckDB is asked too.
        duck: bool,
    },
    /// A table of a query's rows.
    CreateTable {
        /// Its name.
        name: String,
        /// Its rows.
        query: Query,
    },
    /// A view.
    CreateView {
        /// Its name.
        name: String,
        /// Its query.
        query: Query,
    },
    /// The end of a table or view.
    Drop {
        /// Its name.
        name: String,
        /// Whether it is a view.
        view: bool,
    },
    /// A statement for Tierloom's session alone.
    Own(String),
}

impl Statement {
    /// As SQL.
    pub fn sql(&self, dialect: Dialect) -> String {
        match self {
            Statement::Query { query, .. } => query.sql(dialect),
            Statement::CreateTable { name, query } => {
                format!("CREATE OR REPLACE TABLE {name} AS {}", query.sql(dialect))
            }
            Statement::CreateView { name, query } => {
                format!("CREATE OR REPLACE VIEW {name} AS {}", query.sql(dialect))
            }
            Statement::Drop { name, view } => {
                format!("DROP {} {name}", if *view { "VIEW" } else { "TABLE" })
            }
            Statement::Own(text) => text.clone(),
        }
    }
}
