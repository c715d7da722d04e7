//! The resolved and checked arguments of a SQL session.
//!
//! Separate from [`super::args`] because everything that can be found wrong is found here, before a
//! table is loaded: loading can take minutes.

use super::args::{Args, SessionArgs, TablesArgs, VerifyArg};
use super::files;
use crate::commands::agents::read;
use crate::commands::pool::access::Access;
use crate::failure::Failure;
use crate::output;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;
use tierloom_engine::EngineOptions;
use tierloom_engine::pooled::Verification;
use tierloom_memory::{AnonymousNuma, PageSize};
use tierloom_placement::Policy;
use tierloom_sql::{CsvOptions, Format, Generated, SqlOptions};
use tierloom_topology::Topology;
use tierloom_tpc::{Benchmark, Source};
use tierloom_workloads::ssb::SsbConfig;

/// Where statements come from.
pub enum Statements {
    Shell,
    /// A complete text, and its name in error messages.
    Script {
        text: String,
        name: String,
    },
}

/// Format of printed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// A table for reading, with at most this many rows; `None` for all.
    Table { max_rows: Option<usize> },
    /// A format for programs.
    Rows(Format),
}

/// A table to load at the start.
pub enum TableSource {
    Files {
        name: String,
        path: PathBuf,
    },
    /// Benchmark data, and the argument that named it.
    Generated(String, Generated),
}

/// A session and the tables that it has from the start.
pub struct SessionPlan {
    /// The pool's first member, and when its data are checked.
    pub pool: Option<(PathBuf, Verification)>,
    /// How the pool is opened.
    pub pool_access: Access,
    pub tables: Vec<TableSource>,
    pub csv: CsvOptions,
    pub options: SqlOptions,
}

pub struct SqlPlan {
    pub statements: Statements,
    pub session: SessionPlan,
    pub shown: Shown,
    pub output: Option<PathBuf>,
    pub timing: bool,
}

impl SqlPlan {
    /// Resolves and checks the arguments.
    ///
    /// # Errors
    /// Bad input; the message names what was requested and what is possible.
    pub fn resolve(args: &Args) -> Result<SqlPlan, Failure> {
        let session = SessionPlan::resolve(&args.load, &args.session)?;
        if let Some(path) = &args.output {
            output::check_writable(path)?;
        }
        Ok(SqlPlan {
            session,
            shown: shown(args)?,
            output: args.output.clone(),
            timing: args.timing,
            // Resolved last: it may read stdin to its end, which would only delay other errors.
            statements: statements(args)?,
        })
    }
}

impl SessionPlan {
    /// Resolves and checks the arguments.
    ///
    /// # Errors
    /// Same as [`SqlPlan::resolve`].
    pub fn resolve(load: &TablesArgs, session: &SessionArgs) -> Result<SessionPlan, Failure> {
        let options = session_options(session)?;
        let files = files::named(&load.tables)?.into_iter();
        let mut tables: Vec<TableSource> = files
            .map(|(name, path)| TableSource::Files { name, path })
            .collect();
        for text in &load.generate {
            tables.push(generated(text)?);
        }
        let pool = load.pool.clone();
        Ok(SessionPlan {
            pool: pool.map(|pool| (pool, verification(load.verify))),
            pool_access: load.pool_access.access(),
            tables,
            csv: files::csv(&load.csv)?,
            options,
        })
    }
}

/// Options of a session from its arguments.
///
/// # Errors
/// Same as [`SqlPlan::resolve`].
pub fn session_options(args: &SessionArgs) -> Result<SqlOptions, Failure> {
    if args.here.sysroot.is_some() {
        return Err(Failure::input(
            "--sysroot describes another machine, and SQL runs on this one; leave it out",
        ));
    }
    let topology = args.here.read()?;
    let placement: Policy = args
        .placement
        .parse()
        .map_err(|e| Failure::input(format!("--placement {}: {e}", args.placement)))?;
    // Before the first query no column has any heat to decide by.
    if placement.needs_heat() {
        return Err(Failure::input(format!(
            "--placement {placement} goes by what queries read; start with another and SET tierloom.placement = '{placement}' after some have run"
        )));
    }
    let page_size = args.pages.parse().map_err(Failure::input)?;
    options(args.threads, page_size, placement, topology)
}

fn verification(verify: VerifyArg) -> Verification {
    match verify {
        VerifyArg::FirstUse => Verification::FirstUse,
        VerifyArg::All => Verification::All,
        VerifyArg::Manifest => Verification::Manifest,
    }
}

fn statements(args: &Args) -> Result<Statements, Failure> {
    if let Some(text) = &args.command {
        return Ok(Statements::Script {
            text: text.clone(),
            name: "-c".into(),
        });
    }
    if let Some(path) = &args.file {
        let text = read(path)?;
        return Ok(Statements::Script {
            text,
            name: path.display().to_string(),
        });
    }
    // Without -c and -f, a terminal gives a shell and a pipe gives a script.
    if std::io::stdin().is_terminal() {
        if args.output.is_some() {
            return Err(Failure::input(
                "--output holds the rows of one statement; give it with -c or -f, or use COPY (query) TO 'file'",
            ));
        }
        return Ok(Statements::Shell);
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| Failure::input(format!("cannot read statements from stdin: {e}")))?;
    Ok(Statements::Script {
        text,
        name: "stdin".into(),
    })
}

fn generated(text: &str) -> Result<TableSource, Failure> {
    Ok(TableSource::Generated(
        text.to_owned(),
        generated_data(text)?,
    ))
}

/// The data that `text` names, as in `tpch:0.1`.
///
/// # Errors
/// Bad input: no such data, or a scale factor that it does not have.
pub fn generated_data(text: &str) -> Result<Generated, Failure> {
    let (what, sf) = text.split_once(':').unwrap_or((text, "1"));
    let sf: f64 = sf
        .parse()
        .map_err(|_| Failure::input(format!("--generate {text}: {sf:?} is no scale factor")))?;
    let named = |e: String| Failure::input(format!("--generate {text}: {e}"));
    let data = match what {
        "ssb" => Generated::Ssb(SsbConfig::new(sf, 1).map_err(|e| named(e.to_string()))?),
        "tpch" => Generated::Tpc(sources(Benchmark::TpcH, sf).map_err(named)?),
        "tpcds" => Generated::Tpc(sources(Benchmark::TpcDs, sf).map_err(named)?),
        _ => {
            return Err(Failure::input(format!(
                "--generate {text}: there is no data {what:?} to make; expected ssb:SF, tpch:SF or tpcds:SF"
            )));
        }
    };
    Ok(data)
}

fn sources(benchmark: Benchmark, sf: f64) -> Result<Vec<Source>, String> {
    let of = |table: &&str| benchmark.source(table, sf).map_err(|e| e.to_string());
    benchmark.tables().iter().map(of).collect()
}

fn shown(args: &Args) -> Result<Shown, Failure> {
    if args.format == "table" {
        // The limit is for reading on a screen; a file gets all rows.
        let all = args.max_rows == 0 || args.output.is_some();
        return Ok(Shown::Table {
            max_rows: (!all).then_some(args.max_rows),
        });
    }
    match args.format.parse() {
        Ok(Format::Parquet) if args.output.is_none() => Err(Failure::input(
            "--format parquet: a Parquet file cannot be a stream; add -o FILE",
        )),
        Ok(format) => Ok(Shown::Rows(format)),
        Err(_) => Err(Failure::input(format!(
            "--format {}: expected table, csv, json, jsonl, arrow, or parquet with -o FILE",
            args.format
        ))),
    }
}

/// Options of a session on this machine.
pub fn options(
    asked_threads: Option<usize>,
    page_size: PageSize,
    placement: Policy,
    topology: Topology,
) -> Result<SqlOptions, Failure> {
    Ok(SqlOptions {
        engine: EngineOptions::tuned(threads(asked_threads, &topology)?),
        page_size,
        placement,
        topology,
        backend: Arc::new(AnonymousNuma::new()),
    })
}

fn threads(asked: Option<usize>, topology: &Topology) -> Result<usize, Failure> {
    let allowed = topology.limits.cpus_allowed.len().max(1);
    match asked {
        Some(0) => Err(Failure::input("--threads 0: at least one worker is needed")),
        Some(n) if n > 4 * allowed => Err(Failure::input(format!(
            "--threads {n}: this process may use {allowed} CPUs; at most {} threads make sense",
            4 * allowed
        ))),
        Some(n) => Ok(n),
        None => Ok(allowed),
    }
}
