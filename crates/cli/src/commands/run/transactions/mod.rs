//! `tierloom run tpcc` and `tierloom run ycsb`: transactions on a store whose parts are placed one
//! by one, measured here and modelled for other machines.
//!
//! ```text
//!   args ──> plan ──> measure, per placement of this machine ──> records ──> render
//!                        └─ captured work ──> price, per machine and placement ─┘
//! ```

mod args;
mod beside;
mod checkpoints;
mod durable;
mod measure;
mod plan;
mod price;
mod records;
mod render;

pub use args::{TpccArgs, YcsbArgs};

use super::progress::Progress;
use crate::failure::Failure;
use crate::invocation::open_session;
use crate::{output, stop};
use args::StoreOptions;
use measure::{BesideStreams, StoreRun};
use plan::StorePlan;
use price::{LogWaits, Pricing};
use tierloom_record::{Record, RecordSet, TransactionsRecord};
use tierloom_suite::with_streams;

/// Runs `tierloom run tpcc`.
pub fn tpcc(args: &TpccArgs) -> Result<(), Failure> {
    start(&StorePlan::tpcc(args)?, &args.options)
}

/// Runs `tierloom run ycsb`.
pub fn ycsb(args: &YcsbArgs) -> Result<(), Failure> {
    start(&StorePlan::ycsb(args)?, &args.options)
}

fn start(plan: &StorePlan, options: &StoreOptions) -> Result<(), Failure> {
    if options.dry_run {
        return output::print(&plan.describe());
    }
    let Some(beside) = &plan.beside else {
        return run(plan, options, None);
    };
    if let Some(remark) = beside.remark(plan.clients, plan::cpus()) {
        note!("{remark}");
    }
    let (invocation, observer) = (open_session(), Progress::default());
    with_streams(
        &beside.suite,
        &beside.here,
        beside.streams,
        &invocation,
        &observer,
        |streams| run(plan, options, Some(streams)),
    )
}

fn run(
    plan: &StorePlan,
    options: &StoreOptions,
    streams: BesideStreams<'_>,
) -> Result<(), Failure> {
    let mut records = Vec::new();
    let mut captured: Option<StoreRun> = None;
    let mut failed = None;
    for placement in &plan.placements {
        let Some(here) = &placement.here else {
            let place = &placement.text;
            note!("{place}: this machine lacks the tier, so it is modelled only");
            continue;
        };
        match measure::measure(plan, placement, here, streams) {
            Ok(run) => {
                records.push(records::measured(plan, placement, &run)?);
                captured.get_or_insert(run);
            }
            Err(error) => failed = Some(error),
        }
        if failed.is_some() || stop::requested() {
            break;
        }
    }
    if let (Some(run), None, false) = (&captured, &failed, stop::requested()) {
        records.extend(modelled(plan, run, streams)?);
    }
    let invalid = records.iter().find_map(|record| record.invalid.clone());
    let written = match records.is_empty() {
        true => Ok(()),
        false => write(records, options),
    };
    match failed {
        Some(error) => Err(error),
        None => written,
    }?;
    match invalid {
        Some(why) => Err(Failure::runtime(why)),
        None if stop::requested() => Err(Failure::Interrupted("the run ended early".to_owned())),
        None => Ok(()),
    }
}

/// The records of all machines and placements, of the work that one run captured.
fn modelled(
    plan: &StorePlan,
    run: &StoreRun,
    streams: BesideStreams<'_>,
) -> Result<Vec<TransactionsRecord>, Failure> {
    if plan.machines.is_empty() || run.captured.tuples == 0 {
        return Ok(Vec::new());
    }
    let compute = measure::compute(plan)?;
    let mut records = Vec::new();
    for (machine, workers) in &plan.machines {
        for placement in &plan.placements {
            let pricing = Pricing {
                run,
                compute,
                placement,
                machine,
                workers: *workers,
                waits: LogWaits::captured(run, plan.model_clients.unwrap_or(*workers)),
            };
            let priced = records::modelled(plan, &pricing).and_then(|record| {
                let beside = streams.zip(plan.beside.as_ref());
                let beside = beside.map(|(streams, asked)| {
                    let priced = beside::price::price(asked, streams, &pricing)?;
                    records::modelled_beside(asked, &record, priced, &pricing)
                });
                let beside = beside.transpose()?;
                Ok(TransactionsRecord { beside, ..record })
            });
            match priced {
                Ok(record) => records.push(record),
                Err(why) => note!(
                    "{} is not modelled for {}: {why}",
                    placement.text,
                    machine.name
                ),
            }
        }
    }
    Ok(records)
}

fn write(records: Vec<TransactionsRecord>, options: &StoreOptions) -> Result<(), Failure> {
    let shown = render::tables(&records);
    let of = |record| Record::Transactions(Box::new(record));
    let records: Vec<Record> = records.into_iter().map(of).collect();
    let lines = output::record_lines(&records, "the records")?;
    let shown = output::print_records(&records, &lines, &shown, (options.json, options.jsonl));
    let written = options
        .records
        .as_ref()
        .map_or(Ok(()), |path| output::write_file(path, &lines));
    let report = options.report.as_ref().map_or(Ok(()), |path| {
        output::write_report(path, &RecordSet::from_records(records)?)
    });
    // All were attempted above; only the first failure is reported.
    shown.and(written).and(report)
}
