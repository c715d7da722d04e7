//! Classifies statements by how they must be run with placed tables.

use datafusion::sql::parser::{CreateExternalTable, Statement};
use datafusion::sql::sqlparser::ast::{
    FromTable, ObjectName, Statement as Ast, TableFactor, TableObject, TableWithJoins,
};

/// The class of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StmtKind {
    /// Returns rows and changes nothing.
    Query,
    Explain,
    /// Creates this table of the schema `public`.
    Makes(String),
    /// Changes the rows of this table.
    Fills(String),
    /// Creates this table from files.
    External {
        /// Name of the table.
        name: String,
        /// Paths of its files.
        locations: Vec<String>,
    },
    View(String),
    /// Writes this file or folder.
    Copy(String),
    /// Changes something that both sessions must have alike: settings, dropped tables.
    Both,
    /// Runs on the session under test only: prepared statements, transactions.
    Alone,
    /// The parser rejects it.
    Unreadable,
}

impl StmtKind {
    pub(crate) fn of(statement: &Statement) -> StmtKind {
        match statement {
            Statement::Explain(_) => StmtKind::Explain,
            Statement::CopyTo(copy) => StmtKind::Copy(copy.target.clone()),
            Statement::Reset(_) => StmtKind::Both,
            // An unbounded source may never end, so it cannot be placed.
            Statement::CreateExternalTable(table) if table.unbounded => StmtKind::Both,
            Statement::CreateExternalTable(table) => external(table),
            Statement::Statement(ast) => of_ast(ast),
        }
    }

    /// The table that the statement creates or fills.
    pub(crate) fn table(&self) -> Option<&str> {
        match self {
            StmtKind::Makes(name) | StmtKind::Fills(name) | StmtKind::External { name, .. } => {
                Some(name)
            }
            _ => None,
        }
    }

    /// Whether the plain session must run it too, to stay in the same state.
    pub(crate) fn mirrored(&self) -> bool {
        matches!(
            self,
            StmtKind::Makes(_)
                | StmtKind::Fills(_)
                | StmtKind::External { .. }
                | StmtKind::View(_)
                | StmtKind::Both
        )
    }

    /// A file or folder that the statement needs and that does not exist.
    ///
    /// Files below `scratch` do not count, since the test file itself may write them later.
    pub(crate) fn lacks(&self) -> Option<&str> {
        let StmtKind::External { locations, .. } = self else {
            return None;
        };
        let there = |location: &str| {
            let path = location.strip_prefix("file://").unwrap_or(location);
            path.contains("/scratch/") || std::path::Path::new(path).exists()
        };
        locations.iter().map(String::as_str).find(|l| !there(l))
    }
}

fn external(table: &CreateExternalTable) -> StmtKind {
    plain_name(&table.name).map_or(StmtKind::Both, |name| StmtKind::External {
        name,
        locations: table.locations.clone(),
    })
}

fn of_ast(ast: &Ast) -> StmtKind {
    match ast {
        Ast::Query(query) => match query.body.as_select().and_then(|s| s.into.as_ref()) {
            Some(into) => plain_name(&into.name).map_or(StmtKind::Both, StmtKind::Makes),
            None => StmtKind::Query,
        },
        Ast::ShowTables { .. }
        | Ast::ShowColumns { .. }
        | Ast::ShowVariable { .. }
        | Ast::ShowFunctions { .. }
        | Ast::ExplainTable { .. } => StmtKind::Query,
        Ast::Explain { .. } => StmtKind::Explain,
        Ast::CreateTable(table) => plain_name(&table.name).map_or(StmtKind::Both, StmtKind::Makes),
        Ast::CreateView(view) => plain_name(&view.name).map_or(StmtKind::Both, StmtKind::View),
        Ast::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => fills(name),
            _ => StmtKind::Both,
        },
        Ast::Update(update) => of_table(&update.table),
        Ast::Delete(delete) => match &delete.from {
            FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables) => {
                tables.first().map_or(StmtKind::Both, of_table)
            }
        },
        Ast::Truncate(truncate) => match truncate.table_names.as_slice() {
            [one] => fills(&one.name),
            _ => StmtKind::Both,
        },
        Ast::Merge(merge) => of_factor(&merge.table),
        Ast::Prepare { .. }
        | Ast::Execute { .. }
        | Ast::Deallocate { .. }
        | Ast::StartTransaction { .. }
        | Ast::Commit { .. }
        | Ast::Rollback { .. } => StmtKind::Alone,
        _ => StmtKind::Both,
    }
}

fn of_table(table: &TableWithJoins) -> StmtKind {
    of_factor(&table.relation)
}

fn of_factor(factor: &TableFactor) -> StmtKind {
    match factor {
        TableFactor::Table { name, .. } => fills(name),
        _ => StmtKind::Both,
    }
}

fn fills(name: &ObjectName) -> StmtKind {
    plain_name(name).map_or(StmtKind::Both, StmtKind::Fills)
}

/// The name of a table in the only schema that the session has.
fn plain_name(name: &ObjectName) -> Option<String> {
    let parts = name.0.iter().map(|part| {
        let ident = part.as_ident()?;
        Some(match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_lowercase(),
        })
    });
    let parts: Vec<String> = parts.collect::<Option<_>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [table] | ["public", table] | ["datafusion", "public", table] => Some((*table).to_owned()),
        _ => None,
    }
}
