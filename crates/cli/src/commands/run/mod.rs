//! `tierloom run`: runs a workload on placed memory, measured on this machine and modelled on
//! others.
//!
//! [`args`] is the command line as clap parses it. `tierloom_suite` makes a plan of it, which
//! `--dry-run` prints, and carries it out; its records are collected and written by [`results`] and
//! shown by [`render`].

mod args;
mod hosts;
mod progress;
mod render;
mod results;
#[cfg_attr(not(feature = "sql"), path = "no_sessions.rs")]
mod sessions;
mod transactions;

pub use args::Args;
pub use hosts::QueryRunner;

use crate::failure::Failure;
use crate::invocation::open_session;
use crate::output;
use args::{RunOptions, TpcArgs};
use progress::Progress;
use results::Results;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tierloom_memory::router::{LentPool, lend_pool};
use tierloom_pool::{Pool, Spread};
use tierloom_suite::hosts::WorkloadSpec;
use tierloom_suite::{Resize, RunError, StreamPlan, SuitePlan, SuiteRequest, Workload, workload};

/// Placements to compare unless others are named.
const DEFAULT_PLACEMENT: &str = "dram,cxl,3:2,tier,columns:8";

/// Starts of processes to measure.
struct Restarts<'a> {
    workload: &'a dyn Workload,
    queries: &'a [String],
    options: &'a RunOptions,
    pool: &'a Path,
    rounds: u32,
}

/// Scripts with temporary tables to measure.
struct Temps<'a> {
    workload: &'a dyn Workload,
    queries: &'a [String],
    options: &'a RunOptions,
    /// Where the tables are, in turn.
    places: &'a [String],
}

/// Resolves the plan, then prints it (`--dry-run`) or carries it out.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.workload {
        args::Workload::Ssb(args) => {
            let workload = workload::ssb(args.sf, args.seed)?;
            if args.options.several.interference {
                return several(&*workload, None, &args.queries, &args.options);
            }
            start(workload, &args.queries, None, &[], &args.options)
        }
        args::Workload::Tpch(args) => tpc(workload::tpch(args.sf, args.answers_here())?, args),
        args::Workload::Tpcds(args) => tpc(workload::tpcds(args.sf, args.answers_here())?, args),
        args::Workload::Tpcc(args) => transactions::tpcc(args),
        args::Workload::Ycsb(args) => transactions::ycsb(args),
        args::Workload::Restarted => sessions::run_child(),
    }
}

fn tpc(workload: Arc<dyn Workload>, args: &TpcArgs) -> Result<(), Failure> {
    let streams = match (args.streams, args.duration) {
        (Some(count), Some(seconds)) => {
            let duration = seconds.duration();
            let duration =
                duration.ok_or_else(|| Failure::input("--duration: longer than a time can be"))?;
            Some(StreamPlan::new(count, duration)?)
        }
        _ => None,
    };
    if args.options.several.interference {
        let answers = args.answers.clone();
        return several(&*workload, answers, &args.queries, &args.options);
    }
    if !args.temps.is_empty() {
        check_outputs(&args.options)?;
        return sessions::temps(&Temps {
            workload: &*workload,
            queries: &args.queries,
            options: &args.options,
            places: &args.temps,
        });
    }
    start(
        workload,
        &args.queries,
        streams,
        &args.resize,
        &args.options,
    )
}

/// Runs a workload on several hosts; `answers` is a folder there.
fn several(
    workload: &dyn Workload,
    answers: Option<PathBuf>,
    queries: &[String],
    options: &RunOptions,
) -> Result<(), Failure> {
    check_outputs(options)?;
    let spec = WorkloadSpec {
        id: workload.id().to_owned(),
        scale_factor: workload.scale_factor(),
        seed: workload.seed(),
        answers,
    };
    hosts::run(workload, spec, queries, options)
}

fn start(
    workload: Arc<dyn Workload>,
    queries: &[String],
    streams: Option<StreamPlan>,
    resizes: &[Resize],
    options: &RunOptions,
) -> Result<(), Failure> {
    if let (Some(rounds), Some(pool)) = (options.restart, &options.pool) {
        if streams.is_some() {
            return Err(Failure::input(
                "--restart starts one session at a time; leave --streams out",
            ));
        }
        check_outputs(options)?;
        let restarts = Restarts {
            workload: &*workload,
            queries,
            options,
            pool,
            rounds,
        };
        return sessions::restarts(&restarts);
    }
    let request = options.request(queries, streams, resizes);
    if request.elsewhere && !options.dry_run {
        return Err(Failure::input(
            "--sysroot describes another machine, and queries can only be measured on this one; add --dry-run to see the plan for it",
        ));
    }
    let plan = SuitePlan::resolve(workload, &request, options.here.read()?)?;
    check_outputs(options)?;
    if options.dry_run {
        return output::print(&plan.describe());
    }
    let pool = open_pool(options)?;
    let _lent = pool.as_ref().map(lend).transpose()?;
    let mut results = Results::new(options);
    let mut sink = |record| results.push(record).map_err(RunError::failed);
    let session = open_session();
    let observer = Progress::default();
    let ended = tierloom_suite::run(&plan, &session, pool.as_ref(), &observer, &mut sink);
    let written = results.write(options, &|set| {
        let runs = set.runs.iter();
        runs.map(|run| render::tables(&plan, run)).collect()
    });
    match ended {
        // A file that cannot be written is news after an interruption, but must not hide another
        // failure.
        Ok(()) | Err(RunError::Interrupted(_)) => written.and(ended.map_err(Failure::from)),
        Err(error) => Err(error.into()),
    }
}

fn open_pool(options: &RunOptions) -> Result<Option<Pool>, Failure> {
    let open = |path| options.pool_access.access().open(path);
    options.pool.as_deref().map(open).transpose()
}

/// Lets operators use the free memory of the pool, until the answer is dropped.
fn lend(pool: &Pool) -> Result<LentPool, Failure> {
    let memory = Arc::new(pool.operator_scratch(Spread::Pack));
    lend_pool(memory).map_err(Failure::runtime)
}

fn check_outputs(options: &RunOptions) -> Result<(), Failure> {
    let outputs = [
        ("--records", options.records.as_deref()),
        ("--report", options.report.as_deref()),
        ("--decisions", options.decisions.as_deref()),
        (
            "--memory-audit",
            options.operator_memory.memory_audit.as_deref(),
        ),
    ];
    output::check_outputs(&outputs, &[])
}

impl TpcArgs {
    /// The folder of expected answers, unless it is one on other hosts.
    fn answers_here(&self) -> Option<PathBuf> {
        match self.options.several.interference {
            true => None,
            false => self.answers.clone(),
        }
    }
}

impl RunOptions {
    /// What is asked of the suite.
    fn request(
        &self,
        queries: &[String],
        streams: Option<StreamPlan>,
        resizes: &[Resize],
    ) -> SuiteRequest {
        SuiteRequest {
            queries: queries.to_vec(),
            streams,
            threads: self.threads,
            placement: self.placement.clone().unwrap_or(DEFAULT_PLACEMENT.into()),
            machines: self.machine.clone(),
            repeat: self.repeat,
            pages: self.pages.clone(),
            model_workers: self.model_workers,
            model_sf: self.model_sf,
            time_per_tuple_ns: self.time_per_tuple,
            baseline: self.baseline,
            plain_operators: self.plain_operators,
            decisions: self.decisions.clone(),
            dram_limit: self.dram_limit.clone(),
            prefetch_off: self.prefetch_off.clone(),
            operator_memory: self.operator_memory.operator_memory.clone(),
            has_pool: self.pool.is_some(),
            resizes: resizes.to_vec(),
            memory_audit: self.operator_memory.memory_audit.clone(),
            elsewhere: self.here.sysroot.is_some(),
        }
    }
}
