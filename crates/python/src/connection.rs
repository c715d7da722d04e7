//! A connection: a session on its thread, and what Python asks of it.

use super::adapt::Strings;
use super::error;
use super::result::Rows;
use super::shared::Shared;
use super::stream::{Request, Statement};
use super::turn;
use super::worker::Worker;
use arrow::array::RecordBatchReader;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ffi_stream::ArrowArrayStreamReader;
use arrow_pyarrow::FromPyArrow;
use clap::Parser;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Once};
use tierloom::commands::sql;
use tierloom::failure::Failure;
use tierloom_sql::{
    CollectedRows, CsvOptions, NoRows, Piece, SqlError, SqlSession, Watch, WithValues, split,
};

/// A session with tables, settings and placements of its own.
#[pyclass(frozen, module = "tierloom._native")]
pub struct Connection(Arc<Shared>);

/// The arguments of `tierloom sql` that are those of the session.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Options {
    #[command(flatten)]
    session: sql::SessionArgs,
}

/// How the last statement of a text is to be read.
enum Planned {
    /// Later, batch by batch.
    Query(Statement, SchemaRef),
    /// It has run.
    Done(CollectedRows, Option<String>),
}

#[pymethods]
impl Connection {
    /// Opens a session with options of the command `tierloom sql`.
    #[new]
    fn new(py: Python<'_>, arguments: Vec<String>) -> PyResult<Connection> {
        let session = move || {
            let typed = Options::try_parse_from(arguments);
            let typed = typed.map_err(|e| SqlError::input(first(&e)))?;
            let options = sql::plan::session_options(&typed.session).map_err(of_failure)?;
            let session = SqlSession::new(options)?;
            quiet_workers();
            Ok(session)
        };
        Ok(Connection(Arc::new(Shared {
            worker: Worker::start(py, session)?,
            turns: Arc::default(),
        })))
    }

    /// Runs all statements but a last query, whose rows are read from the result.
    #[pyo3(signature = (text, literals, strings=None))]
    fn sql(
        &self,
        py: Python<'_>,
        text: &str,
        literals: Vec<String>,
        strings: Option<&str>,
    ) -> PyResult<Rows> {
        let strings = match strings {
            Some(name) => Strings::named(name).map_err(|e| error::input(py, None, e))?,
            None => Strings::Stored,
        };
        let mut pieces = split(text).map_err(|e| error::sql(py, e))?;
        let Some(last) = pieces.pop() else {
            return Err(error::input(py, None, "there is no statement in the text"));
        };
        if !literals.is_empty() && !pieces.is_empty() {
            let message = "values can be given to one statement; the text has several";
            return Err(error::input(py, Some(last.place), message));
        }
        let _turn = turn::take(py, &self.0.turns)?;
        let planned = self.0.worker.call(py, move |session, watch| {
            for piece in &pieces {
                session.run(piece, &mut NoRows, watch)?;
            }
            planned(session, last, &literals, watch)
        })?;
        let shared = Arc::clone(&self.0);
        Ok(match planned {
            Planned::Query(statement, schema) => {
                let schema = strings.of(&schema);
                Rows::planned(shared, Request { statement, schema })
            }
            Planned::Done(rows, message) => {
                let stored = rows.schema.unwrap_or_else(|| Arc::new(Schema::empty()));
                Rows::kept(shared, strings.of(&stored), &rows.batches, message)?
            }
        })
    }

    /// Copies the rows of an object with `__arrow_c_stream__` into placed columns.
    fn register(
        &self,
        py: Python<'_>,
        name: &str,
        object: &Bound<'_, PyAny>,
        replace: bool,
    ) -> PyResult<u64> {
        let name = table_name(py, name)?;
        if !object.hasattr("__arrow_c_stream__")? {
            let message = format!(
                "{} has no __arrow_c_stream__; expected a table or frame of pyarrow, polars, \
                 pandas 3, duckdb or another library with Arrow's interface",
                object.get_type().fully_qualified_name()?
            );
            return Err(error::input(py, None, message));
        }
        let rows = ArrowArrayStreamReader::from_pyarrow_bound(object);
        let rows = rows.map_err(|e| match e.is_instance_of::<PyValueError>(py) {
            true => error::input(py, None, format!("{name}: {}", e.value(py))),
            false => e,
        })?;
        // After the stream was opened: it may be one of this connection's own results.
        let _turn = turn::take(py, &self.0.turns)?;
        let made = self.0.worker.call(py, move |session, watch| {
            let schema = rows.schema();
            let rows = rows.map(|batch| batch.map_err(SqlError::failed));
            session.load_batches(&name, replace, &schema, rows, watch)
        });
        made.map(|loaded| loaded.rows)
    }

    /// Loads files of one kind, or a folder of them, as a table.
    #[pyo3(signature = (
        name, files, replace, delimiter=None, header=true, infer_rows=10_000, nulls=Vec::new()
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords of Python")]
    fn load(
        &self,
        py: Python<'_>,
        name: &str,
        files: Vec<PathBuf>,
        replace: bool,
        delimiter: Option<String>,
        header: bool,
        infer_rows: usize,
        nulls: Vec<String>,
    ) -> PyResult<u64> {
        let name = table_name(py, name)?;
        let csv = sql::files::csv(&sql::CsvArgs {
            csv_delimiter: delimiter,
            csv_no_header: !header,
            csv_infer_rows: infer_rows,
            csv_null: nulls,
        });
        let csv: CsvOptions = csv.map_err(|e| error::failure(py, e))?;
        let _turn = turn::take(py, &self.0.turns)?;
        let made = self.0.worker.call(py, move |session, watch| {
            session.load_file_list(&name, replace, files, csv, watch)
        });
        made.map(|loaded| loaded.rows)
    }

    /// Generates benchmark data, such as `ssb:0.1`, as tables.
    fn generate(&self, py: Python<'_>, what: &str) -> PyResult<Vec<(String, u64)>> {
        let data = sql::plan::generated_data(what).map_err(|e| error::failure(py, e))?;
        let _turn = turn::take(py, &self.0.turns)?;
        let made = self
            .0
            .worker
            .call(py, move |session, watch| session.generate(&data, watch))?;
        Ok(made.into_iter().map(|t| (t.name, t.rows)).collect())
    }

    /// Name, kind and number of rows of every table, view and system table.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<(String, String, Option<u64>)>> {
        let _turn = turn::take(py, &self.0.turns)?;
        let tables = self.0.worker.call(py, |session, _| Ok(session.tables()))?;
        let rows = tables.into_iter();
        Ok(rows.map(|t| (t.name, t.kind.to_owned(), t.rows)).collect())
    }

    /// Asks the statement that runs to stop, from any thread.
    fn interrupt(&self) {
        self.0.worker.interrupt();
    }

    /// Stops what runs and frees the tables whose columns no result points to.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.worker.close(py)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.worker.is_closed()
    }
}

/// Plans a query, or runs another statement.
fn planned(
    session: &mut SqlSession,
    piece: Piece,
    literals: &[String],
    watch: &dyn Watch,
) -> Result<Planned, SqlError> {
    // Without values, a parameter is an error too, but where it is declared.
    let declares = first_word(&piece).eq_ignore_ascii_case("prepare");
    let plain = literals.is_empty() && (declares || !piece.text.contains('$'));
    let statement = match plain {
        true => Statement::Plain(piece),
        false => Statement::Valued(WithValues::new(&piece, literals)?),
    };
    let done = schema_of(session, statement.piece());
    Ok(match done.map_err(|e| statement.placed(e))? {
        Some(schema) => Planned::Query(statement, schema),
        None => {
            let mut rows = CollectedRows::default();
            let outcome = session.run(statement.piece(), &mut rows, watch);
            let outcome = outcome.map_err(|e| statement.placed(e))?;
            Planned::Done(rows, outcome.message)
        }
    })
}

/// The columns of a query, which is planned; `None` for another statement.
fn schema_of(session: &SqlSession, piece: &Piece) -> Result<Option<SchemaRef>, SqlError> {
    session.check(piece)?;
    let word = first_word(piece);
    let reads = ["select", "with", "values", "table", "from"];
    let is_query = reads.iter().any(|known| word.eq_ignore_ascii_case(known));
    if !is_query || !session.gives_rows(piece) {
        return Ok(None);
    }
    session.plan(piece).map(|planned| Some(planned.schema()))
}

fn first_word(piece: &Piece) -> &str {
    let text = piece.text.trim_start_matches(['(', ' ']);
    text.split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default()
}

/// A name of SQL: in lower case, unless it is in double quotes.
fn table_name(py: Python<'_>, name: &str) -> PyResult<String> {
    sql::files::table_name(name).ok_or_else(|| {
        let message = format!(
            "{name:?} is no name for a table; use letters, digits and _, or put it in double quotes"
        );
        error::input(py, None, message)
    })
}

fn of_failure(failure: Failure) -> SqlError {
    match failure {
        Failure::BadInput(message) => SqlError::input(message),
        Failure::Runtime(message) | Failure::Interrupted(message) => SqlError::failed(message),
    }
}

/// The first paragraph of what clap says, without its heading.
fn first(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.lines().next().unwrap_or_default().to_owned()
}

/// Panics of the engine's threads become errors of their statements; nothing else is printed.
fn quiet_workers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(sql::quiet_workers);
}
