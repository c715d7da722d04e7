//! The session under test, with the interface that the test runner drives.

use crate::SuiteError;
use crate::kind::StmtKind;
use crate::lost::Lost;
use crate::plain::{PARTITIONS, PlainSession, QueryResult};
use crate::reason::OF_FILES;
use crate::render::ColumnKind;
use crate::stamp::Stamp;
use arrow::datatypes::Schema;
use sqllogictest::{DB, DBOutput};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_engine::EngineOptions;
use tierloom_memory::{FakeBackend, FakeNode, PageSize, fake_topology};
use tierloom_sql::{CollectedRows, CsvOptions, Silent, SqlError, SqlOptions, SqlSession, split};

/// The label of the session in conditions of records (`onlyif`, `skipif`).
pub(crate) const ENGINE: &str = "Datafusion";

/// Memory of each of the two simulated nodes.
const NODE_BYTES: u64 = 4 << 30;

/// What happened to the last statement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Note {
    pub(crate) kind: Option<StmtKind>,
    /// Whether the plain session ran it and its table was then placed.
    pub(crate) set_up: bool,
    /// The tables that the statement names.
    pub(crate) tables: Vec<String>,
    /// The rows that the session returned.
    pub(crate) rows: Option<Vec<Vec<String>>>,
    /// Whether it reads a placed table.
    pub(crate) placed: bool,
    /// Panics inside the session.
    pub(crate) panics: Vec<String>,
    /// Whether the plain session could run it; `None` if it was not tried there.
    pub(crate) plain_ran: Option<bool>,
    /// Whether files that it needs do not exist.
    pub(crate) no_data: bool,
}

/// A session whose tables are placed, and a plain one in the same state.
pub(crate) struct SessionPair {
    session: SqlSession,
    pub(crate) plain: PlainSession,
    folder: PathBuf,
    /// Views that read placed tables.
    views: BTreeSet<String>,
    /// Placed copies of external tables, whose files later statements may change.
    externals: BTreeMap<String, (Vec<String>, Stamp)>,
    /// Tables and files that are missing or incomplete.
    pub(crate) lost: Lost,
    files: usize,
    pub(crate) note: Note,
}

/// The pair of sessions that runs one test file.
#[derive(Clone)]
pub(crate) struct SharedPair(Arc<Mutex<SessionPair>>);

/// The error message of a statement.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ErrorText(pub(crate) String);

impl SharedPair {
    /// Sessions without tables, which keep their files in `folder`.
    pub(crate) fn new(folder: PathBuf) -> Result<Self, SuiteError> {
        let node = |node, cpus| FakeNode {
            node,
            cpus,
            memory_bytes: NODE_BYTES,
        };
        let topology = fake_topology(&[node(0, 2), node(1, 0)]);
        let topology = topology.map_err(|e| SuiteError::Suite(e.to_string()))?;
        let session = SqlSession::new(SqlOptions {
            // The files set memory limits that fit batches of this size.
            engine: EngineOptions {
                batch_rows: 8 * 1024,
                ..EngineOptions::tuned(PARTITIONS)
            },
            topology,
            page_size: PageSize::Base,
            placement: "3:2".parse().map_err(|_| SuiteError::Suite("3:2".into()))?,
            backend: Arc::new(FakeBackend::with_nodes(&[(0, NODE_BYTES), (1, NODE_BYTES)])),
        });
        Ok(SharedPair(Arc::new(Mutex::new(SessionPair {
            session: session.map_err(|e| SuiteError::Suite(e.to_string()))?,
            plain: PlainSession::new()?,
            folder,
            views: BTreeSet::new(),
            externals: BTreeMap::new(),
            lost: Lost::default(),
            files: 0,
            note: Note::default(),
        }))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SessionPair> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DB for SharedPair {
    type Error = ErrorText;
    type ColumnType = ColumnKind;

    fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnKind>, ErrorText> {
        let mut pair = self.lock();
        let answer = pair.run(sql).map_err(ErrorText)?;
        let (types, rows) = (answer.kinds(), answer.rows().map_err(ErrorText)?);
        pair.note.rows = Some(rows.clone());
        if rows.is_empty() && types.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        Ok(DBOutput::Rows { types, rows })
    }

    fn engine_name(&self) -> &'static str {
        ENGINE
    }
}

impl SessionPair {
    fn run(&mut self, sql: &str) -> Result<QueryResult, String> {
        let (kind, names) = self.plain.read(sql);
        let placed = names.iter().any(|name| self.is_placed(name));
        self.note = Note {
            placed,
            tables: names,
            kind: Some(kind.clone()),
            ..Note::default()
        };
        panics::take();
        let asked = catch_unwind(AssertUnwindSafe(|| self.ask_session(sql)));
        let ours = asked.unwrap_or_else(|_| Err("the session panicked".to_owned()));
        let of_files = matches!(&kind, StmtKind::Fills(name) if self.externals.contains_key(name));
        let ours = match ours {
            // The suite expects that the files of the table change, or cannot.
            Ok(_) if of_files => Err(OF_FILES.to_owned()),
            ours => ours,
        };
        self.note.panics = panics::take();
        let answer = match ours {
            Ok(answer) if kind.mirrored() => {
                self.note.plain_ran = Some(self.plain.run(sql).is_ok());
                Ok(answer)
            }
            Ok(answer) => Ok(answer),
            Err(message) if kind.lacks().is_some() => {
                self.note.no_data = true;
                Err(message)
            }
            Err(message) if kind == StmtKind::Alone || kind == StmtKind::Explain => Err(message),
            Err(message) => self.without_session(sql, &kind, message),
        };
        panics::take();
        let answer = answer?;
        match &kind {
            StmtKind::View(name) if placed => {
                self.views.insert(name.clone());
            }
            StmtKind::Makes(_) | StmtKind::Fills(_) | StmtKind::Copy(_) => {
                self.place_externals()?
            }
            _ => {}
        }
        Ok(answer)
    }

    /// Handles a statement that the session refuses: the plain session may create or fill the
    /// table, which is then placed.
    fn without_session(
        &mut self,
        sql: &str,
        kind: &StmtKind,
        message: String,
    ) -> Result<QueryResult, String> {
        let theirs = self.plain.run(sql);
        self.note.plain_ran = Some(theirs.is_ok());
        let Ok(theirs) = theirs else {
            if let (StmtKind::Fills(name), OF_FILES) = (kind, message.as_str()) {
                self.place(name)?;
            }
            return Err(message);
        };
        match kind {
            StmtKind::Copy(_) => {}
            StmtKind::Makes(name) | StmtKind::Fills(name) => self.place(name)?,
            StmtKind::External { name, locations } => {
                self.place(name)?;
                let stamped = (locations.clone(), Stamp::of(locations));
                self.externals.insert(name.clone(), stamped);
            }
            _ => return Err(message),
        }
        self.note.set_up = true;
        Ok(theirs)
    }

    /// Places external tables again whose files have changed.
    fn place_externals(&mut self) -> Result<(), String> {
        let there: BTreeSet<String> = self.session.tables().into_iter().map(|t| t.name).collect();
        self.externals.retain(|name, _| there.contains(name));
        let mut changed = Vec::new();
        for (name, (locations, stamp)) in &mut self.externals {
            let now = Stamp::of(locations);
            if now != *stamp {
                *stamp = now;
                changed.push(name.clone());
            }
        }
        changed.iter().try_for_each(|name| self.place(name))
    }

    fn is_placed(&self, name: &str) -> bool {
        let tables = self.session.tables();
        let found = tables.iter().find(|table| table.name == name);
        found.is_some_and(|table| match table.kind {
            "view" => self.views.contains(name),
            kind => kind == "table",
        })
    }

    fn ask_session(&mut self, sql: &str) -> Result<QueryResult, String> {
        let mut kept = CollectedRows::default();
        let (mut message, mut changed) = (None, None);
        let mut run = || -> Result<(), SqlError> {
            for piece in split(sql)? {
                let outcome = self.session.run(&piece, &mut kept, &Silent::default())?;
                message = outcome.message;
                changed = outcome.rows;
            }
            Ok(())
        };
        run().map_err(|e| e.to_string())?;
        if kept.schema.is_none() {
            let written = message.as_deref().and_then(rows_written);
            if let Some(count) = written.or(changed) {
                return counted(count);
            }
        }
        Ok(QueryResult {
            schema: kept.schema.unwrap_or_else(|| Schema::empty().into()),
            batches: kept.batches,
        })
    }

    /// Places the rows that a table has in the plain session now.
    fn place(&mut self, name: &str) -> Result<(), String> {
        self.files += 1;
        let file = self.folder.join(format!("placed-{}.arrows", self.files));
        let written = self.plain.write_table(name, &file);
        written.map_err(|e| e.strip_backtrace())?;
        let known = self.session.tables().into_iter().any(|t| t.name == name);
        if known {
            self.ask_session(&format!("DROP TABLE \"{name}\""))?;
        }
        let options = CsvOptions::default();
        let loaded = self
            .session
            .load_files(name, &file, options, &Silent::default());
        let removed = std::fs::remove_file(&file);
        loaded.map_err(|e| format!("cannot be placed: {e}"))?;
        removed.map_err(|e| e.to_string())
    }
}

/// The number of rows that `COPY` has written, from the session's message.
fn rows_written(message: &str) -> Option<u64> {
    let rows = message.strip_prefix("wrote ")?.split_once(" rows to ")?.0;
    rows.parse().ok()
}

/// The row that DataFusion returns for `COPY` and for changes of tables.
fn counted(rows: u64) -> Result<QueryResult, String> {
    use arrow::array::{RecordBatch, UInt64Array};
    let rows = UInt64Array::from(vec![rows]);
    let batch = RecordBatch::try_from_iter([("count", Arc::new(rows) as _)]);
    let batch = batch.map_err(|e| e.to_string())?;
    Ok(QueryResult {
        schema: batch.schema(),
        batches: vec![batch],
    })
}

/// Records panics of all threads of this process, with a hook that the first call installs.
mod panics {
    use std::sync::{Mutex, Once, PoisonError};

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static HOOK: Once = Once::new();

    /// The panics since the last call.
    pub(super) fn take() -> Vec<String> {
        HOOK.call_once(|| {
            std::panic::set_hook(Box::new(|info| {
                eprintln!("{info}");
                let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
                seen.push(info.to_string());
            }));
        });
        std::mem::take(&mut SEEN.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
