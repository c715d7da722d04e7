//! Finds weights with the model, on one or several machine profiles.

use super::{Args, Modelled, Outcome, Tuning, stamp};
use crate::failure::Failure;
use tierloom_model::Provenance as Profile;
use tierloom_model::reference::work::Work;
use tierloom_predict::Texts;
use tierloom_record::Provenance;
use tierloom_tune::modelled::Tuned;
use tierloom_tune::request::{TuneRequest, TunedMachine};

/// Tunes all phases on all machines.
pub fn all(args: &Args) -> Result<Vec<Tuning>, Failure> {
    let answers = request(args).answer(&stamp())?;
    Ok(answers.into_iter().map(tuning).collect())
}

/// The requested phases.
pub fn works(args: &Args) -> Result<Vec<(String, Work)>, Failure> {
    Ok(request(args).works()?)
}

fn request(args: &Args) -> TuneRequest {
    TuneRequest {
        machine: Texts(args.machine.clone()),
        phases: Texts(args.phases.clone()),
        work: Texts(args.work.clone()),
        tiers: Texts(args.tier_names()),
        moved: Texts(args.moved.clone()),
        workers: args.workers,
    }
}

fn tuning(answer: TunedMachine) -> Tuning {
    let (machine, tiers) = (&answer.machine, &answer.tiers);
    let profile = match machine.provenance {
        Profile::Published => "profile put together from publications",
        Profile::Measured => "profile measured by tierloom characterize",
    };
    Tuning {
        title: format!(
            "modelled on {}: {} ({profile}); {} workers, tiers {}",
            machine.name,
            machine.title,
            answer.workers,
            tiers.join(", ")
        ),
        provenance: Provenance::Modelled,
        home: tiers.first().cloned().unwrap_or_default(),
        outcomes: answer.phases.into_iter().map(outcome).collect(),
        benches: Vec::new(),
        runs: Vec::new(),
    }
}

fn outcome(tuned: Tuned) -> Outcome {
    Outcome {
        modelled: Some(Modelled {
            gain_over_equal: tuned.best.gain_over_equal(),
            share: tuned.best.share,
        }),
        note: tuned.best.bottleneck.to_string(),
        record: tuned.record,
        kind: tuned.kind,
        classes: tuned.classes,
    }
}
