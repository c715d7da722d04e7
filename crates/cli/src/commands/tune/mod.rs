//! `tierloom tune`: finds weights of memory tiers, by the model ([`modelled`]) or by measuring
//! ([`measured`]), sets them ([`apply`]), and restores what was there before ([`restore`]). It also
//! shows and switches hardware prefetchers ([`prefetch`]), which are saved and restored in the same
//! way.

mod apply;
mod args;
mod measured;
mod modelled;
mod prefetch;
mod queries;
mod restore;
mod show;

pub use args::Args;

use crate::failure::Failure;
use crate::output;
use std::time::SystemTime;
use tierloom_model::{PhaseKind, StructureClass};
use tierloom_record::{BenchRecord, Provenance, Record, RecordSet, TuneRecord};
use tierloom_tune::modelled::Stamp;

/// The best weights of one phase, modelled or measured.
struct Outcome {
    record: TuneRecord,
    kind: PhaseKind,
    classes: Vec<StructureClass>,
    /// Last column of the table: what limits the phase, or how the search ended.
    note: String,
    /// Numbers that only the model gives.
    modelled: Option<Modelled>,
}

/// Numbers of the model beyond the record.
struct Modelled {
    /// Rate relative to equal weights on all nodes.
    gain_over_equal: f64,
    /// Share of the data that the best weights place off the first tier, 0 to 1.
    share: f64,
}

/// The results of all phases on one machine.
struct Tuning {
    /// What the figures are and where they come from, for the heading.
    title: String,
    provenance: Provenance,
    /// The tier that holds everything without interleaving.
    home: String,
    outcomes: Vec<Outcome>,
    /// Benchmark runs behind measured figures.
    benches: Vec<BenchRecord>,
    /// Runs of queries behind measured figures.
    runs: Vec<Record>,
}

/// What was set, or would be set with `--yes`.
struct ApplyReport {
    text: String,
    json: serde_json::Value,
}

/// Restores, shows or switches, or tunes and applies, as the arguments say.
pub fn run(args: &Args) -> Result<(), Failure> {
    args.check()?;
    if args.restore {
        return restore::run(args);
    }
    if let Some(what) = args.prefetchers {
        return prefetch::run(args, what);
    }
    prefetch::warn_of_a_saved_state(args);
    if let Some(text) = &args.weights {
        return apply::typed(args, text);
    }
    // The machine is read before anything is computed or measured, which can take long.
    let target = args.apply.then(|| apply::Target::look(args)).transpose()?;
    let (tunings, ended) = if args.measure {
        measured::all(args)?
    } else {
        (modelled::all(args)?, Ok(()))
    };
    write_files(args, &tunings)?;
    // Returned only now: the files hold the phases finished before the failure.
    ended?;
    let applied = match (&target, tunings.as_slice()) {
        (Some(target), [tuning]) => Some(apply::tuned(args, target, tuning)?),
        _ => None,
    };
    if args.json {
        return output::print(&show::json(&tunings, applied.as_ref())?);
    }
    let tables: String = tunings
        .iter()
        .map(|tuning| show::text(tuning, args.curve))
        .collect();
    let applied = applied.map(|applied| applied.text).unwrap_or_default();
    output::print(&(tables + &applied))
}

/// The modelled weights as a JSON document.
///
/// # Errors
/// Bad input: phases or machines that cannot be, or arguments that measure or change something.
pub fn document(args: &Args) -> Result<String, Failure> {
    args.check()?;
    let acts = args.measure || args.apply || args.restore || args.prefetchers.is_some();
    if acts || args.records.is_some() || args.report.is_some() {
        return Err(Failure::input(
            "a document only models; it neither measures nor changes or writes anything",
        ));
    }
    show::json(&modelled::all(args)?, None)
}

fn stamp() -> Stamp {
    Stamp {
        made_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
    }
}

fn records(tunings: &[Tuning]) -> Result<RecordSet, Failure> {
    let runs = tunings
        .iter()
        .flat_map(|tuning| tuning.runs.iter().cloned());
    let mut set = RecordSet::from_records(runs).map_err(Failure::runtime)?;
    for tuning in tunings {
        set.benches.extend(tuning.benches.iter().cloned());
        set.tunes
            .extend(tuning.outcomes.iter().map(|outcome| outcome.record.clone()));
    }
    Ok(set)
}

/// Writes records and report, each complete or not at all.
fn write_files(args: &Args, tunings: &[Tuning]) -> Result<(), Failure> {
    let set = records(tunings)?;
    if set.is_empty() {
        return Ok(());
    }
    if let Some(path) = &args.records {
        output::write_records(path, &set)?;
    }
    if let Some(path) = &args.report {
        output::write_report(path, &set)?;
    }
    Ok(())
}
