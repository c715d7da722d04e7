//! Runs a workload under one placement: load, audit, run, audit, check.

use super::beside::turns::{BesideRun, by_turns};
use super::checkpoints::{self, CheckpointsRun};
use super::plan::{StorePlacement, StorePlan, StoreWorkload, cpus};
use crate::failure::Failure;
use crate::stop;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tierloom_memory::{AnonymousNuma, Audit, AuditMode, Placement, Share};
use tierloom_oltp::tpcc::{Tpcc, TpccSizes, Violation};
use tierloom_oltp::ycsb::Ycsb;
use tierloom_oltp::{
    Captured, Checkpoint, Checkpoints, DriveOptions, DriveResult, LogContents, OltpError, RedoLog,
    Store, StoreMemory, StorePart, Transactions, drive, read_log,
};
use tierloom_suite::Streams;

/// Pages of a region that an audit looks at, at most.
const AUDIT_PAGES: u64 = 1 << 16;

/// What one run measured.
pub struct StoreRun {
    pub result: DriveResult,
    pub captured: Captured,
    /// Work of merging in the background, if there was any.
    pub merging: Option<Captured>,
    /// Names of the kinds of transactions.
    pub kinds: &'static [&'static str],
    pub parts: Vec<PartRun>,
    pub log: Option<tierloom_oltp::LogUse>,
    pub checkpoints: Option<CheckpointsRun>,
    /// The same transactions beside streams of queries.
    pub beside: Option<BesideRun>,
    pub invalid: Option<String>,
}

/// What has streams of queries, if a plan asks for them.
pub type BesideStreams<'a> = Option<&'a Streams<'a>>;

/// A part of the store in a run.
pub struct PartRun {
    pub part: StorePart,
    pub region_bytes: u64,
    pub before: Audit,
    pub after: Audit,
}

/// Measures the plan's workload under a placement of this machine.
///
/// # Errors
/// No memory, a log that cannot be written.
pub fn measure(
    plan: &StorePlan,
    placement: &StorePlacement,
    here: &[Placement; 4],
    streams: BesideStreams<'_>,
) -> Result<StoreRun, Failure> {
    let memory = StoreMemory {
        backend: Arc::new(AnonymousNuma::new()),
        topology: &plan.topology,
        page_size: plan.page_size,
        placements: here.clone(),
    };
    note!("{} in {}: loading", plan.workload.id(), placement.text);
    match plan.workload {
        StoreWorkload::Tpcc(sizes) => tpcc(plan, sizes, &memory, streams),
        StoreWorkload::Ycsb { mix, rows, room } => {
            let ycsb = Ycsb::load(mix, rows, room, plan.seed, &memory).map_err(failure)?;
            let check = || ycsb.check().first().cloned();
            let beside = Beside {
                streams,
                ..Beside::default()
            };
            run(&ycsb, plan, beside, &check)
        }
    }
}

fn tpcc(
    plan: &StorePlan,
    sizes: TpccSizes,
    memory: &StoreMemory<'_>,
    streams: BesideStreams<'_>,
) -> Result<StoreRun, Failure> {
    let load = || Tpcc::load(sizes, plan.seed, memory, cpus() as usize);
    let mut tpcc = load().map_err(failure)?;
    let log = plan.log.as_deref().map(|path| {
        let identity = Tpcc::identity(&sizes, plan.seed);
        RedoLog::create(path, &identity).map(Arc::new)
    });
    let log = log.transpose().map_err(failure)?;
    if let Some(log) = &log {
        tpcc.store_mut().set_log(Arc::clone(log));
    }
    let checkpoints = plan.checkpoints.as_ref().map(|(pool, _)| {
        // Of the placement before: there was nothing when the run began.
        match std::fs::remove_file(pool) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::runtime(error)),
            _ => Checkpoints::create(pool, tpcc.store()).map_err(failure),
        }
    });
    let mut checkpoints = checkpoints.transpose()?;
    let check = || first(&tpcc.check(false));
    let beside = Beside {
        log: log.as_deref(),
        checkpoints: checkpoints.as_mut(),
        streams,
    };
    let mut measured = run(&tpcc, plan, beside, &check)?;
    // The log ends with the last that has it; and there is memory for one store at a time.
    drop((tpcc, log, checkpoints));
    if let (Some(path), true) = (&plan.log, plan.recovers) {
        let pool = plan.checkpoints.as_ref().map(|(pool, _)| pool.as_path());
        let newest = pool.map(newest).transpose().map_err(failure)?.flatten();
        let recovered = match newest {
            Some(newest) => {
                let restored = Tpcc::restore(sizes, plan.seed, memory, &newest);
                restored.and_then(|tpcc| recovered(&tpcc, path, &newest.read_log(path)?))
            }
            None => read_log(path).and_then(|contents| recovered(&load()?, path, &contents)),
        };
        measured.invalid = measured.invalid.or(recovered.map_err(failure)?);
    }
    Ok(measured)
}

fn newest(pool: &Path) -> Result<Option<Checkpoint>, OltpError> {
    let newest = Checkpoints::open(pool)?.newest()?;
    if newest.is_some() {
        note!(
            "recovering from the newest checkpoint in {}",
            pool.display()
        );
    }
    Ok(newest)
}

/// What is wrong with the data after doing again what a log says.
fn recovered(
    tpcc: &Tpcc,
    path: &Path,
    contents: &LogContents,
) -> Result<Option<String>, OltpError> {
    tpcc.recover(path, contents)?;
    note!(
        "recovered {} transactions from {}",
        contents.transactions(),
        path.display()
    );
    Ok(first(&tpcc.check(false)).map(|what| format!("after recovery: {what}")))
}

fn first(violations: &[Violation]) -> Option<String> {
    violations.first().map(Violation::to_string)
}

/// What goes on beside the transactions.
#[derive(Default)]
struct Beside<'a> {
    log: Option<&'a RedoLog>,
    checkpoints: Option<&'a mut Checkpoints>,
    streams: BesideStreams<'a>,
}

fn run<W: Transactions>(
    workload: &W,
    plan: &StorePlan,
    with: Beside<'_>,
    check: &dyn Fn() -> Option<String>,
) -> Result<StoreRun, Failure> {
    let (store, log) = (workload.store(), with.log);
    let before = audits(store)?;
    note!(
        "running {} clients for {} s",
        plan.clients,
        plan.duration.as_secs_f64()
    );
    let options = DriveOptions {
        clients: plan.clients,
        duration: plan.duration,
        seed: plan.seed,
        stop: stop::flag(),
    };
    let work = || drive(workload, &options).map_err(failure);
    let (mut checkpoints, mut beside) = (None, None);
    let result = match (with.checkpoints, log, &plan.checkpoints) {
        (Some(pool), Some(log), Some((_, every))) => {
            let (result, taken) = checkpoints::beside(pool, (store, log), *every, work);
            let result = result?;
            checkpoints = Some(taken.map_err(failure)?);
            result
        }
        _ => match (with.streams, &plan.beside) {
            (Some(streams), Some(asked)) => {
                let (alone, run) = by_turns(workload, plan, asked.rounds, streams)?;
                beside = Some(run);
                alone
            }
            _ => work()?,
        },
    };
    let after = audits(store)?;
    note!("checking the data");
    let captured = Captured::of(store, &result);
    let merging = Captured::of_merging(store, &result);
    // So that the check reads what merging writes.
    store.merge_all(&mut store.no_traffic());
    let moved = before
        .iter()
        .zip(&after)
        .find_map(|(before, after)| moved(before, after));
    let parts = StorePart::ALL
        .into_iter()
        .zip(before.into_iter().zip(after));
    let parts = parts.map(|(part, (before, after))| PartRun {
        part,
        region_bytes: store.part_bytes(part),
        before,
        after,
    });
    Ok(StoreRun {
        captured,
        merging: Some(merging).filter(|merging| merging.tuples > 0),
        kinds: workload.kinds(),
        parts: parts.collect(),
        log: log.map(RedoLog::used),
        checkpoints,
        beside,
        invalid: check().or(moved),
        result,
    })
}

fn audits(store: &Store) -> Result<Vec<Audit>, Failure> {
    let mode = AuditMode::Sampled { pages: AUDIT_PAGES };
    let audits = StorePart::ALL
        .into_iter()
        .map(|part| store.audit(part, mode));
    audits.collect::<Result<_, _>>().map_err(Failure::runtime)
}

/// Why two audits of a part do not agree with its placement or each other.
fn moved(before: &Audit, after: &Audit) -> Option<String> {
    if after.misplaced_pages > 0 {
        let (count, checked) = (after.misplaced_pages, after.pages_checked);
        return Some(format!(
            "{count} of {checked} pages are not where they were placed"
        ));
    }
    let share = |shares: &[Share], of: &Share| {
        let found = shares.iter().find(|share| share.node == of.node);
        found.map_or(0.0, |share| share.share)
    };
    let differs = |of: &Share| (share(&before.actual, of) - of.share).abs() > 1e-6;
    after
        .actual
        .iter()
        .any(differs)
        .then(|| "pages moved during the run".to_owned())
}

/// Processor times with all data in cache.
#[derive(Debug, Clone, Copy)]
pub struct Compute {
    /// Of a transaction, ns.
    pub transaction_ns: f64,
    /// Of bringing a row back to main, ns; `None` if there was nothing to bring back.
    pub merged_row_ns: Option<f64>,
}

/// Measures processor times with all data in cache: one client on a few rows.
///
/// # Errors
/// As [`measure`].
pub fn compute(plan: &StorePlan) -> Result<Compute, Failure> {
    const DURATION: Duration = Duration::from_millis(500);
    let memory = StoreMemory {
        backend: Arc::new(AnonymousNuma::new()),
        topology: &plan.topology,
        page_size: plan.page_size,
        placements: [(); 4].map(|()| Placement::kernel_default()),
    };
    let options = DriveOptions {
        clients: 1,
        duration: DURATION,
        seed: plan.seed,
        stop: stop::flag(),
    };
    let result = match plan.workload {
        StoreWorkload::Tpcc(_) => {
            let sizes = TpccSizes {
                warehouses: 1,
                customers: 30,
                items: 100,
                room_orders: 50_000,
            };
            let tpcc = Tpcc::load(sizes, plan.seed, &memory, 1).map_err(failure)?;
            drive(&tpcc, &options)
        }
        StoreWorkload::Ycsb { mix, .. } => {
            let ycsb = Ycsb::load(mix, 1000, 50_000, plan.seed, &memory).map_err(failure)?;
            drive(&ycsb, &options)
        }
    };
    let result = result.map_err(failure)?;
    let total_ns: u64 = result.kinds.iter().map(|kind| kind.total_ns).sum();
    match result.commits() {
        0 => Err(Failure::runtime(
            "no transaction committed in half a second",
        )),
        commits => {
            let (rows, time) = (result.merging.rows, result.merging.time);
            Ok(Compute {
                transaction_ns: total_ns as f64 / commits as f64,
                merged_row_ns: (rows > 0).then(|| time.as_nanos() as f64 / rows as f64),
            })
        }
    }
}

fn failure(error: OltpError) -> Failure {
    match error {
        // The size was asked for, or the placement.
        OltpError::TooLarge { .. } => Failure::input(error),
        _ => Failure::runtime(error),
    }
}
