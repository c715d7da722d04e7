//! What the sessions of one engine share, and how they keep out of each other's way.
//!
//! Tables, views, their statistics and the settings of the machine are common to all; a session has
//! its own settings of DataFusion, threads, prepared statements and running statement. A statement
//! that changes a table holds the table's name, so that two of them run one after the other.
//! Readers keep the table that they planned with.

use super::admission::{Admission, POLL};
use super::error::SqlError;
use super::run::Watch;
use super::settings::SessionSettings;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, Ident, ObjectName, ObjectNamePart, RenameTableNameKind,
    SchemaName, Statement as Ast,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tierloom_corrections::Syntax;

/// The state behind all sessions of an engine.
pub(super) struct Shared {
    pub admission: Admission,
    /// Held while views are planned again, so that the last to plan saw all changes before.
    pub binding: Mutex<()>,
    /// Bytes read from each column so far, by "table.column".
    reads: Mutex<BTreeMap<String, u64>>,
    /// The settings of the machine; their number counts changes.
    settings: Mutex<(u64, SessionSettings)>,
    /// Changes of tables and views.
    changes: AtomicU64,
    /// Sessions so far.
    owners: AtomicU64,
    /// Names that statements hold which change what has them.
    held: Mutex<BTreeSet<String>>,
    let_go: Condvar,
}

/// What a session has seen of the changes of others.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Seen {
    settings: u64,
    tables: u64,
}

/// Names held by a statement; others can have them once this is dropped.
pub(super) struct Held {
    shared: Arc<Shared>,
    names: Vec<String>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = lock(&self.shared.held);
        for name in &self.names {
            held.remove(name);
        }
        self.shared.let_go.notify_all();
    }
}

impl Shared {
    pub fn new(settings: SessionSettings) -> Self {
        Shared {
            admission: Admission::default(),
            binding: Mutex::default(),
            reads: Mutex::default(),
            settings: Mutex::new((0, settings)),
            changes: AtomicU64::new(0),
            owners: AtomicU64::new(0),
            held: Mutex::default(),
            let_go: Condvar::new(),
        }
    }

    /// Waits until no other statement holds one of `names`, and holds them.
    ///
    /// All at once, so that two statements never wait for each other.
    pub fn hold(self: &Arc<Self>, names: Vec<String>, watch: &dyn Watch) -> Result<Held, SqlError> {
        let mut held = lock(&self.held);
        while names.iter().any(|name| held.contains(name)) {
            if watch.stopped() {
                return Err(SqlError::Interrupted);
            }
            let waited = self.let_go.wait_timeout(held, POLL);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        held.extend(names.iter().cloned());
        drop(held);
        let shared = Arc::clone(self);
        Ok(Held { shared, names })
    }

    /// Bytes read from each column so far, by "table.column".
    pub fn reads(&self) -> BTreeMap<String, u64> {
        lock(&self.reads).clone()
    }

    pub fn add_reads(&self, more: &BTreeMap<String, u64>) {
        let mut reads = lock(&self.reads);
        for (column, bytes) in more {
            *reads.entry(column.clone()).or_default() += bytes;
        }
    }

    /// Forgets the reads and the placements of a table.
    pub fn forget(&self, table: &str) {
        let inside = format!("{table}.");
        lock(&self.reads).retain(|name, _| !name.starts_with(&inside));
        let mut settings = lock(&self.settings);
        settings.1.forget_placements(table);
        settings.0 += 1;
    }

    /// Makes the settings of the machine those of a session.
    pub fn publish(&self, own: &SessionSettings) {
        let mut settings = lock(&self.settings);
        settings.1.follow(own);
        settings.0 += 1;
    }

    /// A number that no other session has.
    pub fn new_owner(&self) -> u64 {
        1 + self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a change of a table or view.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The settings of the machine, if they changed since `seen`.
    pub fn settings_since(&self, seen: &mut Seen) -> Option<SessionSettings> {
        let settings = lock(&self.settings);
        if settings.0 == seen.settings {
            return None;
        }
        seen.settings = settings.0;
        Some(settings.1.clone())
    }

    /// Whether tables or views changed since `seen`.
    pub fn tables_since(&self, seen: &mut Seen) -> bool {
        let now = self.changes.load(Ordering::SeqCst);
        std::mem::replace(&mut seen.tables, now) != now
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a single insertion or removal, so a panic elsewhere leaves it consistent.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of tables and views that a statement changes, or that it changes others by.
pub(super) fn changed_by(parsed: &Parsed) -> Vec<String> {
    let names: Vec<&ObjectName> = match parsed {
        Parsed::CreateExternalTable(table) => vec![&table.name],
        Parsed::Statement(ast) => match ast.as_ref() {
            Ast::CreateTable(table) => vec![&table.name],
            Ast::CreateView(view) => vec![&view.name],
            Ast::AlterTable(alter) => altered(alter),
            Ast::CreateSchema {
                schema_name: SchemaName::Simple(name),
                ..
            } => vec![name],
            Ast::Drop { names, .. } => names.iter().collect(),
            Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) | Ast::Truncate(_) => {
                return relations(ast);
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    names.into_iter().filter_map(plain).collect()
}

/// A table and the name that it gets.
fn altered(alter: &AlterTable) -> Vec<&ObjectName> {
    let renamed = alter.operations.iter().filter_map(|operation| {
        let AlterTableOperation::RenameTable { table_name } = operation else {
            return None;
        };
        let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = table_name;
        Some(name)
    });
    std::iter::once(&alter.name).chain(renamed).collect()
}

fn relations(ast: &Ast) -> Vec<String> {
    let mut names = Vec::new();
    let _ = ast.each_relation(&mut |name| {
        names.extend(plain(name));
        ControlFlow::Continue(())
    });
    names
}

/// The name in schema `public`, as the planner normalises it.
pub(super) fn plain(name: &ObjectName) -> Option<String> {
    match name.0.last()? {
        ObjectNamePart::Identifier(Ident {
            value,
            quote_style: None,
            ..
        }) => Some(value.to_lowercase()),
        ObjectNamePart::Identifier(quoted) => Some(quoted.value.clone()),
        ObjectNamePart::Function(_) => None,
    }
}
