//! Reads records back and groups them by kind and run.

use crate::{
    BenchRecord, CostRecord, EngineKind, InterferenceRecord, PoolCostRecord, PublicationRecord,
    QueryRecord, Record, RecordError, RestartRecord, RunRecord, SCHEMA, SummaryRecord,
    TempTablesRecord, ThroughputRecord, TransactionsRecord, TuneRecord, ValidationRecord,
};
use serde::Deserialize;
use std::path::Path;

/// One run of queries: its opening record, its results, and its summary if it finished.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSet {
    /// The run record that opened it.
    pub run: RunRecord,
    /// Results of queries, in file order.
    pub queries: Vec<QueryRecord>,
    /// Throughputs of concurrent sessions, in file order.
    pub throughputs: Vec<ThroughputRecord>,
    /// The summary; `None` if the run was killed.
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

    /// The scale factor that the figures of a machine are for: that of the run, unless they were
    /// modelled for another.
    pub fn scale_factor_on(&self, machine: &str) -> f64 {
        let card = self.run.machines.iter().find(|card| card.name == machine);
        let modelled = card.and_then(|card| card.scale_factor);
        modelled.unwrap_or(self.run.settings.scale_factor)
    }
}

/// The records of one or more files, by kind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordSet {
    /// Runs of queries, in file order.
    pub runs: Vec<RunSet>,
    /// Runs of memory benchmarks, in file order.
    pub benches: Vec<BenchRecord>,
    /// Comparisons of the model with publications, in file order.
    pub validations: Vec<ValidationRecord>,
    /// Weights of phases, in file order.
    pub tunes: Vec<TuneRecord>,
    /// Comparisons of prices, in file order.
    pub costs: Vec<CostRecord>,
    /// Prices of pools, in file order.
    pub pool_costs: Vec<PoolCostRecord>,
    /// Starts of processes, in file order.
    pub restarts: Vec<RestartRecord>,
    /// Queries with temporary tables, in file order.
    pub temp_tables: Vec<TempTablesRecord>,
    /// Transactions under one placement, in file order.
    pub transactions: Vec<TransactionsRecord>,
    /// Queries on several hosts, in file order.
    pub interferences: Vec<InterferenceRecord>,
    /// Published figures beside benchmark runs, in file order.
    pub publications: Vec<PublicationRecord>,
}

/// An incomplete record at the end of a file, left by an interrupted write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutTail {
    /// Its line, from 1.
    pub line: usize,
    /// Number of bytes of it in the file.
    pub bytes: u64,
}

impl std::fmt::Display for CutTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CutTail { line, bytes } = self;
        write!(f, "line {line} is cut off after {bytes} bytes")
    }
}

impl RecordSet {
    /// Groups records.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] for a query, throughput or summary without a run record before
    /// it.
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

    /// All records of several sets, in the order of the sets.
    pub fn merged(sets: impl IntoIterator<Item = RecordSet>) -> RecordSet {
        let mut all = RecordSet::default();
        for set in sets {
            all.runs.extend(set.runs);
            all.benches.extend(set.benches);
            all.validations.extend(set.validations);
            all.tunes.extend(set.tunes);
            all.costs.extend(set.costs);
            all.pool_costs.extend(set.pool_costs);
            all.restarts.extend(set.restarts);
            all.temp_tables.extend(set.temp_tables);
            all.transactions.extend(set.transactions);
            all.interferences.extend(set.interferences);
            all.publications.extend(set.publications);
        }
        all
    }

    /// The last record of each publication and workload file: a repeated session writes it again.
    pub fn latest_publications(&self) -> Vec<&PublicationRecord> {
        let mut latest: Vec<&PublicationRecord> = Vec::new();
        for record in &self.publications {
            let same = |known: &&mut &PublicationRecord| {
                (&known.file, &known.paper) == (&record.file, &record.paper)
            };
            match latest.iter_mut().find(same) {
                Some(known) => *known = record,
                None => latest.push(record),
            }
        }
        latest
    }

    /// Whether there is no record at all.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
            && self.benches.is_empty()
            && self.validations.is_empty()
            && self.tunes.is_empty()
            && self.costs.is_empty()
            && self.pool_costs.is_empty()
            && self.restarts.is_empty()
            && self.temp_tables.is_empty()
            && self.transactions.is_empty()
            && self.interferences.is_empty()
            && self.publications.is_empty()
    }

    /// Reads a file of JSON lines.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] with file and line for anything that is not a whole record, for
    /// another schema, and for a query, throughput or summary before its run;
    /// [`RecordError::Empty`]; [`RecordError::Io`].
    pub fn read(path: &Path) -> Result<RecordSet, RecordError> {
        let name = path.display().to_string();
        let (set, tail) = parse_lines(&read_bytes(path)?, &name)?;
        set.without(tail.map(|t| t.error), name)
    }

    /// Reads the whole records of a file whose last line may be incomplete.
    ///
    /// The second value describes the incomplete line. A program that was killed while writing to a
    /// pipe or a plain file leaves one; [`crate::RecordFile`] never does. A file without records
    /// gives an empty set and no error: there is just nothing to resume from.
    ///
    /// # Errors
    /// Same as [`RecordSet::read`], except for the incomplete last line and the empty file.
    pub fn read_whole(path: &Path) -> Result<(RecordSet, Option<CutTail>), RecordError> {
        let name = path.display().to_string();
        let (set, tail) = parse_lines(&read_bytes(path)?, &name)?;
        Ok((set, tail.map(|t| t.tail)))
    }

    /// Parses JSON lines; `file` is used in errors. Empty lines are skipped.
    ///
    /// # Errors
    /// Same as [`RecordSet::read`], except for [`RecordError::Io`].
    pub fn parse(text: &str, file: &str) -> Result<RecordSet, RecordError> {
        let (set, tail) = parse_lines(text.as_bytes(), file)?;
        set.without(tail.map(|t| t.error), file.into())
    }

    fn without(self, problem: Option<RecordError>, file: String) -> Result<RecordSet, RecordError> {
        match problem {
            Some(error) => Err(error),
            None if self.is_empty() => Err(RecordError::Empty { file }),
            None => Ok(self),
        }
    }

    /// All records in an order that a file may have.
    ///
    /// Each run is followed by its queries, throughputs and summary; then come benchmarks,
    /// comparisons with publications, weights, prices, starts, and what benchmarks repeat of
    /// publications.
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
                run.throughputs
                    .iter()
                    .map(|one| Record::Throughput(Box::new(one.clone()))),
            );
            records.extend(
                run.summary
                    .iter()
                    .map(|summary| Record::Summary(Box::new(summary.clone()))),
            );
        }
        fn boxed<T: Clone>(
            all: &[T],
            as_record: fn(Box<T>) -> Record,
        ) -> impl Iterator<Item = Record> {
            all.iter().map(move |one| as_record(Box::new(one.clone())))
        }
        records.extend(boxed(&self.benches, Record::Bench));
        records.extend(boxed(&self.validations, Record::Validation));
        records.extend(boxed(&self.tunes, Record::Tune));
        records.extend(boxed(&self.costs, Record::Cost));
        records.extend(boxed(&self.pool_costs, Record::PoolCost));
        records.extend(boxed(&self.restarts, Record::Restart));
        records.extend(boxed(&self.temp_tables, Record::TempTables));
        records.extend(boxed(&self.transactions, Record::Transactions));
        records.extend(boxed(&self.interferences, Record::Interference));
        records.extend(boxed(&self.publications, Record::Publication));
        records
    }

    fn push(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Run(run) => self.runs.push(RunSet {
                run: *run,
                queries: Vec::new(),
                throughputs: Vec::new(),
                summary: None,
            }),
            Record::Query(query) => self.run_of(&query.run_id)?.queries.push(*query),
            Record::Throughput(throughput) => {
                let run = self.run_of(&throughput.run_id)?;
                run.throughputs.push(*throughput);
            }
            Record::Summary(summary) => {
                let run = self.run_of(&summary.run_id)?;
                run.summary = Some(*summary);
            }
            Record::Bench(bench) => self.benches.push(*bench),
            Record::Validation(validation) => self.validations.push(*validation),
            Record::Tune(tune) => self.tunes.push(*tune),
            Record::Cost(cost) => self.costs.push(*cost),
            Record::PoolCost(cost) => self.pool_costs.push(*cost),
            Record::Restart(restart) => self.restarts.push(*restart),
            Record::TempTables(one) => self.temp_tables.push(*one),
            Record::Transactions(one) => self.transactions.push(*one),
            Record::Interference(one) => self.interferences.push(*one),
            Record::Publication(one) => self.publications.push(*one),
        }
        Ok(())
    }

    fn run_of(&mut self, run_id: &str) -> Result<&mut RunSet, String> {
        // From the end: of two runs with one id, a record belongs to the one before it.
        self.runs
            .iter_mut()
            .rev()
            .find(|r| r.run.run_id == run_id)
            .ok_or_else(|| format!("a record of run {run_id:?} that no run record opened"))
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, RecordError> {
    std::fs::read(path).map_err(|source| RecordError::Io {
        action: "read",
        path: path.display().to_string(),
        source,
    })
}

/// A last line that is not a record and has no line end.
struct Tail {
    tail: CutTail,
    /// The error for readers that do not accept an incomplete file.
    error: RecordError,
}

/// Parses lines as bytes, because an interrupted write may stop within a character.
fn parse_lines(text: &[u8], file: &str) -> Result<(RecordSet, Option<Tail>), RecordError> {
    let mut set = RecordSet::default();
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let malformed = |problem: String, expected: &str| RecordError::Malformed {
            file: file.into(),
            line: index + 1,
            problem,
            expected: expected.into(),
        };
        let record = match parse_line(line) {
            Ok(record) => record,
            // A broken line with a line end is not the result of an interrupted write.
            Err(problem) if line.ends_with(b"\n") => {
                let expected = "one JSON record as `tierloom run --jsonl`, `tierloom bench` and other commands write it";
                return Err(malformed(problem, expected));
            }
            Err(problem) => {
                let expected = "a whole record and a line end (the file is cut off here)";
                let tail = CutTail {
                    line: index + 1,
                    bytes: line.len() as u64,
                };
                let error = malformed(problem, expected);
                return Ok((set, Some(Tail { tail, error })));
            }
        };
        set.push(record)
            .map_err(|problem| malformed(problem, "a run record before its queries"))?;
    }
    Ok((set, None))
}

fn parse_line(line: &[u8]) -> Result<Record, String> {
    /// The part that is common to all schema versions.
    #[derive(Deserialize)]
    struct Opening {
        schema: Option<String>,
    }
    let not_a_record = |e| format!("not a record: {e}");
    let line = std::str::from_utf8(line).map_err(|e| format!("not a record: {e}"))?;
    // The schema is checked first: a record of another version may lack fields of this one, and the
    // message should name the version.
    let opening: Opening = serde_json::from_str(line).map_err(not_a_record)?;
    match opening.schema.filter(|schema| schema != SCHEMA) {
        Some(other) => Err(format!(
            "records of schema {other:?}, but this version reads {SCHEMA:?}"
        )),
        None => serde_json::from_str(line).map_err(not_a_record),
    }
}
