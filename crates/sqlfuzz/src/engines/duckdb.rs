//! DuckDB in a separate Python process.
//!
//! Requests and replies are lines of JSON; rows go through Arrow IPC files.

use super::{Answer, Rows};
use crate::FuzzError;
use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The Python program of the worker.
const WORKER: &str = include_str!("../../duckdb_worker.py");

/// A DuckDB worker process.
pub struct Duck {
    python: PathBuf,
    folder: PathBuf,
    process: Process,
    files: usize,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    fn start(python: &Path) -> Result<Process, FuzzError> {
        let mut child = Command::new(python)
            .args(["-c", WORKER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(FuzzError::io(python.display().to_string()))?;
        let missing = || FuzzError::Setup("the DuckDB worker has no pipes".into());
        let requests = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let (send, answers) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Process {
            child,
            requests,
            answers,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Duck {
    /// Starts a worker with the interpreter `python`; its files go below `folder`.
    ///
    /// # Errors
    /// If the interpreter does not start, or has no module `duckdb`.
    pub fn start(python: &Path, folder: &Path) -> Result<Duck, FuzzError> {
        let process = Process::start(python)?;
        let mut duck = Duck {
            python: python.to_owned(),
            folder: folder.to_owned(),
            process,
            files: 0,
        };
        duck.ask(&json!({"do": "open"}), Duration::from_secs(60))
            .map_err(|e| {
                FuzzError::Setup(format!("{} cannot run DuckDB: {e}", python.display()))
            })?;
        Ok(duck)
    }

    fn ask(&mut self, request: &Json, limit: Duration) -> Result<Json, String> {
        let sent = writeln!(self.process.requests, "{request}")
            .and_then(|()| self.process.requests.flush());
        let failed = match sent {
            Ok(()) => match self.process.answers.recv_timeout(limit) {
                Ok(line) => {
                    let answer: Json = serde_json::from_str(&line).map_err(|e| e.to_string())?;
                    return match answer.get("error").and_then(Json::as_str) {
                        Some(error) => Err(error.to_owned()),
                        None => Ok(answer),
                    };
                }
                Err(RecvTimeoutError::Timeout) => "took too long".to_owned(),
                Err(RecvTimeoutError::Disconnected) => "the worker ended".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        // The new process has no tables, so later statements of the case fail in DuckDB and are not
        // compared.
        if let Ok(process) = Process::start(&self.python) {
            self.process = process;
        }
        Err(failed)
    }

    /// Drops all tables, for a new case.
    ///
    /// # Errors
    /// If neither the worker nor a new one replies within a minute.
    pub fn open(&mut self) -> Result<(), FuzzError> {
        let open = json!({"do": "open"});
        let limit = Duration::from_secs(60);
        if self.ask(&open, limit).is_err() {
            // DuckDB may report the error of the last statement again, which says nothing of the
            // next case.
            self.process = Process::start(&self.python)?;
            self.ask(&open, limit).map_err(FuzzError::Setup)?;
        }
        Ok(())
    }

    /// Loads batches as the table `name`; `false` if DuckDB has no equivalent types.
    ///
    /// # Errors
    /// If the file for DuckDB cannot be written.
    pub fn load(&mut self, name: &str, batches: &[RecordBatch]) -> Result<bool, FuzzError> {
        let path = self.folder.join(format!("{name}.duck"));
        let Some(batches) = simple(batches) else {
            return Ok(false);
        };
        let Some(first) = batches.first() else {
            return Ok(false);
        };
        let file = File::create(&path).map_err(FuzzError::io("file for DuckDB"))?;
        let mut writer = StreamWriter::try_new(file, &first.schema())?;
        batches.iter().try_for_each(|b| writer.write(b))?;
        writer.finish()?;
        let request = json!({"do": "load", "name": name, "path": path});
        Ok(self.ask(&request, Duration::from_secs(60)).is_ok())
    }

    /// Runs a statement, for at most `limit`.
    pub fn run(&mut self, sql: &str, limit: Duration) -> Answer {
        self.files += 1;
        let path = self.folder.join(format!("answer{}.duck", self.files));
        let request = json!({"do": "run", "sql": sql, "path": path});
        let answer = self.ask(&request, limit)?;
        if answer.get("rows").is_none() {
            return Ok(None);
        }
        let read = || -> Result<Rows, FuzzError> {
            let file = File::open(&path).map_err(FuzzError::io("answer of DuckDB"))?;
            let reader = StreamReader::try_new(BufReader::new(file), None)?;
            let schema = reader.schema();
            let batches = reader.collect::<Result<Vec<_>, _>>()?;
            Ok(Rows { schema, batches })
        };
        let rows = read().map_err(|e| e.to_string());
        let _ = std::fs::remove_file(&path);
        rows.map(Some)
    }
}

/// The batches in types that DuckDB has; `None` if a column has no equivalent type or would lose
/// values.
fn simple(batches: &[RecordBatch]) -> Option<Vec<RecordBatch>> {
    let schema = batches.first()?.schema();
    let types: Option<Vec<DataType>> = schema
        .fields()
        .iter()
        .map(|f| simple_type(f.data_type()))
        .collect();
    let types = types?;
    let fields = schema.fields().iter().zip(&types);
    let fields: Vec<Field> = fields
        .map(|(f, t)| Field::new(f.name(), t.clone(), true))
        .collect();
    let simple: SchemaRef = Arc::new(Schema::new(fields));
    let convert = |batch: &RecordBatch| {
        let columns = batch.columns().iter().zip(&types).map(|(column, to)| {
            let made = cast(column, to).ok()?;
            // A cast that turns values into NULL would give DuckDB other data.
            let lost = made.logical_null_count() != column.logical_null_count();
            (!lost || *column.data_type() == DataType::Null).then_some(made)
        });
        RecordBatch::try_new(Arc::clone(&simple), columns.collect::<Option<Vec<_>>>()?).ok()
    };
    batches.iter().map(convert).collect()
}

fn simple_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Dictionary(_, words) => simple_type(words)?,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Null => DataType::Int32,
        DataType::Decimal128(_, scale) if *scale < 0 => DataType::Decimal128(38, 0),
        DataType::Decimal256(_, scale) if *scale >= 0 => DataType::Decimal128(38, *scale),
        DataType::Decimal256(..) => return None,
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(_, Some(_)) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        other => other.clone(),
    })
}
