//! `tierloom run tpcds --temps PLACE`: queries as scripts of several statements, with their
//! temporary tables at one place after another.
//!
//! ```text
//!   query ── staged ──► CREATE TABLE a AS ..., CREATE TABLE b AS ..., SELECT ... from a, b
//!   once:     the query as it is, whose answer all scripts must have
//!   N times:  for each place in turn, for each script: make, read, look where the pages are, drop
//!   --machine: the work captured at the first place is priced for every place (price.rs)
//! ```

mod price;
mod records;
mod render;

use super::answers::equal;
use super::output;
use crate::commands::run::Temps;
use crate::commands::sql::open::failure;
use crate::commands::sql::plan;
use crate::commands::sql::watch::Terminal;
use crate::failure::Failure;
use price::{Pricer, Work};
use std::collections::BTreeMap;
use std::time::Instant;
use tierloom_engine::answer;
use tierloom_engine::arrow::array::{ArrowPrimitiveType, AsArray};
use tierloom_engine::arrow::datatypes::{UInt32Type, UInt64Type};
use tierloom_engine::pooled::Verification;
use tierloom_memory::router::{self, Class};
use tierloom_placement::Policy;
use tierloom_record::{NodeBytes, PlaceBytes, Record, TempTable, TempTablesRecord};
use tierloom_sql::{CollectedRows, SqlError, SqlSession, Staged, split, staged};
use tierloom_suite::SuiteQuery;

/// How many queries run if none are named: those with the largest temporary tables.
const LARGEST: usize = 5;

/// A query with the statements that it consists of as a script.
struct Script {
    query: SuiteQuery,
    staged: Staged,
    /// The answer of the query in one statement.
    answer: String,
}

/// One execution of a script.
struct Ran {
    make_ms: f64,
    query_ms: f64,
    drop_ms: f64,
    answer: String,
    tables: Vec<TempTable>,
    by_place: Vec<PlaceBytes>,
    by_node: Vec<NodeBytes>,
    work: Work,
}

/// Executions of one script at one place, until one fails.
#[derive(Default)]
struct Runs {
    ran: Vec<Ran>,
    failed: Option<String>,
}

/// Measures, prints and writes the records.
///
/// # Errors
/// Bad input, an answer that differs, or a script that failed; the records are written first.
pub(super) fn run(temps: &Temps<'_>) -> Result<(), Failure> {
    let repeat = temps.options.repeat;
    if repeat == 0 {
        return Err(Failure::input(
            "--repeat 0: at least one execution is needed",
        ));
    }
    let scripts = temps.scripts()?;
    let pricers = temps.pricers()?;
    if temps.options.dry_run {
        return crate::output::print(&temps.describe(&scripts, &pricers));
    }
    let (mut session, here) = Session::open(temps)?;
    let scripts = session.with_answers(temps, &temps.places[here[0]], scripts)?;
    let mut all: BTreeMap<(usize, usize), Runs> = BTreeMap::new();
    for round in 1..=repeat {
        note!("round {round} of {repeat}");
        for &at in &here {
            session.place(&temps.places[at])?;
            for (index, script) in scripts.iter().enumerate() {
                let runs = all.entry((index, at)).or_default();
                if runs.failed.is_none() {
                    session.repeat(script, runs)?;
                }
            }
        }
    }
    let mut records: Vec<TempTablesRecord> = all
        .iter()
        .map(|((script, place), runs)| temps.record(&scripts[*script], *place, runs))
        .collect();
    for pricer in &pricers {
        for (index, script) in scripts.iter().enumerate() {
            let captured = &all[&(index, here[0])];
            let places = 0..temps.places.len();
            records.extend(places.map(|at| temps.modelled(pricer, script, at, captured)));
        }
    }
    let of = |record: &TempTablesRecord| Record::TempTables(Box::new(record.clone()));
    let lines: Vec<Record> = records.iter().map(of).collect();
    output::write(&lines, &render::tables(&records), temps.options)?;
    let failed = records.iter().filter(|r| r.failed.is_some()).count();
    match failed {
        0 => Ok(()),
        _ => Err(Failure::runtime(format!(
            "{failed} of {} scripts failed; see above",
            records.len()
        ))),
    }
}

impl Temps<'_> {
    /// The queries that name something in WITH, as scripts.
    fn scripts(&self) -> Result<Vec<(SuiteQuery, Staged)>, Failure> {
        let mut scripts = Vec::new();
        for query in self.workload.queries(self.queries)? {
            match staged(&query.sql).map_err(|e| failure(e, Some(query.id)))? {
                Some(staged) => scripts.push((query, staged)),
                None if self.queries.is_empty() => {}
                None => {
                    return Err(Failure::input(format!(
                        "--queries {}: it has no WITH, so nothing of it becomes a temporary table",
                        query.id
                    )));
                }
            }
        }
        match scripts.is_empty() {
            false => Ok(scripts),
            true => Err(Failure::input(format!(
                "--temps: no query of {} has a WITH whose parts could be temporary tables",
                self.workload.id()
            ))),
        }
    }

    /// The machines that the scripts are modelled on.
    fn pricers(&self) -> Result<Vec<Pricer>, Failure> {
        let options = self.options;
        let here = options.here.read()?;
        let machines = options.machine.iter();
        machines
            .map(|name| Pricer::new(name, options.model_workers, self.places, &here))
            .collect()
    }

    fn describe(&self, scripts: &[(SuiteQuery, Staged)], pricers: &[Pricer]) -> String {
        let of = |(query, staged): &(SuiteQuery, Staged)| {
            let names: Vec<&str> = staged.tables.iter().map(|(name, _)| &**name).collect();
            format!("  {}: {}\n", query.id, names.join(", "))
        };
        let which = match self.queries.is_empty() {
            true => format!("the {LARGEST} of these with the largest temporary tables"),
            false => "these".to_owned(),
        };
        let scripts: String = scripts.iter().map(of).collect();
        let machines: Vec<&str> = pricers.iter().map(Pricer::name).collect();
        let modelled = match machines.is_empty() {
            true => String::new(),
            false => format!(", and model them for {}", machines.join(", ")),
        };
        format!(
            "would generate {} and run {which} {} times with their temporary tables in {}, in \
             turn{modelled}:\n{scripts}",
            self.workload.title(),
            self.options.repeat,
            self.places.join("; then "),
        )
    }
}

/// The session in which all scripts run.
struct Session(SqlSession);

impl Session {
    /// A session with the data of the benchmark, whose operator memory is routed, and the indices
    /// of the places that this machine has; the others can be modelled only.
    fn open(temps: &Temps<'_>) -> Result<(Session, Vec<usize>), Failure> {
        let options = temps.options;
        let topology = options.here.read()?;
        let dram: Policy = "dram".parse().map_err(Failure::runtime)?;
        let pages = options.pages.parse().map_err(Failure::input)?;
        let session = plan::options(options.threads, pages, dram, topology)?;
        let mut session = Session(SqlSession::new(session).map_err(|e| failure(e, None))?);
        if let Some(path) = &options.pool {
            let pool = options.pool_access.access().open(path)?;
            let used = session.0.use_pool(pool, Verification::FirstUse);
            used.map_err(|e| failure(e, None))?;
        }
        let on = session.run("SET tierloom.routing = on");
        on.map_err(|e| failure(e, None))?;
        let here = session.places(temps)?;
        let of = format!("{}:{}", temps.workload.id(), temps.workload.scale_factor());
        note!("generating {}", temps.workload.title());
        let data = plan::generated_data(&of)?;
        let made = session.0.generate(&data, &Terminal::default());
        made.map_err(|e| failure(e, None))?;
        if !options.machine.is_empty() {
            session.0.keep_work();
        }
        Ok((session, here))
    }

    /// The indices of the places that can be used here. Others are found before the data are made,
    /// and are refused unless they are modelled.
    fn places(&mut self, temps: &Temps<'_>) -> Result<Vec<usize>, Failure> {
        let mut here = Vec::new();
        let mut refused = None;
        for (at, place) in temps.places.iter().enumerate() {
            match self.place(place) {
                Ok(()) => here.push(at),
                Err(Failure::BadInput(why)) if !temps.options.machine.is_empty() => {
                    note!("{why}; this place is modelled only");
                    refused = Some(why);
                }
                Err(error) => return Err(error),
            }
        }
        match refused {
            Some(why) if here.is_empty() => Err(Failure::input(format!(
                "{why}; the work to model is captured here, at one place at least"
            ))),
            _ => Ok(here),
        }
    }

    /// Sets where temporary tables are made.
    fn place(&mut self, place: &str) -> Result<(), Failure> {
        let quoted = place.replace('\'', "''");
        let set = self.run(&format!("SET tierloom.memory.temp = '{quoted}'"));
        match set {
            Ok(_) => Ok(()),
            // The statement is not the user's, so its position says nothing.
            Err(SqlError::Input { message, .. }) => {
                Err(Failure::input(format!("--temps {place}: {message}")))
            }
            Err(error) => Err(failure(error, None)),
        }
    }

    /// The scripts to measure, with the answers of their queries in one statement.
    fn with_answers(
        &mut self,
        temps: &Temps<'_>,
        place: &str,
        scripts: Vec<(SuiteQuery, Staged)>,
    ) -> Result<Vec<Script>, Failure> {
        let scripts = match temps.queries.is_empty() {
            true => self.largest(place, scripts)?,
            false => scripts,
        };
        let mut whole = Vec::new();
        for (query, staged) in scripts {
            let rows = self.run(&query.sql);
            let rows = rows.map_err(|e| failure(e, Some(query.id)))?;
            whole.push(Script {
                answer: text(&rows)?,
                query,
                staged,
            });
        }
        Ok(whole)
    }

    /// The scripts with the largest temporary tables.
    fn largest(
        &mut self,
        place: &str,
        scripts: Vec<(SuiteQuery, Staged)>,
    ) -> Result<Vec<(SuiteQuery, Staged)>, Failure> {
        note!(
            "looking for the {LARGEST} of {} queries with the largest temporary tables",
            scripts.len()
        );
        self.place(place)?;
        let mut sized = Vec::new();
        for (query, staged) in scripts {
            let ran = match self.script(&staged) {
                Ok(ran) => ran,
                Err(SqlError::Interrupted) => return Err(failure(SqlError::Interrupted, None)),
                // Some name two columns alike in WITH, which a table cannot have.
                Err(
                    SqlError::Input { message, .. }
                    | SqlError::Failed(message)
                    | SqlError::Busy(message),
                ) => {
                    note!("{} is left out: {message}", query.id);
                    continue;
                }
            };
            let bytes: u64 = ran.tables.iter().map(|t| t.size_bytes).sum();
            sized.push((bytes, query, staged));
        }
        sized.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        let largest = sized.into_iter().take(LARGEST);
        Ok(largest.map(|(_, query, staged)| (query, staged)).collect())
    }

    /// Runs a script once more, and keeps its times or its error.
    fn repeat(&mut self, script: &Script, runs: &mut Runs) -> Result<(), Failure> {
        match self.script(&script.staged) {
            Ok(ran) if !equal(&ran.answer, &script.answer) => Err(Failure::runtime(format!(
                "{} has another answer as a script than as one statement; please report this",
                script.query.id
            ))),
            Ok(ran) => {
                runs.ran.push(ran);
                Ok(())
            }
            Err(SqlError::Interrupted) => Err(failure(SqlError::Interrupted, None)),
            Err(
                SqlError::Input { message, .. }
                | SqlError::Failed(message)
                | SqlError::Busy(message),
            ) => {
                runs.failed = Some(message);
                Ok(())
            }
        }
    }

    /// Makes the tables, reads them, and drops them, also if something fails.
    fn script(&mut self, script: &Staged) -> Result<Ran, SqlError> {
        let mut made = Vec::new();
        let ran = self.made_and_read(script, &mut made);
        let start = Instant::now();
        for name in made.iter().rev() {
            self.run(&format!("DROP TABLE {name}"))?;
        }
        let drop_ms = ms(start);
        ran.map(|ran| Ran { drop_ms, ..ran })
    }

    fn made_and_read<'a>(
        &mut self,
        script: &'a Staged,
        made: &mut Vec<&'a str>,
    ) -> Result<Ran, SqlError> {
        // What ran before is not this script's.
        self.0.take_work();
        let start = Instant::now();
        for (name, rows) in &script.tables {
            self.run(&format!("CREATE TABLE {name} AS {rows}"))?;
            made.push(name);
        }
        let make_ms = ms(start);
        let make = self.0.take_work();
        let start = Instant::now();
        let rows = self.run(&script.query)?;
        let query_ms = ms(start);
        let query = self.0.take_work();
        Ok(Ran {
            make_ms,
            query_ms,
            drop_ms: 0.0,
            answer: text(&rows).map_err(|e| SqlError::Failed(e.to_string()))?,
            tables: self.tables(made)?,
            by_place: by_place(),
            by_node: self.by_node(made)?,
            work: Work { make, query },
        })
    }

    /// Rows and bytes of the tables with these names.
    fn tables(&mut self, names: &[&str]) -> Result<Vec<TempTable>, SqlError> {
        let known = self.0.tables();
        let mut tables = Vec::new();
        for name in names {
            let columns = format!(
                "SELECT DISTINCT column_name, size_bytes FROM tier_columns WHERE table_name = '{name}'"
            );
            let rows = self.run(&format!("SELECT sum(size_bytes) FROM ({columns})"))?;
            let info = known.iter().find(|table| table.name == **name);
            tables.push(TempTable {
                name: (*name).to_owned(),
                rows: info.and_then(|table| table.rows).unwrap_or(0),
                size_bytes: numbers::<UInt64Type>(&rows, 0)
                    .first()
                    .copied()
                    .flatten()
                    .unwrap_or(0),
            });
        }
        Ok(tables)
    }

    /// Where the kernel finds the pages of the tables with these names.
    fn by_node(&mut self, names: &[&str]) -> Result<Vec<NodeBytes>, SqlError> {
        let rows = self.run(&format!(
            "SELECT node, sum(node_bytes) FROM tier_columns WHERE table_name IN ('{}') \
             GROUP BY node ORDER BY node",
            names.join("', '")
        ))?;
        let nodes = numbers::<UInt32Type>(&rows, 0).into_iter();
        let bytes = numbers::<UInt64Type>(&rows, 1);
        let of = |(node, bytes): (Option<u32>, Option<u64>)| NodeBytes {
            node,
            bytes: bytes.unwrap_or(0),
        };
        Ok(nodes.zip(bytes).map(of).collect())
    }

    /// Runs a text of one statement.
    fn run(&mut self, sql: &str) -> Result<CollectedRows, SqlError> {
        let mut rows = CollectedRows::default();
        for piece in &split(sql)? {
            self.0.run(piece, &mut rows, &Terminal::default())?;
        }
        Ok(rows)
    }
}

/// Bytes of temporary tables at the places of their class.
fn by_place() -> Vec<PlaceBytes> {
    let places = router::place_usage().into_iter();
    places
        .filter(|usage| usage.class == Class::TempTable && usage.current_bytes > 0)
        .map(|usage| PlaceBytes {
            place: usage.place,
            bytes: usage.current_bytes,
        })
        .collect()
}

/// The values of a column of numbers.
fn numbers<T: ArrowPrimitiveType>(rows: &CollectedRows, column: usize) -> Vec<Option<T::Native>> {
    let batches = rows.batches.iter();
    let columns = batches.filter_map(|batch| batch.column(column).as_primitive_opt::<T>());
    columns.flat_map(|column| column.iter()).collect()
}

fn text(rows: &CollectedRows) -> Result<String, Failure> {
    answer::to_text(&rows.batches).map_err(Failure::runtime)
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
