//! Runs one test file, and judges and counts its records.

use crate::compare::{same_rows, trimmed};
use crate::kind::StmtKind;
use crate::placed::{ENGINE, Note, SharedPair};
use crate::reason::{Reason, quoted_after};
use crate::{ColumnKind, Suite, SuiteError, tpch};
use serde::{Deserialize, Serialize};
use sqllogictest::{
    Condition, Location, MakeConnection, QueryExpect, Record, RecordOutput, Runner,
    StatementExpect, TestErrorKind, parse_file, strict_column_validator,
};
use std::collections::BTreeMap;
use std::path::Path;

/// An answer other than the expected one, or a failure that no reason covers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Difference {
    /// File and line of the record ("window.slt:12").
    pub place: String,
    /// The difference or the error message.
    pub what: String,
    /// The result of plain DataFusion in the same state: "as expected", "as the session",
    /// "neither", or other text if it was not asked or failed.
    pub plain: String,
}

/// The outcomes of one file's records.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct FileReport {
    /// Number of statements and queries that are for DataFusion.
    pub records: u64,
    /// Number of queries that were answered as expected, twice.
    pub equal: u64,
    /// Number of those on placed tables.
    pub placed: u64,
    /// Number of statements that succeeded and have no rows to compare.
    pub without_rows: u64,
    /// Number of statements that the plain session ran, after which their table was placed.
    pub set_up: u64,
    /// Number of expected errors with the expected message.
    pub errors: u64,
    /// Number of records that were not compared, by reason.
    pub skipped: BTreeMap<Reason, u64>,
    /// Answers that differ, and failures that no reason covers.
    pub different: Vec<Difference>,
    /// Place, reason and message of each skipped record, for whoever works on it.
    pub skipped_records: Vec<(String, Reason, String)>,
    /// Peak memory of the process that ran this file, bytes.
    pub peak_bytes: u64,
    /// Run time of that process, seconds.
    pub seconds: f64,
}

/// The number of statements and queries in the file `name` that are for DataFusion.
///
/// # Errors
/// [`SuiteError::Suite`] if the file cannot be parsed.
pub fn count_records(suite: &Suite, name: &str) -> Result<u64, SuiteError> {
    let records = read(suite, name)?;
    Ok(records.iter().filter(|record| is_counted(record)).count() as u64)
}

fn read(suite: &Suite, name: &str) -> Result<Vec<Record<ColumnKind>>, SuiteError> {
    parse_file(suite.files().join(name)).map_err(|e| SuiteError::Suite(e.to_string()))
}

fn is_counted(record: &Record<ColumnKind>) -> bool {
    match record {
        Record::Statement { conditions, .. } | Record::Query { conditions, .. } => {
            conditions.iter().all(|condition| match condition {
                Condition::OnlyIf { label } => label == ENGINE,
                Condition::SkipIf { label } => label != ENGINE,
            })
        }
        _ => false,
    }
}

/// Runs the file `name`. `folder` becomes the working directory of the process.
///
/// # Errors
/// If a session or folder cannot be created, or the file cannot be parsed.
pub fn run_file(suite: &Suite, name: &str, folder: &Path) -> Result<FileReport, SuiteError> {
    prepare(suite, name, folder)?;
    let sessions = SharedPair::new(folder.to_owned())?;
    let make = sessions.clone();
    let mut runner = Runner::new(move || {
        let sessions = make.clone();
        async move { Ok(sessions) }
    });
    runner.with_column_validator(strict_column_validator);
    runner.with_normalizer(trimmed);
    runner.with_validator(same_rows);
    let mut report = FileReport::default();
    for record in read(suite, name)? {
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        if is_counted(&record) {
            report.records += 1;
            let judged = judge(&mut runner, record.clone(), &sessions);
            report.count(&record, judged);
        } else if let Err(error) = runner.run(record) {
            return Err(SuiteError::Suite(error.to_string()));
        }
    }
    Ok(report)
}

/// Creates the folders and links that statements in the file use, relative to the working
/// directory.
fn prepare(suite: &Suite, name: &str, folder: &Path) -> Result<(), SuiteError> {
    let stem = Path::new(name).file_stem().unwrap_or_default();
    let scratch = folder.join("test_files/scratch").join(stem);
    std::fs::create_dir_all(&scratch).map_err(SuiteError::file(scratch.display()))?;
    let data = suite.root.join("data");
    std::os::unix::fs::symlink(&data, folder.join("data"))
        .map_err(SuiteError::file(data.display()))?;
    if name.starts_with("tpch/") {
        let tables = folder.join("test_files/tpch/data");
        tpch::write_tables(&tables).map_err(SuiteError::file(tables.display()))?;
    }
    std::env::set_current_dir(folder).map_err(SuiteError::file(folder.display()))
}

/// The outcome of one record.
enum Judged {
    Equal { placed: bool },
    WithoutRows,
    SetUp,
    Error,
    Skipped(Reason, String),
    Different { what: String, plain: String },
}

fn judge<M: MakeConnection<Conn = SharedPair>>(
    runner: &mut Runner<SharedPair, M>,
    record: Record<ColumnKind>,
    sessions: &SharedPair,
) -> Judged {
    let mut result = runner.run(record.clone());
    // Under a limit of some hundred kilobytes it depends on which of two tasks reserves first
    // whether the other finds room; on a busy machine that is now and then the wrong one.
    for _ in 0..MORE_TRIES {
        if is_out_of_memory(&record, &result) {
            result = runner.run(record.clone());
        }
    }
    let note = sessions.lock().note.clone();
    let judged = match result {
        Ok(_) if note.set_up => Judged::SetUp,
        Ok(_) if expects_error(&record) => Judged::Error,
        Ok(RecordOutput::Query { .. }) => Judged::Equal {
            placed: note.placed,
        },
        Ok(_) => Judged::WithoutRows,
        Err(error) => judge_error(&error.kind(), &record, &note, sessions),
    };
    let judged = match judged {
        // Only queries can be repeated without changing the state.
        Judged::Equal { .. } if note.kind == Some(StmtKind::Query) => {
            again(runner, record.clone(), judged, sessions)
        }
        other => other,
    };
    if !expects_error(&record) {
        remember(&judged, &note, sessions);
    }
    let panics = [note.panics, sessions.lock().note.panics.clone()].concat();
    match panics.first() {
        Some(panic) => different(format!("panic: {panic}")),
        None => judged,
    }
}

/// Further tries of a query that found no memory.
const MORE_TRIES: u32 = 2;

/// Whether a query, which can be repeated, failed at a limit of memory that no error was expected
/// of.
fn is_out_of_memory<E: std::fmt::Display>(
    record: &Record<ColumnKind>,
    result: &Result<RecordOutput<ColumnKind>, E>,
) -> bool {
    let is_query = matches!(record, Record::Query { .. }) && !expects_error(record);
    let text = result.as_ref().err().map(ToString::to_string);
    is_query && text.is_some_and(|text| text.contains("Resources exhausted"))
}

/// Records the outcome for later statements, which may need the table.
fn remember(judged: &Judged, note: &Note, sessions: &SharedPair) {
    let skipped = match judged {
        Judged::Skipped(reason, _) => Some(*reason),
        _ => None,
    };
    if let Some(kind) = &note.kind {
        sessions.lock().lost.remember(kind, &note.tables, skipped);
    }
}

/// Runs the query again, now with the cached plan. It must give the same answer.
fn again<M: MakeConnection<Conn = SharedPair>>(
    runner: &mut Runner<SharedPair, M>,
    record: Record<ColumnKind>,
    first: Judged,
    sessions: &SharedPair,
) -> Judged {
    match runner.run(record.clone()) {
        Ok(_) => first,
        Err(error) => {
            let note = sessions.lock().note.clone();
            match is_reordered(&record, &note) {
                true => first,
                false => different(format!("the second time: {}", error.kind())),
            }
        }
    }
}

fn different(what: String) -> Judged {
    let plain = "not asked".to_owned();
    Judged::Different { what, plain }
}

fn judge_error(
    error: &TestErrorKind,
    record: &Record<ColumnKind>,
    note: &Note,
    sessions: &SharedPair,
) -> Judged {
    let explained = matches!(note.kind, Some(StmtKind::Explain));
    match error {
        TestErrorKind::ErrorMismatch { err, .. } => {
            match expected_words(record, &err.to_string()) {
                true => Judged::Error,
                false => {
                    let reason = Reason::of(&err.to_string(), None, |table| {
                        sessions.lock().lost.table(table)
                    });
                    Judged::Skipped(reason.unwrap_or(Reason::Words), error.to_string())
                }
            }
        }
        TestErrorKind::Fail { err, .. } => {
            let message = err.to_string();
            let reason = match note.no_data {
                true => Some(Reason::NoData),
                false => Reason::of(&message, note.plain_ran, |table| {
                    sessions.lock().lost.table(table)
                }),
            };
            match (reason, note.plain_ran) {
                (Some(reason), _) => Judged::Skipped(reason, message),
                (None, Some(true)) => Judged::Different {
                    what: format!("failed: {message}"),
                    plain: "runs".to_owned(),
                },
                (None, _) => different(format!("failed: {message}")),
            }
        }
        _ if explained => Judged::Skipped(Reason::Explain, String::new()),
        other => {
            let (plain, same) = ask_plain(record, note, sessions);
            match sessions.lock().lost.any(&note.tables) {
                // Plain DataFusion gives the same answer on the incomplete tables, so they are the
                // cause.
                Some(reason) if same => Judged::Skipped(reason, other.to_string()),
                None if is_reordered(record, note) => Judged::Equal {
                    placed: note.placed,
                },
                _ => Judged::Different {
                    what: other.to_string(),
                    plain,
                },
            }
        }
    }
}

/// Whether the session gave the rows that the query expects, without being asked for an order:
/// partitions run in parallel.
fn is_reordered(record: &Record<ColumnKind>, note: &Note) -> bool {
    let Record::Query {
        sql,
        expected: QueryExpect::Results { results, .. },
        ..
    } = record
    else {
        return false;
    };
    if sql.to_ascii_lowercase().contains("order by") {
        return false;
    }
    let mut expected = results.clone();
    expected.sort_unstable();
    note.rows.clone().is_some_and(|mut rows| {
        rows.sort_unstable_by_key(|row| row.join(" "));
        same_rows(trimmed, &rows, &expected)
    })
}

fn expects_error(record: &Record<ColumnKind>) -> bool {
    matches!(
        record,
        Record::Statement {
            expected: StatementExpect::Error(_),
            ..
        } | Record::Query {
            expected: QueryExpect::Error(_),
            ..
        }
    )
}

/// Prefixes of messages in DataFusion's own runner, which the session's messages do not have.
const KINDS: [&str; 10] = [
    "",
    "Error during planning: ",
    "Execution error: ",
    "Schema error: ",
    "SQL error: ParserError(\"",
    "Arrow error: ",
    "This feature is not implemented: ",
    "Invalid or Unsupported Configuration: ",
    "Optimizer rule 'simplify_expressions' failed\ncaused by\nArrow error: ",
    "type_coercion\ncaused by\nError during planning: ",
];

/// Whether an error is the expected one, apart from such a prefix.
fn expected_words(record: &Record<ColumnKind>, message: &str) -> bool {
    let expected = match record {
        Record::Statement {
            expected: StatementExpect::Error(expected),
            ..
        }
        | Record::Query {
            expected: QueryExpect::Error(expected),
            ..
        } => expected,
        _ => return false,
    };
    let ends = ["", ".", "\")"];
    // The session's message lists the existing tables.
    let absent = message.strip_prefix("there is no table ");
    let absent = absent.and_then(|rest| rest.split_once(';'));
    let message = match absent {
        Some((table, _)) => format!("table 'datafusion.public.{table}' not found"),
        // The session's messages are single lines.
        None => message.replace(" caused by ", "\ncaused by\n"),
    };
    let message = of_row(&message, &expected.to_string());
    let message = message.as_str();
    let mut forms = KINDS.iter().flat_map(|kind| {
        let form = move |end| format!("DataFusion error: {kind}{message}{end}");
        ends.iter().map(form)
    });
    forms.any(|form| expected.is_match(&form, None))
}

/// The message with the value that `expected` contains.
///
/// If several rows cannot be cast, any of them may fail first, because partitions run in parallel.
fn of_row(message: &str, expected: &str) -> String {
    const CAST: &str = "Cannot cast string '";
    match (quoted_after(message, CAST), quoted_after(expected, CAST)) {
        (Some(ours), Some(theirs)) => {
            message.replace(&format!("{CAST}{ours}'"), &format!("{CAST}{theirs}'"))
        }
        _ => message.to_owned(),
    }
}

/// Runs a query that had an unexpected answer in plain DataFusion.
///
/// Returns its result as text, and whether it equals the session's.
fn ask_plain(record: &Record<ColumnKind>, note: &Note, sessions: &SharedPair) -> (String, bool) {
    let (sql, expected) = match record {
        Record::Query {
            sql,
            expected: QueryExpect::Results {
                results, sort_mode, ..
            },
            ..
        } => (sql, Some((results, sort_mode))),
        Record::Query { sql, .. } => (sql, None),
        Record::Statement { sql, .. } if note.kind == Some(StmtKind::Query) => (sql, None),
        _ => return ("not asked".to_owned(), false),
    };
    let rows = sessions.lock().plain.run(sql);
    let rows = rows.map_err(|e| e.strip_backtrace());
    let mut rows = match rows.and_then(|answer| answer.rows()) {
        Ok(rows) => rows,
        Err(message) => return (format!("fails: {message}"), false),
    };
    let as_expected = expected.is_some_and(|(results, sort_mode)| {
        if sort_mode.is_some() {
            rows.sort_unstable();
        }
        same_rows(trimmed, &rows, results)
    });
    let mut ours = note.rows.clone();
    rows.sort_unstable();
    ours.iter_mut().for_each(|rows| rows.sort_unstable());
    let same = ours.is_some_and(|ours| ours == rows);
    let message = match (as_expected, same) {
        (true, _) => "as expected",
        (false, true) => "as the session",
        (false, false) => "neither",
    };
    (message.to_owned(), same)
}

impl FileReport {
    fn count(&mut self, record: &Record<ColumnKind>, judged: Judged) {
        match judged {
            Judged::Equal { placed } => {
                self.equal += 1;
                self.placed += u64::from(placed);
            }
            Judged::WithoutRows => self.without_rows += 1,
            Judged::SetUp => self.set_up += 1,
            Judged::Error => self.errors += 1,
            Judged::Skipped(reason, message) => {
                *self.skipped.entry(reason).or_default() += 1;
                self.skipped_records.push((place(record), reason, message));
            }
            Judged::Different { what, plain } => self.different.push(Difference {
                place: place(record),
                what,
                plain,
            }),
        }
    }

    /// Number of records that were not compared.
    pub fn not_compared(&self) -> u64 {
        self.skipped.values().sum()
    }
}

fn place(record: &Record<ColumnKind>) -> String {
    let of = |loc: &Location| {
        let file = loc.file();
        let name = file
            .split_once("test_files/")
            .map_or(file, |(_, name)| name);
        format!("{name}:{}", loc.line())
    };
    match record {
        Record::Statement { loc, .. } | Record::Query { loc, .. } => of(loc),
        _ => String::new(),
    }
}
