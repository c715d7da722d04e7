//! `tierloom run ... --pool P --restart N`: how soon a process that starts anew answers queries.
//!
//! ```text
//!   once:   generate Parquet files, load them into the pool
//!   N times, in turn:  a child gets the tables in one way, runs all queries, and gives its stamps
//! ```
//! Every start is a process of this binary, so that nothing is warm but the files, which the kernel
//! has in memory. Before each start that attaches, another child has the pool open and ends, or is
//! killed.

mod child;
mod render;

pub use child::run as run_child;

use super::answers::equal;
use super::output;
use crate::commands::run::Restarts;
use crate::commands::sql::files;
use crate::failure::Failure;
use crate::stop;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tierloom_record::{Provenance, Record, RestartRecord, SCHEMA, Spread};
use tierloom_suite::SuiteQuery;

/// How a process gets its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Way {
    OnDemand,
    Loaded,
    Attached,
    Verified,
}

impl Way {
    fn text(self) -> &'static str {
        match self {
            Way::OnDemand => "on demand",
            Way::Loaded => "loaded",
            Way::Attached => "attached",
            Way::Verified => "verified",
        }
    }
}

/// How the process before ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum After {
    Exit,
    Kill,
}

impl After {
    fn text(self) -> &'static str {
        match self {
            After::Exit => "exit",
            After::Kill => "kill",
        }
    }
}

/// The starts that are compared, in the order in which they alternate.
const STARTS: [(Way, After); 5] = [
    (Way::OnDemand, After::Exit),
    (Way::Loaded, After::Exit),
    (Way::Attached, After::Exit),
    (Way::Attached, After::Kill),
    (Way::Verified, After::Exit),
];

#[derive(Debug, Clone, Serialize, Deserialize)]
struct TableFile {
    name: String,
    path: PathBuf,
}

/// What a child does.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ChildSpec {
    way: Way,
    pool: PathBuf,
    tables: Vec<TableFile>,
    queries: Vec<String>,
    threads: Option<usize>,
    /// It keeps the pool open until it is killed.
    wait_to_be_killed: bool,
}

/// When a child did what, in ns since 1970.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stamps {
    ready_ns: u64,
    /// All tables are attached, or loaded.
    complete_ns: Option<u64>,
    /// All bytes are checked.
    verified_ns: Option<u64>,
    answers_ns: Vec<u64>,
    answers: Vec<String>,
}

/// One start, with the time at which its process was started.
struct Start {
    began_ns: u64,
    stamps: Stamps,
}

/// Measures, prints and writes the records.
///
/// # Errors
/// Bad input, a child that fails, or answers that differ.
pub(super) fn run(restarts: &Restarts<'_>) -> Result<(), Failure> {
    restarts.run()
}

impl Restarts<'_> {
    fn run(&self) -> Result<(), Failure> {
        let queries = self.workload.queries(self.queries)?;
        if self.rounds == 0 {
            return Err(Failure::input("--restart 0: at least one start is needed"));
        }
        if !self.pool.exists() {
            let pool = self.pool.display();
            return Err(Failure::input(format!(
                "cannot find the pool {pool}; make it with: tierloom pool create {pool} --size SIZE"
            )));
        }
        if self.options.dry_run {
            return crate::output::print(&self.describe(&queries));
        }
        let (folder, _made) = self.folder()?;
        let tables = self.files(&folder)?;
        let pool_bytes = self.load(&tables)?;
        let mut starts: BTreeMap<(Way, After), Vec<Start>> = BTreeMap::new();
        for round in 1..=self.rounds {
            note!("start {round} of {} in each way", self.rounds);
            for (way, after) in STARTS {
                let start = self.start(way, after, &tables, &queries)?;
                starts.entry((way, after)).or_default().push(start);
            }
        }
        same_answers(&queries, &starts)?;
        let mut file_bytes = 0;
        for table in &tables {
            let data = std::fs::metadata(&table.path).map_err(Failure::runtime)?;
            file_bytes += data.len();
        }
        let of = |(way, after)| {
            let starts = starts.get(&(way, after)).map_or(&[][..], Vec::as_slice);
            self.record(way, after, starts, &queries, (file_bytes, pool_bytes))
        };
        let records: Vec<RestartRecord> = STARTS.into_iter().filter_map(of).collect();
        let all = records.iter().cloned();
        let all: Vec<Record> = all.map(|r| Record::Restart(Box::new(r))).collect();
        output::write(&all, &render::tables(&records), self.options)
    }

    fn describe(&self, queries: &[SuiteQuery]) -> String {
        let ids: Vec<&str> = queries.iter().map(|query| query.id).collect();
        format!(
            "would generate {} as Parquet files, load them into {}, and start {} processes in {} \
             ways, in turn, each with the queries {}\n",
            self.workload.title(),
            self.pool.display(),
            self.rounds,
            STARTS.len(),
            ids.join(", ")
        )
    }

    /// The folder of the files; removed at the end unless it was named.
    fn folder(&self) -> Result<(PathBuf, Option<TempDir>), Failure> {
        if let Some(folder) = &self.options.files {
            return Ok((folder.clone(), None));
        }
        let made = tempfile::tempdir().map_err(Failure::runtime)?;
        Ok((made.path().to_owned(), Some(made)))
    }

    /// The Parquet files, which are generated if there are none.
    fn files(&self, folder: &Path) -> Result<Vec<TableFile>, Failure> {
        let found = parquet_files(folder)?;
        if !found.is_empty() {
            note!("using the files in {}", folder.display());
            return Ok(found);
        }
        let (id, sf) = (self.workload.id(), self.workload.scale_factor().to_string());
        note!("generating {} as Parquet files", self.workload.title());
        let mut command = this_program()?;
        command
            .args(["generate", id, "--sf", &sf, "-o"])
            .arg(folder);
        if id == "ssb" {
            let seed = self.workload.seed().to_string();
            command.args(["--format", "parquet", "--seed", &seed]);
        }
        ended(id, command.stdout(Stdio::null()).spawn())?;
        parquet_files(folder)
    }

    /// Loads the files into the pool, all other things than the tables left out; returns the bytes
    /// that the pool has in use.
    fn load(&self, tables: &[TableFile]) -> Result<u64, Failure> {
        let mut command = this_program()?;
        command.args(["pool", "load"]).arg(self.pool);
        for table in tables {
            command.args(["-t", &files::argument(&table.name, &table.path)]);
        }
        ended("pool load", command.stdout(Stdio::null()).spawn())?;
        let status = tierloom_pool::Pool::inspect(self.pool)?;
        Ok(status.space.used_bytes)
    }

    fn start(
        &self,
        way: Way,
        after: After,
        tables: &[TableFile],
        queries: &[SuiteQuery],
    ) -> Result<Start, Failure> {
        let spec = ChildSpec {
            way,
            pool: self.pool.to_owned(),
            tables: tables.to_vec(),
            queries: queries.iter().map(|query| query.sql.to_string()).collect(),
            threads: self.options.threads,
            wait_to_be_killed: false,
        };
        if after == After::Kill {
            let before = ChildSpec {
                wait_to_be_killed: true,
                queries: spec.queries.iter().take(1).cloned().collect(),
                ..spec.clone()
            };
            killed(&before)?;
        }
        let began_ns = child::now_ns();
        let mut process = spawned(&spec)?;
        let stamps = stamps(&mut process)?;
        ended("a start", Ok(process))?;
        Ok(Start { began_ns, stamps })
    }

    fn record(
        &self,
        way: Way,
        after: After,
        starts: &[Start],
        queries: &[SuiteQuery],
        (file_bytes, pool_bytes): (u64, u64),
    ) -> Option<RestartRecord> {
        let spread = |of: &dyn Fn(&Start) -> Option<f64>| {
            let values: Option<Vec<f64>> = starts.iter().map(of).collect();
            values.and_then(Spread::of)
        };
        let since = |start: &Start, ns: Option<u64>| Some(ms(start.began_ns, ns?));
        let tables = spread(&|s| Some(ms(s.stamps.ready_ns, s.stamps.complete_ns?)));
        let attaches = matches!(way, Way::Attached | Way::Verified);
        Some(RestartRecord {
            schema: SCHEMA.to_owned(),
            provenance: Provenance::Measured,
            made_at: output::now(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            build: crate::output::BUILD.to_owned(),
            workload: self.workload.id().to_owned(),
            scale_factor: self.workload.scale_factor(),
            threads: self.options.threads.and_then(|n| u32::try_from(n).ok()),
            queries: queries.iter().map(|query| query.id.to_owned()).collect(),
            file_bytes,
            pool_bytes,
            way: way.text().to_owned(),
            after: after.text().to_owned(),
            ready_ms: spread(&|s| since(s, Some(s.stamps.ready_ns)))?,
            complete_ms: spread(&|s| since(s, s.stamps.verified_ns.or(s.stamps.complete_ns))),
            first_answer_ms: spread(&|s| since(s, s.stamps.answers_ns.first().copied()))?,
            last_answer_ms: spread(&|s| since(s, s.stamps.answers_ns.last().copied()))?,
            load_ms: tables.clone().filter(|_| way == Way::Loaded),
            attach_ms: tables.filter(|_| attaches),
            verify_ms: spread(&|s| Some(ms(s.stamps.complete_ns?, s.stamps.verified_ns?))),
        })
    }
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}

fn this_program() -> Result<Command, Failure> {
    Ok(Command::new(
        std::env::current_exe().map_err(Failure::runtime)?,
    ))
}

/// The Parquet files of a folder, by table.
fn parquet_files(folder: &Path) -> Result<Vec<TableFile>, Failure> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Failure::runtime)?.path();
        let name = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        if let Some(name) = name.filter(|_| path.extension().is_some_and(|e| e == "parquet")) {
            found.push(TableFile { name, path });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Waits for a child's end.
fn ended(what: &str, child: std::io::Result<Child>) -> Result<(), Failure> {
    let status = child.and_then(|mut child| child.wait());
    let status = status.map_err(Failure::runtime)?;
    match status.success() {
        true => Ok(()),
        _ if stop::requested() => Err(Failure::Interrupted("the starts were stopped".into())),
        false => Err(Failure::runtime(format!(
            "{what} failed ({status}); see above"
        ))),
    }
}

fn spawned(spec: &ChildSpec) -> Result<Child, Failure> {
    let text = serde_json::to_vec(spec).map_err(Failure::runtime)?;
    let mut command = this_program()?;
    command.args(["run", "restarted"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(Failure::runtime)?;
    let stdin = child.stdin.take();
    let written = stdin.map_or(Ok(()), |mut stdin| stdin.write_all(&text));
    written.map_err(Failure::runtime)?;
    Ok(child)
}

/// Reads what a child says.
fn stamps(child: &mut Child) -> Result<Stamps, Failure> {
    use std::io::BufRead;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        let read = std::io::BufReader::new(stdout).read_line(&mut line);
        read.map_err(Failure::runtime)?;
    }
    if line.is_empty() {
        let status = child.wait().map_err(Failure::runtime)?;
        if stop::requested() {
            return Err(Failure::Interrupted("the starts were stopped".into()));
        }
        return Err(Failure::runtime(format!(
            "a start failed ({status}); see above"
        )));
    }
    serde_json::from_str(&line).map_err(Failure::runtime)
}

/// Lets a child attach the tables and answer, then kills it.
fn killed(spec: &ChildSpec) -> Result<(), Failure> {
    let mut child = spawned(spec)?;
    let done = stamps(&mut child);
    let ended = child.kill().and_then(|()| child.wait());
    done?;
    ended.map(drop).map_err(Failure::runtime)
}

/// Refuses answers that differ between the ways.
fn same_answers(
    queries: &[SuiteQuery],
    starts: &BTreeMap<(Way, After), Vec<Start>>,
) -> Result<(), Failure> {
    let mut all = starts.values().flatten().map(|start| &start.stamps.answers);
    let Some(first) = all.next() else {
        return Ok(());
    };
    for answers in all {
        for (query, (one, other)) in queries.iter().zip(first.iter().zip(answers)) {
            if !equal(one, other) {
                let id = query.id;
                return Err(Failure::runtime(format!(
                    "{id} has different answers after a restart; please report this"
                )));
            }
        }
    }
    Ok(())
}
