//! Runs plans one after another: progress, records, resuming.
//!
//! Each record is appended to the file as soon as it is complete, so that an interrupted session
//! can be resumed; tables, CSV and report are written at the end for all records, old and new.

use super::failures::of_run;
use super::progress::{bar, tell};
use super::{Args, hosts, output as shown};
use crate::failure::Failure;
use crate::invocation::open_session;
use crate::{output, stop};
use indicatif::ProgressBar;
use std::collections::BTreeSet;
use std::path::Path;
use tierloom_bench::file::Workloads;
use tierloom_bench::plan::RunPlan;
use tierloom_bench::run::{self, Control, Event, Host, Session};
use tierloom_record::{BenchRecord, PublicationRecord, Record, RecordFile, RecordSet, bench_csv};

/// Runs all plans that have no valid record yet and writes the outputs; `publications` go with the
/// records of the runs.
///
/// # Errors
/// The first failure; finished records are kept.
pub fn run(
    args: &Args,
    workloads: &Workloads,
    publications: Vec<PublicationRecord>,
    host: &Host,
) -> Result<(), Failure> {
    let session = Session {
        samples: args.samples,
        ..open_session()
    };
    let (mut file, earlier) = open_records(args)?;
    let new = new_publications(publications, &earlier.publications);
    let done: BTreeSet<&str> = earlier
        .benches
        .iter()
        .filter(|record| record.valid)
        .map(|record| record.run_id.as_str())
        .collect();
    let plans: Vec<&RunPlan> = workloads
        .runs
        .iter()
        .filter(|plan| !done.contains(plan.id.as_str()))
        .collect();
    if args.resume {
        note!(
            "{} of {} runs are done already",
            workloads.runs.len() - plans.len(),
            workloads.runs.len()
        );
    }
    let mut remote = hosts::connect(args, workloads, &plans)?;
    // Before the runs: a session that is interrupted still knows what its records are for.
    for publication in &new {
        let record = Record::Publication(Box::new(publication.clone()));
        keep(args, file.as_mut(), &record)?;
    }
    let bar = bar(plans.len() as u64);
    let mut records = Vec::new();
    let mut ended = Ok(());
    for plan in plans {
        bar.set_message(shown::words(plan));
        let made = one(plan, host, &session, remote.as_mut(), &bar).and_then(|record| {
            keep(
                args,
                file.as_mut(),
                &Record::Bench(Box::new(record.clone())),
            )?;
            Ok(record)
        });
        match made {
            Ok(record) => records.push(record),
            Err(failure) => {
                ended = Err(failure);
                break;
            }
        }
        bar.inc(1);
        // The run that was interrupted may have ended normally; its record is kept before the
        // session ends.
        if stop::requested() {
            ended = Err(Failure::Interrupted(format!(
                "{} of {} runs were done; --resume continues with them",
                done.len() + records.len(),
                workloads.runs.len()
            )));
            break;
        }
    }
    bar.finish_and_clear();
    let shown = finish(args, earlier, records, new);
    // The failure that ended the runs is more important than one of the outputs.
    ended.and(shown)
}

/// Runs one plan, on this machine alone or together with others.
fn one(
    plan: &RunPlan,
    host: &Host,
    session: &Session,
    remote: Option<&mut hosts::AgentHosts>,
    bar: &ProgressBar,
) -> Result<BenchRecord, Failure> {
    let parts = match remote {
        Some(remote) if plan.tasks.iter().any(|task| task.host.is_some()) => {
            remote.run(plan, host, bar)?
        }
        _ => vec![run::run_part(plan, None, host, &Here { bar }).map_err(of_run)?],
    };
    run::record(plan, parts, session).map_err(of_run)
}

/// Controls a run on this machine alone.
struct Here<'a> {
    bar: &'a ProgressBar,
}

impl Control for Here<'_> {
    fn stopped(&self) -> bool {
        stop::requested()
    }

    fn event(&self, event: Event) {
        tell(self.bar, event);
    }
}

/// The publications that are not among earlier ones; the time they were made does not count.
fn new_publications(
    all: Vec<PublicationRecord>,
    earlier: &[PublicationRecord],
) -> Vec<PublicationRecord> {
    let same = |one: &PublicationRecord, other: &PublicationRecord| {
        let made_at = other.made_at.clone();
        PublicationRecord {
            made_at,
            ..one.clone()
        } == *other
    };
    let is_new = |one: &PublicationRecord| !earlier.iter().any(|other| same(one, other));
    all.into_iter().filter(is_new).collect()
}

fn open_records(args: &Args) -> Result<(Option<RecordFile>, RecordSet), Failure> {
    let Some(path) = &args.records else {
        return Ok((None, RecordSet::default()));
    };
    if args.resume {
        let (file, set, tail) = RecordFile::open(path)?;
        if let Some(tail) = tail {
            note!(
                "note: {}:{}: {} bytes of a cut record are dropped",
                path.display(),
                tail.line,
                tail.bytes
            );
        }
        return Ok((Some(file), set));
    }
    // Refused instead of overwritten: the records may have taken hours.
    if has_records(path) {
        return Err(Failure::input(format!(
            "{} is not empty; add --resume to continue with the records in it, or name a new file",
            path.display()
        )));
    }
    Ok((Some(RecordFile::begin(path)?), RecordSet::default()))
}

fn has_records(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0)
}

fn keep(args: &Args, file: Option<&mut RecordFile>, record: &Record) -> Result<(), Failure> {
    if let Some(file) = file {
        file.append(record)?;
    }
    if args.jsonl {
        let line = serde_json::to_string(record).map_err(Failure::runtime)?;
        output::print(&format!("{line}\n"))?;
    }
    Ok(())
}

/// Prints and writes tables, CSV and report of all records, including those of earlier invocations.
fn finish(
    args: &Args,
    earlier: RecordSet,
    benches: Vec<BenchRecord>,
    publications: Vec<PublicationRecord>,
) -> Result<(), Failure> {
    let new = RecordSet {
        benches,
        publications,
        ..RecordSet::default()
    };
    let set = RecordSet {
        benches: [earlier.benches, new.benches].concat(),
        publications: [earlier.publications, new.publications].concat(),
        ..RecordSet::default()
    };
    if set.benches.is_empty() {
        return Ok(());
    }
    if args.json {
        let records = set.to_records();
        let text = serde_json::to_string_pretty(&serde_json::json!({ "records": records }))
            .map_err(Failure::runtime)?;
        output::print(&format!("{text}\n"))?;
    } else if !args.jsonl {
        output::print(&shown::table(&set.benches))?;
        output::print(&shown::publications(&set))?;
    }
    if let Some(path) = &args.csv {
        output::write_file(path, &bench_csv(&set.benches)?)?;
    }
    if let Some(path) = &args.report {
        output::write_report(path, &set)?;
    }
    Ok(())
}
