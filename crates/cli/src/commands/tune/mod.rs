//! `tierloom tune`.

mod apply;
mod args;
mod measured;
mod modelled;
mod prefetch;
mod restore;
mod show;

pub use args::Args;

use crate::failure::Failure;
use crate::output;
use std::time::SystemTime;
use tierloom_model::{PhaseKind, StructureClass};
use tierloom_record::{BenchRecord, Provenance, RecordSet, TuneRecord};
use tierloom_tune::modelled::Stamp;

/// The weights of one phase, however they were found.
struct Outcome {
    record: TuneRecord,
    kind: PhaseKind,
    classes: Vec<StructureClass>,
    /// For the table: what limits the phase, or how the search ended.
    note: String,
    /// What only the model tells.
    modelled: Option<Modelled>,
}

/// What the model tells beyond the record.
struct Modelled {
    /// Rate over that with one page for each node in turn.
    gain_over_equal: f64,
    /// Share of the best weights off the first tier, 0 to 1.
    share: f64,
}

/// All phases on one machine.
struct Tuning {
    /// What the figures are and where they come from.
    title: String,
    provenance: Provenance,
    /// The tier where all lies without interleaving.
    home: String,
    outcomes: Vec<Outcome>,
    /// The runs behind measured figures.
    benches: Vec<BenchRecord>,
}

/// Runs the command.
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
    // A plan that cannot be carried out is found before anything is computed or measured.
    let target = args.apply.then(|| apply::Target::look(args)).transpose()?;
    let (tunings, ended) = if args.measure {
        measured::all(args)?
    } else {
        (modelled::all(args)?, Ok(()))
    };
    write_files(args, &tunings)?;
    ended?;
    let applied = match (&target, tunings.as_slice()) {
        (Some(target), [tuning]) => Some(apply::tuned(args, target, tuning)?),
        _ => None,
    };
    if args.json {
        return show::json(&tunings, applied.as_ref());
    }
    let tables: String = tunings
        .iter()
        .map(|tuning| show::text(tuning, args.curve))
        .collect();
    let applied = applied.map(|applied| applied.text).unwrap_or_default();
    output::print(&(tables + &applied))
}

fn stamp() -> Stamp {
    Stamp {
        made_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
    }
}

fn records(tunings: &[Tuning]) -> RecordSet {
    let mut set = RecordSet::default();
    for tuning in tunings {
        set.benches.extend(tuning.benches.iter().cloned());
        set.tunes
            .extend(tuning.outcomes.iter().map(|outcome| outcome.record.clone()));
    }
    set
}

/// Writes records and report, each whole.
fn write_files(args: &Args, tunings: &[Tuning]) -> Result<(), Failure> {
    let set = records(tunings);
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
