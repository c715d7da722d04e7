//! Statements as syntax trees, which can be generated, printed in two dialects, and shrunk.
//!
//! The trees keep only the structure that shrinking needs; operators and functions are text with
//! placeholders.

use std::fmt::Write;

/// The SQL dialect to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The dialect of DataFusion and Tierloom.
    DataFusion,
    /// The dialect of DuckDB.
    DuckDb,
}

/// An expression in a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A column of a relation in scope.
    Column {
        /// Alias of the relation; empty for an unqualified column.
        table: String,
        /// Name of the column.
        name: String,
    },
    /// A constant, as SQL text.
    Text(String),
    /// An operator or function: each `{}` in the form is a placeholder for the next argument.
    Apply {
        /// The form in DataFusion's dialect.
        form: String,
        /// The form in DuckDB's dialect, if it is different.
        duck: Option<String>,
        /// The expressions for the placeholders, in order.
        args: Vec<Expr>,
    },
    /// A form with a subquery in its last placeholder.
    Sub {
        /// The form: `{} IN {}`, `EXISTS {}` or `{}`.
        form: String,
        /// The expressions for the placeholders before the subquery.
        args: Vec<Expr>,
        /// The subquery, which is printed in parentheses.
        query: Box<Query>,
    },
}

impl Expr {
    /// A column of a relation in scope.
    pub fn column(table: &str, name: &str) -> Expr {
        Expr::Column {
            table: table.into(),
            name: name.into(),
        }
    }

    /// A form with its arguments, the same in both dialects.
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

    /// The SQL text in the given dialect.
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

/// A query with its common table expressions, order and limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The common table expressions (`WITH`), by name.
    pub with: Vec<(String, Query)>,
    /// The selection or set operation.
    pub body: Body,
    /// The keys of `ORDER BY`; empty for no order.
    pub order: Vec<Order>,
    /// Values of `LIMIT` and `OFFSET`.
    pub limit: Option<(usize, usize)>,
}

/// One key of `ORDER BY`.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The key: an expression or the number of a column.
    pub by: Expr,
    /// `DESC` instead of `ASC`.
    pub descending: bool,
    /// `NULLS FIRST` instead of `NULLS LAST`.
    pub nulls_first: bool,
}

/// The part of a query that produces its rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A single `SELECT`, possibly with groups.
    Select(Box<Select>),
    /// A set operation on two queries.
    Set {
        /// The operator, such as `UNION ALL`.
        operation: String,
        /// The left operand, printed in parentheses.
        left: Box<Query>,
        /// The right operand, printed in parentheses.
        right: Box<Query>,
    },
}

/// A `SELECT` without order and limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Select {
    /// Whether it is `SELECT DISTINCT`.
    pub distinct: bool,
    /// The columns of the result.
    pub items: Vec<Item>,
    /// The relations of the `FROM` clause, separated by commas.
    pub from: Vec<FromItem>,
    /// The conjuncts of `WHERE`.
    pub filters: Vec<Expr>,
    /// The expressions of `GROUP BY`.
    pub groups: Vec<Expr>,
    /// How they are grouped by.
    pub grouping: Grouping,
    /// The conjuncts of `HAVING`.
    pub having: Vec<Expr>,
}

/// How a `SELECT` groups by the expressions of its `GROUP BY`.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Grouping {
    /// By all of them.
    #[default]
    All,
    /// `ROLLUP`: by the first n of them, for each n.
    Rollup,
    /// `CUBE`: by each subset of them.
    Cube,
    /// `GROUPING SETS`: by these subsets, as positions in the list of expressions.
    Sets(Vec<Vec<usize>>),
}

/// A column of a `SELECT`.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The expression that computes it.
    pub expr: Expr,
    /// The alias that it gets.
    pub name: String,
    /// Whether its last digits depend on the order of floating-point additions.
    pub inexact: bool,
}

/// An entry of a `FROM` clause: a relation and the relations joined to it.
#[derive(Debug, Clone, PartialEq)]
pub struct FromItem {
    /// The relation that comes first.
    pub relation: Relation,
    /// The joins, in order.
    pub joins: Vec<Join>,
}

/// A join with the relations before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// The join type, such as `LEFT JOIN`.
    pub kind: String,
    /// The relation on the right side of the join.
    pub relation: Relation,
    /// The conjuncts of `ON`. If there are none, `ON true` is printed, or nothing for a cross join.
    pub on: Vec<Expr>,
}

/// A table or a subquery with an alias.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// The alias by which columns refer to it.
    pub alias: String,
    /// The table or subquery.
    pub what: RelationKind,
}

/// The kinds of relation.
#[derive(Debug, Clone, PartialEq)]
pub enum RelationKind {
    /// A table, a view or a common table expression, by name.
    Table(String),
    /// A subquery in the `FROM` clause.
    Query(Box<Query>),
}

impl Query {
    /// A query that consists of this selection.
    pub fn of(select: Select) -> Query {
        Query {
            with: Vec::new(),
            body: Body::Select(Box::new(select)),
            order: vec![],
            limit: None,
        }
    }

    /// The columns of the selection; of a set operation, those of its leftmost selection.
    pub fn items(&self) -> &[Item] {
        match &self.body {
            Body::Select(select) => &select.items,
            Body::Set { left, .. } => left.items(),
        }
    }

    /// For each column, whether its last digits may differ; of a set operation, in either operand.
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

    /// The SQL text in the given dialect.
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

    /// The SQL text in the given dialect.
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
        self.write_groups(dialect, out);
        list(" HAVING ", " AND ", &self.having, dialect, out);
    }

    fn write_groups(&self, dialect: Dialect, out: &mut String) {
        let word = match &self.grouping {
            _ if self.groups.is_empty() => return,
            Grouping::All => return list(" GROUP BY ", ", ", &self.groups, dialect, out),
            Grouping::Rollup => "ROLLUP",
            Grouping::Cube => "CUBE",
            Grouping::Sets(_) => "GROUPING SETS",
        };
        let _ = write!(out, " GROUP BY {word} (");
        match &self.grouping {
            Grouping::Sets(sets) => {
                for (index, set) in sets.iter().enumerate() {
                    out.push_str(if index == 0 { "(" } else { ", (" });
                    let members = set.iter().filter_map(|at| self.groups.get(*at)).cloned();
                    list("", ", ", &members.collect::<Vec<_>>(), dialect, out);
                    out.push(')');
                }
            }
            _ => list("", ", ", &self.groups, dialect, out),
        }
        out.push(')');
    }
}

fn list(first: &str, between: &str, exprs: &[Expr], dialect: Dialect, out: &mut String) {
    for (index, expr) in exprs.iter().enumerate() {
        out.push_str(if index == 0 { first } else { between });
        expr.write(dialect, out);
    }
}

impl FromItem {
    /// A relation without joins.
    pub fn of(relation: Relation) -> FromItem {
        FromItem {
            relation,
            joins: Vec::new(),
        }
    }

    fn write(&self, dialect: Dialect, out: &mut String) {
        self.relation.write(dialect, out);
        for join in &self.joins {
            // DuckDB has only left semi and anti joins, and writes them without the side.
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
    /// The table or view `name`, with an alias.
    pub fn table(name: &str, alias: &str) -> Relation {
        Relation {
            alias: alias.into(),
            what: RelationKind::Table(name.into()),
        }
    }

    /// A subquery with an alias.
    pub fn query(query: Query, alias: &str) -> Relation {
        Relation {
            alias: alias.into(),
            what: RelationKind::Query(Box::new(query)),
        }
    }

    fn write(&self, dialect: Dialect, out: &mut String) {
        match &self.what {
            RelationKind::Table(name) if *name == self.alias => out.push_str(name),
            RelationKind::Table(name) => {
                let _ = write!(out, "{name} AS {}", self.alias);
            }
            RelationKind::Query(query) => {
                out.push('(');
                query.write(dialect, out);
                let _ = write!(out, ") AS {}", self.alias);
            }
        }
    }
}

/// One statement of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// A query whose rows are compared.
    Query {
        /// The query to run.
        query: Query,
        /// Whether DuckDB runs it too.
        duck: bool,
    },
    /// `CREATE OR REPLACE TABLE ... AS`.
    CreateTable {
        /// Name of the new table.
        name: String,
        /// The query that fills it.
        query: Query,
    },
    /// `CREATE OR REPLACE VIEW`.
    CreateView {
        /// Name of the new view.
        name: String,
        /// The query that defines it.
        query: Query,
    },
    /// `DROP TABLE` or `DROP VIEW`.
    Drop {
        /// Name of the table or view.
        name: String,
        /// Whether it is a view.
        view: bool,
    },
    /// `INSERT`, `DELETE` or `UPDATE`.
    Change {
        /// Name of the table.
        name: String,
        /// What becomes of its rows.
        change: Change,
        /// Whether DuckDB runs it too.
        duck: bool,
    },
    /// A statement that only Tierloom's session runs, such as a setting.
    Own(String),
}

/// What a statement does with the rows of a table; columns of the table are qualified by its name.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Adds rows; columns that are not listed are NULL in them.
    Insert {
        /// The columns that get values.
        columns: Vec<String>,
        /// The new rows.
        rows: NewRows,
    },
    /// Removes the rows that fulfil all conditions.
    Delete {
        /// The conjuncts of `WHERE`.
        filters: Vec<Expr>,
    },
    /// Changes the rows that fulfil all conditions.
    Update {
        /// Columns and their new values.
        set: Vec<(String, Expr)>,
        /// The conjuncts of `WHERE`.
        filters: Vec<Expr>,
    },
}

/// The rows of an `INSERT`.
#[derive(Debug, Clone, PartialEq)]
pub enum NewRows {
    /// Those of a query.
    Query(Query),
    /// Those of `VALUES`.
    Values(Vec<Vec<Expr>>),
}

impl NewRows {
    /// The SQL text in the given dialect.
    pub fn sql(&self, dialect: Dialect) -> String {
        let rows = match self {
            NewRows::Query(query) => return query.sql(dialect),
            NewRows::Values(rows) => rows,
        };
        let mut out = String::from("VALUES ");
        for (index, row) in rows.iter().enumerate() {
            list(
                if index == 0 { "(" } else { ", (" },
                ", ",
                row,
                dialect,
                &mut out,
            );
            out.push(')');
        }
        out
    }
}

impl Change {
    fn sql(&self, name: &str, dialect: Dialect) -> String {
        match self {
            Change::Insert { columns, rows } => {
                let columns = columns.join(", ");
                format!("INSERT INTO {name} ({columns}) {}", rows.sql(dialect))
            }
            Change::Delete { filters } => {
                format!("DELETE FROM {name}{}", where_sql(filters, dialect))
            }
            Change::Update { set, filters } => {
                let set = set.iter();
                let set = set.map(|(column, value)| format!("{column} = {}", value.sql(dialect)));
                let set = set.collect::<Vec<_>>().join(", ");
                format!("UPDATE {name} SET {set}{}", where_sql(filters, dialect))
            }
        }
    }
}

/// The clause `WHERE` with a space before it; nothing if there are no conditions.
pub fn where_sql(filters: &[Expr], dialect: Dialect) -> String {
    let mut out = String::new();
    list(" WHERE ", " AND ", filters, dialect, &mut out);
    out
}

impl Statement {
    /// The SQL text in the given dialect.
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
            Statement::Change { name, change, .. } => change.sql(name, dialect),
            Statement::Own(text) => text.clone(),
        }
    }
}
