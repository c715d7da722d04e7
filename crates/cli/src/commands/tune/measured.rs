//! Finds weights by measuring on this machine.
//!
//! The search in `tierloom_tune::measure` starts from a profile or, without one, from a rough
//! machine made of firmware's numbers. Phases run one after the other; those finished before a
//! failure are kept.

use super::modelled::works;
use super::queries::QueryTiers;
use super::{Args, Outcome, Tuning, stamp};
use crate::failure::Failure;
use crate::invocation::open_session;
use crate::stop::UntilStopped;
use tierloom_bench::run::{Host, Session};
use tierloom_memory::PageSize;
use tierloom_record::Provenance;
use tierloom_suite::machine;
use tierloom_tune::measure::{
    Found, HostTiers, MeasureError, MeasureOptions, Request, Runs, Setup, kernel_now, measured_as,
    rough_machine, search_phase,
};
use tierloom_tune::modelled::Stamp;

/// Measures all phases on this machine.
///
/// Phases finished before a failure are returned together with the failure.
pub fn all(args: &Args) -> Result<(Vec<Tuning>, Result<(), Failure>), Failure> {
    let mut host = Host::look().map_err(Failure::runtime)?;
    args.name_tiers(&mut host.topology)?;
    let works = works(args)?;
    let setup = Setup::new(&host, &options(args)?).map_err(failure)?;
    let profile = args
        .machine
        .first()
        .map(|name| machine::load(name))
        .transpose()?;
    let started_by = profile
        .as_ref()
        .map_or("a rough guess from firmware", |m| m.name.as_str());
    let title = format!(
        "measured on this machine ({}): {} workers, region of {} MiB, {} pages, tiers {}, search started by {started_by}",
        host.topology.cpu_model,
        setup.workers(),
        setup.region_bytes >> 20,
        setup.page_size,
        setup.tier_names().join(", ")
    );
    let start = profile.unwrap_or_else(|| rough_machine(&host.topology, &setup));
    let kernel = kernel_now(&host.topology, &setup.tiers).map_err(failure)?;
    // All phases are checked before the first measurement.
    let phases = works.into_iter().map(|(name, work)| {
        measured_as(&name, &work, setup.region_bytes, setup.workers()).map_err(failure)
    });
    let phases = phases.collect::<Result<Vec<_>, _>>()?;
    let (session, stamp, tiers) = (open_session(), stamp(), setup.tier_names());
    let mut tuning = Tuning {
        title,
        provenance: Provenance::Measured,
        home: tiers.first().cloned().unwrap_or_default(),
        outcomes: Vec::new(),
        benches: Vec::new(),
        runs: Vec::new(),
    };
    let mut ended = Ok(());
    for phase in &phases {
        note!("measuring {}: {}", phase.name, phase.what);
        let request = Request {
            phase,
            tiers: &tiers,
            start: &start,
            workers: setup.workers(),
            points: setup.points,
            max_weight: setup.max_weight(phase),
            kernel: &kernel,
        };
        let found = search(&request, (&host, &setup), (&session, &stamp), &mut tuning);
        match found {
            Ok(found) => {
                let sure = if found.searched.is_sure {
                    "sure"
                } else {
                    "not sure"
                };
                tuning.outcomes.push(Outcome {
                    note: format!("{} points, {sure}", found.record.points.len()),
                    modelled: None,
                    record: found.record,
                    kind: found.kind,
                    classes: found.classes,
                });
            }
            Err(error) => {
                let context = format!("phase {}: {error}", phase.name);
                ended = Err(with_text(failure(error), context));
                break;
            }
        }
    }
    Ok((vec![tuning], ended))
}

/// Searches the weights of one phase, and keeps the runs even if the search fails: they were
/// measured.
fn search(
    request: &Request<'_>,
    (host, setup): (&Host, &Setup),
    (session, stamp): (&Session, &Stamp),
    tuning: &mut Tuning,
) -> Result<Found, MeasureError> {
    if let Runs::Queries(runs) = &request.phase.runs {
        let mut engine = QueryTiers::new(runs, setup, &host.topology);
        let found = search_phase(request, &mut engine, stamp);
        tuning.runs.extend(engine.into_records());
        return found;
    }
    let mut tiers = HostTiers::new(host, setup, request.phase, session, &UntilStopped);
    let found = search_phase(request, &mut tiers, stamp);
    tuning.benches.extend(tiers.into_records());
    found
}

fn options(args: &Args) -> Result<MeasureOptions, Failure> {
    let usual = MeasureOptions::default();
    let page_size: Option<PageSize> = args
        .pages
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(Failure::input)?;
    Ok(MeasureOptions {
        tiers: args.tier_names(),
        workers: args.workers,
        page_size,
        region_bytes: args.region.map(|mib| mib.saturating_mul(1 << 20)),
        points: args.points as usize,
        seconds: args.seconds.unwrap_or(usual.seconds),
        repeat: args.repeat.unwrap_or(usual.repeat),
    })
}

fn failure(error: MeasureError) -> Failure {
    if error.is_stopped() {
        Failure::Interrupted(error.to_string())
    } else if error.is_bad_input() {
        Failure::input(error)
    } else {
        Failure::runtime(error)
    }
}

/// Replaces the text of a failure but keeps its kind, and with it the exit code.
fn with_text(failure: Failure, text: String) -> Failure {
    match failure {
        Failure::BadInput(_) => Failure::BadInput(text),
        Failure::Runtime(_) => Failure::Runtime(text),
        Failure::Interrupted(_) => Failure::Interrupted(text),
    }
}
