//! Runs the statements of a case on all engines, and judges each result at once.
//!
//! Plain DataFusion is the main oracle. DuckDB decides if Tierloom and DataFusion differ, and is a
//! second oracle if they agree.

use crate::FuzzError;
use crate::compare::{How, difference};
use crate::data::files;
use crate::engines::{
    Answer, Duck, Host, Options, PlainEngine, PlanOperators, Rows, TOO_LONG, Tierloom,
};
use crate::excuses;
use crate::panics;
use crate::step::{Does, Step};
use crate::table::{FileKind, Table};
use crate::timed::{LIMIT, timed};
use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Tierloom returned other rows than plain DataFusion.
    Rows,
    /// Only one of Tierloom and plain DataFusion returned an error.
    Error,
    /// Code of this repository panicked, or the panic of an operator ended the statement.
    Panic,
    /// Tierloom exceeded the time limit, plain DataFusion did not.
    Slow,
    /// Tierloom and plain DataFusion agree, DuckDB differs.
    Duck,
}

/// A failure of one statement.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The kind, which stays the same while the case is shrunk.
    pub kind: FaultKind,
    /// A description of the difference or the error.
    pub message: String,
    /// The correct rows, if an oracle returned some.
    pub right: Option<Rows>,
}

impl Fault {
    /// The failure for a table that the session did not load.
    ///
    /// # Errors
    /// Returns any other error unchanged.
    pub fn of_load(error: FuzzError) -> Result<Fault, FuzzError> {
        match error {
            FuzzError::Load(message) => Ok(Fault {
                kind: FaultKind::Error,
                message,
                right: None,
            }),
            other => Err(other),
        }
    }
}

/// The outcome of a statement on all engines.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// The failure, if there is one.
    pub failure: Option<Fault>,
    /// DataFusion's error message, if Tierloom and DataFusion both refused the statement.
    pub refused: Option<String>,
    /// Whether DuckDB returned the same rows.
    pub duck_agreed: bool,
    /// DuckDB's error message, if only DuckDB refused the statement.
    pub duck_refused: Option<String>,
    /// What plain DataFusion did wrong, if Tierloom is right according to DuckDB, or DataFusion
    /// panicked.
    pub plain_alone: Option<String>,
}

/// Batches of fewer rows make statements slow that plain DataFusion runs with batches of thousands.
const TINY_BATCH: usize = 64;

/// The engines of one case, with the same tables.
pub struct Arena<'a> {
    tierloom: Tierloom,
    plain: PlainEngine,
    duck: Option<&'a mut Duck>,
    /// The existing views by name, with the statements that created them.
    views: BTreeMap<String, String>,
    /// Whether batches are so small that DataFusion's own joins take a step per pair of rows.
    tiny_batches: bool,
    _folder: tempfile::TempDir,
}

impl<'a> Arena<'a> {
    /// Sets the engines up and loads the tables.
    ///
    /// # Errors
    /// If an engine cannot be set up, or the session does not load a table ([`FuzzError::Load`]).
    pub fn open(
        options: &Options,
        tables: &[Table],
        host: &Host,
        mut duck: Option<&'a mut Duck>,
    ) -> Result<Self, FuzzError> {
        let folder = tempfile::tempdir().map_err(FuzzError::io("temporary folder"))?;
        let mut tierloom = Tierloom::new(options, host.spoil)?;
        let plain = PlainEngine::new(&host.runtime, options.plain_partitions);
        if let Some(duck) = &mut duck {
            duck.open()?;
        }
        for table in tables {
            let written = files::write(table, folder.path()).or_else(|_| {
                // Types that Parquet cannot store go into an Arrow stream.
                let arrow = Table {
                    kind: FileKind::Stream,
                    ..table.clone()
                };
                let again = folder.path().join("again");
                std::fs::create_dir_all(&again).map_err(FuzzError::io("temporary folder"))?;
                files::write(&arrow, &again)
            })?;
            let schema = tierloom
                .load(&table.name, &written)
                .map_err(|e| FuzzError::Load(format!("table {} is not loaded: {e}", table.name)))?;
            let partitions = as_loaded(table.batches()?, &schema)?;
            if let Some(duck) = &mut duck {
                duck.load(&table.name, &partitions.concat())?;
            }
            plain.register(&table.name, &schema, partitions)?;
        }
        Ok(Arena {
            tierloom,
            plain,
            duck,
            views: BTreeMap::new(),
            tiny_batches: options.batch_rows < TINY_BATCH,
            _folder: folder,
        })
    }

    /// The schema of a table or view.
    pub fn schema_of(&self, name: &str) -> Option<SchemaRef> {
        self.tierloom.schema_of(name)
    }

    /// The operators in the plan of a query.
    pub fn seen(&self, sql: &str) -> PlanOperators {
        self.tierloom.seen(sql)
    }

    /// The result of Tierloom alone.
    ///
    /// # Errors
    /// The session's error message.
    pub fn answer(&mut self, sql: &str) -> Answer {
        timed(&mut self.tierloom, sql).0
    }

    /// Runs a statement on all engines and compares the results.
    pub fn step(&mut self, step: &Step) -> Verdict {
        // Panics of earlier statements were reported with those.
        let _ = panics::ours();
        let mut outcome = match &step.does {
            Does::Query => self.query(step),
            Does::Own => match timed(&mut self.tierloom, &step.sql).0 {
                Ok(_) => Verdict::default(),
                Err(message) => failed(FaultKind::Error, format!("Tierloom: {message}"), None),
            },
            _ => self.define(step),
        };
        if let Some(first) = panics::ours().first() {
            outcome.failure = Some(Fault {
                kind: FaultKind::Panic,
                message: format!("panicked at {first}"),
                right: outcome.failure.and_then(|f| f.right),
            });
        }
        outcome
    }

    /// The views that can no longer be read.
    pub fn lost_views(&self) -> Vec<String> {
        let names = self.views.keys();
        names.filter(|n| !self.plain.knows(n)).cloned().collect()
    }

    /// Creates all views again in plain DataFusion after a definition has changed.
    ///
    /// Tierloom and DuckDB resolve the text of a view when it is read, but plain DataFusion keeps
    /// the plan from its creation. Views are in the order of their names, and each reads only views
    /// before it.
    fn bind_views(&mut self, changed: &str) {
        let words: Vec<&str> = changed.split_whitespace().take(5).collect();
        match words.as_slice() {
            ["CREATE", "OR", "REPLACE", "VIEW", name] => {
                self.views.insert((*name).to_owned(), changed.to_owned());
            }
            ["DROP", "VIEW", name] => drop(self.views.remove(*name)),
            _ => {}
        }
        for (name, text) in &self.views {
            if self.plain.define(text, LIMIT).is_err() {
                self.plain.forget(name);
            }
        }
    }

    fn query(&mut self, step: &Step) -> Verdict {
        let Arena {
            tierloom,
            plain,
            duck,
            ..
        } = self;
        let (ours, plains, ducks) = std::thread::scope(|scope| {
            let plains = scope.spawn(|| {
                let start = Instant::now();
                (plain.query(&step.sql, LIMIT), start.elapsed())
            });
            let ducks = duck.as_mut().and_then(|duck| {
                let sql = step.duck.as_ref()?;
                Some(scope.spawn(move || duck.run(sql, LIMIT)))
            });
            let (first, time) = timed(tierloom, &step.sql);
            // The second run of the same text uses the cached plan.
            let second = first.is_ok().then(|| timed(tierloom, &step.sql).0);
            let broken = || (Err("the thread of DataFusion broke down".into()), LIMIT);
            let plains = plains.join().unwrap_or_else(|_| broken());
            let ducks = ducks.and_then(|d| d.join().ok());
            ((first, second, time), plains, ducks)
        });
        // On a busy machine the engines slow each other down: only a statement that is slow again
        // while the others rest counts as slow.
        let ours = match ours {
            (Err(message), _, _) if message == TOO_LONG => {
                let (again, time) = timed(tierloom, &step.sql);
                (again, None, time)
            }
            ours => ours,
        };
        if self.tiny_batches && matches!(&ours.0, Err(message) if message == TOO_LONG) {
            return Verdict {
                refused: Some("took too long in batches of a few rows".into()),
                ..Verdict::default()
            };
        }
        judged(step, ours, plains, ducks)
    }

    fn define(&mut self, step: &Step) -> Verdict {
        let ours = timed(&mut self.tierloom, &step.sql).0;
        // The others keep what they had, too.
        let changes = matches!(step.does, Does::Change(..));
        if let Err(message) = &ours
            && (excuses::leaves_range(message) || (changes && excuses::overflows(message)))
        {
            return Verdict {
                refused: Some(message.clone()),
                ..Verdict::default()
            };
        }
        let plains = match &step.does {
            Does::CreateTable(name, query) => match self.plain.query(query, LIMIT) {
                Ok(Some(rows)) => {
                    let made = self.plain.register(name, &rows.schema, vec![rows.batches]);
                    made.map(|()| None).map_err(|e| e.to_string())
                }
                other => other,
            },
            Does::Change(name, change) => self.plain.change(name, change, LIMIT),
            // A view that could not be created again does not exist in plain DataFusion.
            _ => self.plain.define(
                &step.sql.replace("DROP VIEW ", "DROP VIEW IF EXISTS "),
                LIMIT,
            ),
        };
        let only = |who: &str, message: String| {
            let message = format!("only {who} refuses: {message}");
            failed(FaultKind::Error, message, None)
        };
        // A view that plain DataFusion cannot make is lost for the rest of the case.
        let is_view = step.sql.starts_with("CREATE OR REPLACE VIEW ");
        let (plains, plain_alone) = match plains {
            Err(message) if is_view && excuses::is_of_plain_alone(&message) => {
                (Ok(None), Some(message))
            }
            other => (other, None),
        };
        match (ours, plains) {
            (Ok(_), Ok(_)) => {
                let mut outcome = Verdict {
                    plain_alone,
                    ..Verdict::default()
                };
                self.bind_views(&step.sql);
                if let (Some(duck), Some(sql)) = (&mut self.duck, &step.duck)
                    && let Err(message) = duck.run(sql, LIMIT)
                {
                    // Its tables are different from now on, so it is not asked again in this case.
                    outcome.duck_refused = Some(message);
                    self.duck = None;
                }
                outcome
            }
            (Err(message), _) if plain_alone.is_some() => Verdict {
                refused: Some(message),
                ..Verdict::default()
            },
            (Err(message), Err(_)) => Verdict {
                refused: Some(message),
                ..Verdict::default()
            },
            (Ok(_), Err(message)) => match &step.does {
                Does::CreateTable(name, _) | Does::Change(name, _)
                    if excuses::is_of_plain_alone(&message) =>
                {
                    self.share(name, message)
                }
                _ => only("plain DataFusion", message),
            },
            (Err(message), Ok(_)) => only("Tierloom", message),
        }
    }
}

impl Arena<'_> {
    /// Gives plain DataFusion the rows of the table `name`, which only Tierloom could make or
    /// change, and leaves DuckDB out from now on. `why` is the error of plain DataFusion.
    fn share(&mut self, name: &str, why: String) -> Verdict {
        let rows = self.answer(&format!("SELECT * FROM {name}"));
        let shared = match rows {
            Ok(Some(rows)) => self
                .plain
                .register(name, &rows.schema, vec![rows.batches])
                .map_err(|error| error.to_string()),
            Ok(None) => Err("it has no columns".to_owned()),
            Err(message) => Err(message),
        };
        self.duck = None;
        match shared {
            Ok(()) => Verdict {
                plain_alone: Some(why),
                ..Verdict::default()
            },
            Err(message) => {
                let message = format!("the new table {name} cannot be read: {message}");
                failed(FaultKind::Error, message, None)
            }
        }
    }
}

fn failed(kind: FaultKind, message: String, right: Option<Rows>) -> Verdict {
    let failure = Some(Fault {
        kind,
        message,
        right,
    });
    Verdict {
        failure,
        ..Verdict::default()
    }
}

/// The batches in the types that the session gave the columns: those of CSV files are inferred.
fn as_loaded(
    files: Vec<Vec<RecordBatch>>,
    schema: &SchemaRef,
) -> Result<Vec<Vec<RecordBatch>>, FuzzError> {
    let convert = |batch: RecordBatch| {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let fields = schema
            .fields()
            .iter()
            .map(|f| f.as_ref().clone().with_nullable(true));
        let nullable = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
        Ok(RecordBatch::try_new(Arc::new(nullable), columns)?)
    };
    let file = |file: Vec<RecordBatch>| file.into_iter().map(convert).collect();
    files.into_iter().map(file).collect()
}

type Ours = (Answer, Option<Answer>, Duration);

fn judged(step: &Step, ours: Ours, plain: (Answer, Duration), duck: Option<Answer>) -> Verdict {
    let (first, second, time) = ours;
    let exact: Vec<How> = step
        .inexact
        .iter()
        .map(|inexact| if *inexact { How::Summed } else { How::Exact })
        .collect();
    let loose = vec![How::Loose; exact.len()];
    let (plain, plain_time) = plain;
    let ours = match (first, plain) {
        (Ok(Some(ours)), Ok(Some(right))) => {
            if let Some(message) = difference(&ours, &right, &exact, step.ordered) {
                // If DuckDB agrees with Tierloom, plain DataFusion is wrong.
                let by_duck = match &duck {
                    Some(Ok(Some(duck))) => difference(&ours, duck, &loose, step.ordered),
                    _ => Some("not asked".into()),
                };
                return match by_duck {
                    None => Verdict {
                        plain_alone: Some(message),
                        ..Verdict::default()
                    },
                    Some(_) => failed(FaultKind::Rows, message, Some(right)),
                };
            }
            ours
        }
        (Err(message), Err(other)) => {
            let both = message.contains("broke down") && !other.contains("panicked");
            if both {
                return failed(FaultKind::Panic, message, None);
            }
            return Verdict {
                refused: Some(other),
                ..Verdict::default()
            };
        }
        (Err(message), Ok(Some(right))) => {
            let slow = message == TOO_LONG;
            // Plain DataFusion is slow too, so the statement is too large and Tierloom is not at
            // fault.
            if slow && plain_time > LIMIT / 6 {
                return Verdict {
                    refused: Some("took too long".into()),
                    ..Verdict::default()
                };
            }
            // Plain DataFusion goes on with what the session refuses, or has no such row: SQL does
            // not say for which rows an expression is evaluated. A function that does not
            // take a type may not be called at all where there are no rows.
            let none = right.batches.iter().all(|batch| batch.num_rows() == 0);
            let uncalled = none && excuses::is_not_implemented(&message);
            let refused = excuses::leaves_range(&message)
                || excuses::overflows(&message)
                || excuses::cannot_cast(&message)
                || excuses::loses_an_order(&message);
            if refused || uncalled {
                return Verdict {
                    refused: Some(message),
                    ..Verdict::default()
                };
            }
            let kind = match message.contains("broke down") || message.contains("panicked") {
                true => FaultKind::Panic,
                false if slow => FaultKind::Slow,
                false => FaultKind::Error,
            };
            let message = format!("only Tierloom fails, after {time:?}: {message}");
            return failed(kind, message, Some(right));
        }
        (Ok(Some(ours)), Err(message)) => {
            let by_duck = match &duck {
                Some(Ok(Some(duck))) => difference(&ours, duck, &loose, step.ordered).is_none(),
                _ => false,
            };
            if by_duck || excuses::is_of_plain_alone(&message) {
                return Verdict {
                    plain_alone: Some(message),
                    ..Verdict::default()
                };
            }
            let message = format!("only plain DataFusion fails: {message}");
            return failed(FaultKind::Error, message, None);
        }
        (ours, plain) => {
            let message = format!("rows from one only: {} {}", ours.is_ok(), plain.is_ok());
            return failed(FaultKind::Error, message, None);
        }
    };
    match second {
        Some(Ok(Some(second))) => {
            if let Some(message) = difference(&second, &ours, &exact, step.ordered) {
                return failed(FaultKind::Rows, format!("run again: {message}"), Some(ours));
            }
        }
        Some(Err(message)) if message != TOO_LONG => {
            return failed(
                FaultKind::Error,
                format!("run again it fails: {message}"),
                Some(ours),
            );
        }
        _ => {}
    }
    match duck {
        Some(Ok(Some(duck))) => match difference(&ours, &duck, &loose, step.ordered) {
            Some(message) => failed(FaultKind::Duck, message, Some(duck)),
            None => Verdict {
                duck_agreed: true,
                ..Verdict::default()
            },
        },
        Some(Err(message)) => Verdict {
            duck_refused: Some(message),
            ..Verdict::default()
        },
        _ => Verdict::default(),
    }
}
