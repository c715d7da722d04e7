//! Reading records back.

use crate::{EngineKind, QueryRecord, Record, RecordError, RunRecord, SCHEMA, SummaryRecord};
use serde::Deserialize;
use std::path::Path;

/// One run: its opening record, its queries, and its summary if it came to an end.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSet {
    /// What opened it.
    pub run: RunRecord,
    /// Its results in the order they were made.
    pub queries: Vec<QueryRecord>,
    /// What closed it; `None` if the run was killed.
    pub summary: Option<SummaryRecord>,
}

impl RunSet {
    /// The result of one query under one placement on one machine by one engine.
    pub fn find(
        &self,
        query: &str,
        placement: &str,
        machine: &str,
        engine: EngineKind,
    ) -> Option<&QueryRecord> {
        self.queries.iter().find(|r| {
            r.query == query
                && r.placement == placement
                && r.machine == machine
                && r.engine == engine
        })
    }
}

/// The runs of one or more files.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordSet {
    /// The runs in the order they were read.
    pub runs: Vec<RunSet>,
}

impl RecordSet {
    /// Gathers records into runs.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] for a query or summary whose run record did not come before it.
    pub fn from_records(
        records: impl IntoIterator<Item = Record>,
    ) -> Result<RecordSet, RecordError> {
        let mut set = RecordSet::default();
        for record in records {
            set.push(record).map_err(|problem| RecordError::Malformed {
                file: "(records)".into(),
                line: 0,
                problem,
                expected: "a run record before its queries".into(),
            })?;
        }
        Ok(set)
    }

    /// Reads a file of JSON lines.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] with file and line for anything that is not a whole record, an unknown schema, or a
    /// query before its run; [`RecordError::Empty`]; [`RecordError::Io`].
    pub fn read(path: &Path) -> Result<RecordSet, RecordError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| RecordError::Io {
            action: "read",
            path: name.clone(),
            source,
        })?;
        Self::parse(&text, &name)
    }

    /// Parses JSON lines; `file` is used in errors. Empty lines are skipped.
    ///
    /// # Errors
    /// As [`RecordSet::read`], less the file system's.
    pub fn parse(text: &str, file: &str) -> Result<RecordSet, RecordError> {
        let mut set = RecordSet::default();
        let total = text.lines().count();
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let malformed = |problem: String, expected: &str| RecordError::Malformed {
                file: file.into(),
                line: index + 1,
                problem,
                expected: expected.into(),
            };
            let cut = index + 1 == total && !text.ends_with('\n');
            let record = parse_line(line).map_err(|problem| {
                let expected = if cut {
                    "a whole record and a line end (the file is cut off here)"
                } else {
                    "one JSON record as `tierloom run --jsonl` writes it"
                };
                malformed(problem, expected)
            })?;
            set.push(record)
                .map_err(|problem| malformed(problem, "a run record before its queries"))?;
        }
        if set.runs.is_empty() {
            Err(RecordError::Empty { file: file.into() })
        } else {
            Ok(set)
        }
    }

    /// All records again, in the order that a file holds them: each run, its queries, its summary.
    pub fn to_records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for run in &self.runs {
            records.push(Record::Run(Box::new(run.run.clone())));
            records.extend(
                run.queries
                    .iter()
                    .map(|query| Record::Query(Box::new(query.clone()))),
            );
            records.extend(
                run.summary
                    .iter()
                    .map(|summary| Record::Summary(Box::new(summary.clone()))),
            );
        }
        records
    }

    fn push(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Run(run) => self.runs.push(RunSet {
                run: *run,
                queries: Vec::new(),
                summary: None,
            }),
            Record::Query(query) => self.run_of(&query.run_id)?.queries.push(*query),
            Record::Summary(summary) => {
                let run = self.run_of(&summary.run_id)?;
                run.summary = Some(*summary);
            }
        }
        Ok(())
    }

    fn run_of(&mut self, run_id: &str) -> Result<&mut RunSet, String> {
        self.runs
            .iter_mut()
            .rev()
            .find(|r| r.run.run_id == run_id)
            .ok_or_else(|| format!("a record of run {run_id:?} that no run record opened"))
    }
}

fn parse_line(line: &str) -> Result<Record, String> {
    /// What every version's opening record has.
    #[derive(Deserialize)]
    struct Opening {
        schema: Option<String>,
    }
    let not_a_record = |e| format!("not a record: {e}");
    // The schema first: a record of another version may lack fields of this one.
    let opening: Opening = serde_json::from_str(line).map_err(not_a_record)?;
    match opening.schema.filter(|schema| schema != SCHEMA) {
        Some(other) => Err(format!(
            "records of schema {other:?}, but this version reads {SCHEMA:?}"
        )),
        None => serde_json::from_str(line).map_err(not_a_record),
    }
}
