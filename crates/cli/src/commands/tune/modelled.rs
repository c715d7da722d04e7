//! Finds weights with the model, on one or several machine profiles.

use super::{Args, Modelled, Outcome, Tuning, stamp};
use crate::failure::Failure;
use crate::works;
use std::path::Path;
use tierloom_calibrate::{Asked, Known};
use tierloom_model::reference::work::Work;
use tierloom_model::search::Moved;
use tierloom_model::{Machine, Provenance as Profile, StructureClass, profiles};
use tierloom_record::{Provenance, TuneRecord};
use tierloom_suite::machine;
use tierloom_tune::modelled::{Question, tune};
use tierloom_tune::work::USUAL;

/// Tunes all phases on all machines.
pub fn all(args: &Args) -> Result<Vec<Tuning>, Failure> {
    if args.machine.is_empty() {
        return Err(Failure::input(format!(
            "on which machine? name one with --machine ({}, or the path of a YAML profile), or measure this one with --measure",
            profiles::builtin_names().join(", ")
        )));
    }
    let works = works(args)?;
    let moved = moved(&args.moved)?;
    // All profiles are loaded before the first is tuned.
    let machines = args.machine.iter().map(|name| machine::load(name));
    let machines = machines.collect::<Result<Vec<_>, _>>()?;
    machines
        .iter()
        .map(|machine| one(args, machine, &works, &moved))
        .collect()
}

fn one(
    args: &Args,
    machine: &Machine,
    works: &[(String, Work)],
    moved: &Moved,
) -> Result<Tuning, Failure> {
    let tiers = tiers(args, machine)?;
    let workers = machine.workers(args.workers).map_err(Failure::input)?;
    let stamp = stamp();
    let outcome = |(name, work): &(String, Work)| {
        let question = Question {
            machine,
            name,
            work,
            workers,
            tiers: &tiers,
            moved: moved.clone(),
        };
        let mut tuned = tune(&question, &stamp)
            .map_err(|error| Failure::input(format!("phase {name}: {error}")))?;
        let known = works::known(Some(work.name()), Asked::Gain)?;
        widen(&mut tuned.record, tuned.best.share, &known);
        Ok(Outcome {
            modelled: Some(Modelled {
                gain_over_equal: tuned.best.gain_over_equal(),
                share: tuned.best.share,
            }),
            note: tuned.best.bottleneck.to_string(),
            record: tuned.record,
            kind: tuned.kind,
            classes: tuned.classes,
        })
    };
    let profile = match machine.provenance {
        Profile::Published => "profile put together from publications",
        Profile::Measured => "profile measured by tierloom characterize",
    };
    Ok(Tuning {
        title: format!(
            "modelled on {}: {} ({profile}); {workers} workers, tiers {}",
            machine.name,
            machine.title,
            tiers.join(", ")
        ),
        provenance: Provenance::Modelled,
        home: tiers.first().cloned().unwrap_or_default(),
        outcomes: works.iter().map(outcome).collect::<Result<_, Failure>>()?,
        benches: Vec::new(),
        runs: Vec::new(),
    })
}

/// Widens the ranges of the gain and of the best share to what the checks of this kind of work
/// miss, and says how well it is known.
fn widen(record: &mut TuneRecord, share: f64, known: &Known) {
    let gain = record.best_rate / record.dram_rate;
    if let Some((low, high)) = &mut record.gain_range {
        (*low, *high) = known.widen(gain, *low, *high);
    }
    if let Some((low, high)) = &mut record.best_share_range {
        (*low, *high) = known.widen_share(share, *low, *high);
    }
    record
        .warnings
        .push(format!("how well gains are known: {known}"));
}

/// The tiers of `--tiers`; by default all of the machine except memory of another socket, which
/// that socket's own work needs.
fn tiers(args: &Args, machine: &Machine) -> Result<Vec<String>, Failure> {
    let known = || {
        let names: Vec<&str> = machine
            .tiers
            .iter()
            .map(|tier| tier.name.as_str())
            .collect();
        names.join(", ")
    };
    let typed = args.tier_names();
    let tiers: Vec<String> = if typed.is_empty() {
        let own = machine.tiers.iter().filter(|tier| tier.name != "remote");
        own.map(|tier| tier.name.clone()).collect()
    } else {
        typed
    };
    if tiers.len() < 2 {
        return Err(Failure::input(format!(
            "machine {} has nothing to spread over: weights need two tiers, it has {}; name two with --tiers, or another machine",
            machine.name,
            known()
        )));
    }
    Ok(tiers)
}

/// The requested phases. Each name may occur once, because records are told apart by it.
pub fn works(args: &Args) -> Result<Vec<(String, Work)>, Failure> {
    let usual = || USUAL.iter().map(|name| (*name).to_owned()).collect();
    let texts: Vec<String> = if args.phases.is_empty() && args.work.is_empty() {
        usual()
    } else {
        args.phases.iter().chain(&args.work).cloned().collect()
    };
    let mut works: Vec<(String, Work)> = Vec::new();
    for text in texts {
        let name = name_of(&text);
        if works.iter().any(|(other, _)| *other == name) {
            return Err(Failure::input(format!("phase {name} is named twice")));
        }
        works.push((name, works::parse(&text)?));
    }
    Ok(works)
}

/// The argument itself, or for a file its name without folder and extension.
fn name_of(text: &str) -> String {
    let stem = Path::new(text).file_stem();
    match stem.filter(|_| works::is_path(text)) {
        Some(stem) => stem.to_string_lossy().into_owned(),
        None => text.to_owned(),
    }
}

/// Parses `--moved`: classes if all names are classes, otherwise structures.
fn moved(names: &[String]) -> Result<Moved, Failure> {
    if names.is_empty() {
        return Ok(Moved::All);
    }
    let class = |name: &String| {
        serde_json::from_value::<StructureClass>(serde_json::Value::String(name.clone())).ok()
    };
    let classes: Vec<StructureClass> = names.iter().filter_map(class).collect();
    match classes.len() {
        0 => Ok(Moved::Structures(names.to_vec())),
        all if all == names.len() => Ok(Moved::Classes(classes)),
        _ => Err(Failure::input(format!(
            "--moved {}: name structures or classes, not both",
            names.join(",")
        ))),
    }
}
