//! The measured process: starts a session as `tierloom sql` does, gets its tables in one way, runs
//! the queries, and says when what was done.

use super::{ChildSpec, Stamps, TableFile, Way};
use crate::commands::sql::open::failure;
use crate::commands::sql::plan;
use crate::commands::sql::watch::Terminal;
use crate::failure::Failure;
use crate::{output, stop};
use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::process::parent_id;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tierloom_engine::answer;
use tierloom_engine::pooled::Verification;
use tierloom_memory::PageSize;
use tierloom_placement::Policy;
use tierloom_pool::OpenOptions;
use tierloom_sql::{CollectedRows, CsvOptions, SqlSession, split};
use tierloom_topology::{SysRoot, Topology};

/// Reads what to do from stdin, and writes the stamps to stdout.
pub fn run() -> Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| Failure::input(format!("cannot read what to do from stdin: {e}")))?;
    let spec: ChildSpec = serde_json::from_str(&text).map_err(Failure::input)?;
    let stamps = measured(&spec)?;
    let line = serde_json::to_string(&stamps).map_err(Failure::runtime)?;
    output::print(&format!("{line}\n"))?;
    let parent = parent_id();
    // Not beyond the end of whoever wanted to kill it.
    while spec.wait_to_be_killed && parent_id() == parent && !stop::requested() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn measured(spec: &ChildSpec) -> Result<Stamps, Failure> {
    let topology = Topology::read(&SysRoot::host()).map_err(Failure::runtime)?;
    let placement: Policy = "dram".parse().map_err(Failure::runtime)?;
    let options = plan::options(spec.threads, PageSize::Thp, placement, topology)?;
    let session = SqlSession::new(options).map_err(|e| failure(e, None))?;
    let mut measured = Measured {
        spec,
        session,
        loaded: BTreeSet::new(),
    };
    let ready_ns = now_ns();
    match spec.way {
        Way::OnDemand => {}
        Way::Loaded => spec.tables.iter().try_for_each(|t| measured.load(t))?,
        Way::Attached => measured.attach(Verification::FirstUse)?,
        // Checked below, where it is timed.
        Way::Verified => measured.attach(Verification::Manifest)?,
    }
    let complete_ns = (spec.way != Way::OnDemand).then(now_ns);
    if spec.way == Way::Verified {
        measured
            .session
            .verify_pool()
            .map_err(|e| failure(e, None))?;
    }
    let mut stamps = Stamps {
        ready_ns,
        complete_ns,
        verified_ns: (spec.way == Way::Verified).then(now_ns),
        answers_ns: Vec::new(),
        answers: Vec::new(),
    };
    for sql in &spec.queries {
        let text = measured.answer(sql)?;
        stamps.answers_ns.push(now_ns());
        stamps.answers.push(text);
    }
    Ok(stamps)
}

struct Measured<'a> {
    spec: &'a ChildSpec,
    session: SqlSession,
    loaded: BTreeSet<String>,
}

impl Measured<'_> {
    fn load(&mut self, table: &TableFile) -> Result<(), Failure> {
        let csv = CsvOptions::default();
        let watch = Terminal::default();
        let loaded = self
            .session
            .load_files(&table.name, &table.path, csv, &watch);
        loaded.map_err(|e| failure(e, None))?;
        self.loaded.insert(table.name.clone());
        Ok(())
    }

    fn attach(&mut self, verification: Verification) -> Result<(), Failure> {
        let pool = OpenOptions::default().open(&self.spec.pool)?;
        let used = self.session.use_pool(pool, verification);
        used.map_err(|e| failure(e, None))?;
        let attached = self.session.attach_pool(&Terminal::default());
        attached.map_err(|e| failure(e, None))?;
        Ok(())
    }

    /// Runs a query, whose tables are loaded first if they are loaded on demand.
    fn answer(&mut self, sql: &str) -> Result<String, Failure> {
        if self.spec.way == Way::OnDemand {
            let words: BTreeSet<&str> = sql
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .collect();
            let needed = self.spec.tables.iter();
            let needed = needed.filter(|t| words.contains(t.name.as_str()));
            let missing: Vec<TableFile> = needed
                .filter(|t| !self.loaded.contains(&t.name))
                .cloned()
                .collect();
            missing.iter().try_for_each(|table| self.load(table))?;
        }
        let pieces = split(sql).map_err(|e| failure(e, None))?;
        let mut rows = CollectedRows::default();
        for piece in &pieces {
            let done = self.session.run(piece, &mut rows, &Terminal::default());
            done.map_err(|e| failure(e, None))?;
        }
        answer::to_text(&rows.batches).map_err(Failure::runtime)
    }
}

/// Time since 1970: the clock that two processes share.
pub(super) fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |time| time.as_nanos() as u64)
}
