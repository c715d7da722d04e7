//! `tierloom run tpcc` and `tierloom run ycsb`: transactions on a store whose parts are placed one
//! by one, measured here and modelled for other machines.
//!
//! ```text
//!   args ──> plan ──> measure, per placement of this machine ──> records ──> render
//!                        └─ captured work ──> price, per machine and placement ─┘
//! ```

mod args;
mod checkpoints;
mod durable;
mod measure;
mod plan;
mod price;
mod records;
mod render;

pub use args::{TpccArgs, YcsbArgs};

use crate::failure::Failure;
use crate::{output, stop};
use args::StoreOptions;
use measure::StoreRun;
use plan::StorePlan;
use price::LogWaits;
use tierloom_record::{Record, RecordSet, TransactionsRecord};

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
    let mut records = Vec::new();
    let mut captured: Option<StoreRun> = None;
    let mut failed = None;
    for placement in &plan.placements {
        let Some(here) = &placement.here else {
            let place = &placement.text;
            note!("{place}: this machine lacks the tier, so it is modelled only");
            continue;
        };
        match measure::measure(plan, placement, here) {
            Ok(run) => {
                records.push(records::measured(plan, placement, &run));
                captured.get_or_insert(run);
            }
            Err(error) => failed = Some(error),
        }
        if failed.is_some() || stop::requested() {
            break;
        }
    }
    if let (Some(run), None, false) = (&captured, &failed, stop::requested()) {
        records.extend(modelled(plan, run)?);
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
fn modelled(plan: &StorePlan, run: &StoreRun) -> Result<Vec<TransactionsRecord>, Failure> {
    if plan.machines.is_empty() || run.captured.transactions == 0 {
        return Ok(Vec::new());
    }
    let compute_ns = measure::compute_ns(plan)?;
    let mut records = Vec::new();
    for (machine, workers) in &plan.machines {
        for placement in &plan.placements {
            let on = (machine, *workers);
            let waits = LogWaits::captured(run, plan.model_clients.unwrap_or(*workers));
            match price::price(run, compute_ns, placement, on, waits) {
                Ok(price) => {
                    let clients = waits.map_or(*workers, |waits| waits.clients);
                    let record = TransactionsRecord {
                        machine: machine.name.clone(),
                        clients,
                        compute_ns: Some(compute_ns),
                        log_wait_ns: waits.map(|waits| waits.wait_ns),
                        ..records::modelled(plan, placement, run, &price)
                    };
                    records.push(record);
                }
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
