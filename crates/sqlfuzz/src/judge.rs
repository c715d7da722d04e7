//! One case on all engines: each statement's answers are compared as soon as they are there.

use crate::FuzzError;
use crate::ast::{Dialect, Statement};
use crate::compare::{How, difference};
use crate::data::files;
use crate::engines::{Answer, Duck, Host, Options, Plain, Rows, Seen, Stop, TOO_LONG, Tierloom};
use crate::panics;
use crate::table::{FileKind, Table};
use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A statement may run so long.
const LIMIT: Duration = Duration::from_secs(30);

/// A statement that was told to stop may take so long to do so.
const GRACE: Duration = Duration::from_secs(30);

/// How the session's error begins where a sum leaves its type.
const SUM_TOO_LARGE: &str = "a sum leaves the range of its type";

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Other rows than plain DataFusion.
    Rows,
    /// Only one of Tierloom and plain DataFusion answers.
    Error,
    /// A panic in this repository's code, or a statement that an operator's panic ended.
    Panic,
    /// Did not end in time where plain DataFusion did.
    Slow,
    /// Tierloom and plain DataFusion agree, DuckDB does not.
    Duck,
}

/// Something that is wrong.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Of what kind.
    pub kind: Kind,
    /// What was seen.
    pub told: String,
    /// The rows that are right, as far as an oracle gave some.
    pub right: Option<Rows>,
}

impl Failure {
    /// A table that is not loaded, as a failure.
    ///
    /// # Errors
    /// Any other error.
    pub fn of_load(error: FuzzError) -> Result<Failure, FuzzError> {
        match error {
            FuzzError::Load(told) => Ok(Failure {
                kind: Kind::Error,
                told,
                right: None,
            }),
            other => Err(other),
        }
    }
}

/// A statement as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub does: Does,
    /// As Tierloom and DataFusion read it.
    pub sql: String,
    /// As DuckDB reads it; none: it is not asked.
    pub duck: Option<String>,
    /// Columns whose last digits the order of additions decides.
    pub inexact: Vec<bool>,
    /// Whether its rows have a total order.
    pub ordered: bool,
}

/// What a statement does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// Gives rows.
    Query,
    /// Makes the table of this name of the rows of this query.
    CreateTable(String, String),
    /// Makes or drops a view, or drops a table.
    Define,
    /// Concerns Tierloom alone.
    Own,
}

impl Step {
    /// The text of a statement.
    pub fn of(statement: &Statement) -> Step {
        let sql = statement.sql(Dialect::DataFusion);
        let in_duck = Some(statement.sql(Dialect::DuckDb));
        let step = Step {
            does: Does::Define,
            sql,
            duck: in_duck,
            inexact: vec![],
            ordered: false,
        };
        match statement {
            Statement::Query { query, duck } => Step {
                does: Does::Query,
                duck: step.duck.filter(|_| *duck),
                inexact: query.inexact(),
                ordered: query.order.len() >= query.items().len(),
                ..step
            },
            Statement::CreateTable { name, query } => {
                let rows = query.sql(Dialect::DataFusion);
                Step {
                    does: Does::CreateTable(name.clone(), rows),
                    ..step
                }
            }
            Statement::CreateView { .. } | Statement::Drop { .. } => step,
            Statement::Own(_) => Step {
                does: Does::Own,
                duck: None,
                ..step
            },
        }
    }
}

/// What became of a statement.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What is wrong, if something is.
    pub failure: Option<Failure>,
    /// What all refused, in DataFusion's words.
    pub refused: Option<String>,
    /// Whether DuckDB's rows were compared.
    pub duck_agreed: bool,
    /// What DuckDB alone refused.
    pub duck_refused: Option<String>,
    /// Whether plain DataFusion alone is wrong: Tierloom and DuckDB agree.
    pub plain_alone: Option<String>,
}

/// The engines of a case.
pub struct Arena<'a> {
    tierloom: Tierloom,
    plain: Plain,
    duck: Option<&'a mut Duck>,
    /// The views by name, with the statements that made them.
    views: BTreeMap<String, String>,
    _folder: tempfile::TempDir,
}

impl<'a> Arena<'a> {
    /// Engines with the tables loaded.
    ///
    /// # Errors
    /// Engines that cannot be set up; a table that the session does not load.
    pub fn open(
        options: &Options,
        tables: &[Table],
        host: &Host,
        mut duck: Option<&'a mut Duck>,
    ) -> Result<Self, FuzzError> {
        let folder = tempfile::tempdir().map_err(FuzzError::io("temporary folder"))?;
        let mut tierloom = Tierloom::new(options, host.spoil)?;
        let plain = Plain::new(&host.runtime, options.plain_partitions);
        if let Some(duck) = &mut duck {
            duck.open()?;
        }
        for table in tables {
            let written = files::write(table, folder.path()).or_else(|_| {
                // What Parquet has no type for goes into an Arrow file.
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
            _folder: folder,
        })
    }

    /// The columns of a table or view.
    pub fn schema_of(&self, name: &str) -> Option<SchemaRef> {
        self.tierloom.schema_of(name)
    }

    /// What the plan of a query holds.
    pub fn seen(&self, sql: &str) -> Seen {
        self.tierloom.seen(sql)
    }

    /// What Tierloom alone answers.
    ///
    /// # Errors
    /// What it says instead of an answer.
    pub fn answer(&mut self, sql: &str) -> Answer {
        timed(&mut self.tierloom, sql).0
    }

    /// Runs a statement on all engines.
    pub fn step(&mut self, step: &Step) -> Outcome {
        let _ = panics::ours();
        let mut outcome = match &step.does {
            Does::Query => self.query(step),
            Does::Own => match timed(&mut self.tierloom, &step.sql).0 {
                Ok(_) => Outcome::default(),
                Err(told) => failed(Kind::Error, format!("Tierloom: {told}"), None),
            },
            _ => self.define(step),
        };
        if let Some(first) = panics::ours().first() {
            outcome.failure = Some(Failure {
                kind: Kind::Panic,
                told: format!("panicked at {first}"),
                right: outcome.failure.and_then(|f| f.right),
            });
        }
        outcome
    }

    /// The views that cannot be read any more.
    pub fn lost_views(&self) -> Vec<String> {
        let names = self.views.keys();
        names.filter(|n| !self.plain.knows(n)).cloned().collect()
    }

    /// Views mean what their text means now, in Tierloom and in DuckDB: plain DataFusion, which
    /// keeps the plan that they were made with, makes them again after each change. A view reads
    /// only those whose names come before its own.
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

    fn query(&mut self, step: &Step) -> Outcome {
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
            // The same text again finds the plan of the first time.
            let second = first.is_ok().then(|| timed(tierloom, &step.sql).0);
            let broken = || (Err("the thread of DataFusion broke down".into()), LIMIT);
            let plains = plains.join().unwrap_or_else(|_| broken());
            let ducks = ducks.and_then(|d| d.join().ok());
            ((first, second, time), plains, ducks)
        });
        judged(step, ours, plains, ducks)
    }

    fn define(&mut self, step: &Step) -> Outcome {
        let ours = timed(&mut self.tierloom, &step.sql).0;
        // The others keep what they had, too.
        if ours
            .as_ref()
            .is_err_and(|told| told.contains(SUM_TOO_LARGE))
        {
            return Outcome {
                refused: Some(SUM_TOO_LARGE.into()),
                ..Outcome::default()
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
            // One that cannot be read any more is not there in plain DataFusion.
            _ => self.plain.define(
                &step.sql.replace("DROP VIEW ", "DROP VIEW IF EXISTS "),
                LIMIT,
            ),
        };
        match (ours, plains) {
            (Ok(_), Ok(_)) => {
                let mut outcome = Outcome::default();
                self.bind_views(&step.sql);
                if let (Some(duck), Some(sql)) = (&mut self.duck, &step.duck)
                    && let Err(told) = duck.run(sql, LIMIT)
                {
                    // It knows other tables from now on.
                    outcome.duck_refused = Some(told);
                    self.duck = None;
                }
                outcome
            }
            (Err(told), Err(_)) => Outcome {
                refused: Some(told),
                ..Outcome::default()
            },
            (Ok(_), Err(told)) => failed(
                Kind::Error,
                format!("only plain DataFusion refuses: {told}"),
                None,
            ),
            (Err(told), Ok(_)) => {
                failed(Kind::Error, format!("only Tierloom refuses: {told}"), None)
            }
        }
    }
}

fn failed(kind: Kind, told: String, right: Option<Rows>) -> Outcome {
    let failure = Some(Failure { kind, told, right });
    Outcome {
        failure,
        ..Outcome::default()
    }
}

/// The batches with the types that the session gave the columns: CSV has types of its own.
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

/// Runs a statement in a thread with a large stack; one that does not obey ends the program.
fn timed(tierloom: &mut Tierloom, sql: &str) -> (Answer, Duration) {
    let stop = Stop::default();
    let start = Instant::now();
    let answer = std::thread::scope(|scope| {
        let (send, answers) = channel();
        let stop = &stop;
        let run = move || {
            let answer =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tierloom.run(sql, stop)));
            let answer = answer.unwrap_or_else(|_| Err("panicked in the session".into()));
            let _ = send.send(answer);
        };
        let thread = std::thread::Builder::new()
            .name("session".into())
            .stack_size(16 << 20);
        if let Err(error) = thread.spawn_scoped(scope, run) {
            return Err(format!("no thread: {error}"));
        }
        if let Ok(answer) = answers.recv_timeout(LIMIT) {
            return answer;
        }
        stop.now();
        match answers.recv_timeout(GRACE) {
            Ok(_) => Err(TOO_LONG.into()),
            Err(_) => {
                eprintln!("this statement neither ends nor can be stopped:\n{sql}");
                std::process::exit(1);
            }
        }
    });
    (answer, start.elapsed())
}

type Ours = (Answer, Option<Answer>, Duration);

fn judged(step: &Step, ours: Ours, plain: (Answer, Duration), duck: Option<Answer>) -> Outcome {
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
            if let Some(told) = difference(&ours, &right, &exact, step.ordered) {
                let by_duck = match &duck {
                    Some(Ok(Some(duck))) => difference(&ours, duck, &loose, step.ordered),
                    _ => Some("not asked".into()),
                };
                return match by_duck {
                    None => Outcome {
                        plain_alone: Some(told),
                        ..Outcome::default()
                    },
                    Some(_) => failed(Kind::Rows, told, Some(right)),
                };
            }
            ours
        }
        (Err(told), Err(other)) => {
            let both = told.contains("broke down") && !other.contains("panicked");
            if both {
                return failed(Kind::Panic, told, None);
            }
            return Outcome {
                refused: Some(other),
                ..Outcome::default()
            };
        }
        (Err(told), Ok(Some(right))) => {
            let slow = told == TOO_LONG;
            if slow && plain_time > LIMIT / 6 {
                return Outcome {
                    refused: Some("took too long".into()),
                    ..Outcome::default()
                };
            }
            // Plain DataFusion's sum wraps around; the session's is an error.
            if told.contains(SUM_TOO_LARGE) {
                return Outcome {
                    refused: Some(SUM_TOO_LARGE.into()),
                    ..Outcome::default()
                };
            }
            let kind = match told.contains("broke down") || told.contains("panicked") {
                true => Kind::Panic,
                false if slow => Kind::Slow,
                false => Kind::Error,
            };
            let told = format!("only Tierloom fails, after {time:?}: {told}");
            return failed(kind, told, Some(right));
        }
        (Ok(Some(ours)), Err(told)) => {
            let by_duck = match &duck {
                Some(Ok(Some(duck))) => difference(&ours, duck, &loose, step.ordered).is_none(),
                _ => false,
            };
            if by_duck || told.starts_with("panicked") {
                return Outcome {
                    plain_alone: Some(told),
                    ..Outcome::default()
                };
            }
            let told = format!("only plain DataFusion fails: {told}");
            return failed(Kind::Error, told, None);
        }
        (ours, plain) => {
            let told = format!("rows from one only: {} {}", ours.is_ok(), plain.is_ok());
            return failed(Kind::Error, told, None);
        }
    };
    match second {
        Some(Ok(Some(second))) => {
            if let Some(told) = difference(&second, &ours, &exact, step.ordered) {
                return failed(Kind::Rows, format!("run again: {told}"), Some(ours));
            }
        }
        Some(Err(told)) if told != TOO_LONG => {
            return failed(
                Kind::Error,
                format!("run again it fails: {told}"),
                Some(ours),
            );
        }
        _ => {}
    }
    match duck {
        Some(Ok(Some(duck))) => match difference(&ours, &duck, &loose, step.ordered) {
            Some(told) => failed(Kind::Duck, told, Some(duck)),
            None => Outcome {
                duck_agreed: true,
                ..Outcome::default()
            },
        },
        Some(Err(told)) => Outcome {
            duck_refused: Some(told),
            ..Outcome::default()
        },
        _ => Outcome::default(),
    }
}
