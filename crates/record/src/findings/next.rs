//! What to do next: a command line to run or a setting to apply.

use super::NOISY_RELATIVE_RANGE;
use super::best::{BestPlacement, PlacementVerdict};
use super::warnings;
use crate::means::REFERENCE;
use crate::{HERE, RunSet};
use tierloom_text::words::number;

/// Repetitions proposed where those made cannot show a difference.
const MORE_REPETITIONS: u32 = 15;

/// The next step as a sentence.
pub(super) fn step(set: &RunSet, best: &[BestPlacement]) -> String {
    let step = before_comparing(set)
        .or_else(|| best.iter().find_map(|b| here(set, b)))
        .or_else(|| best.iter().find_map(|b| elsewhere(set, b)))
        .unwrap_or_else(|| nothing_compared(set));
    format!("Next: {step}.")
}

/// What has to be right before any figure is used.
fn before_comparing(set: &RunSet) -> Option<String> {
    if warnings::is_emulated(set) {
        let run = RunCommand::of(set);
        return Some(format!("run it on a real processor: `{run}`"));
    }
    if let Some(why) = warnings::no_conclusion(set) {
        let run = RunCommand::of(set).with("--baseline");
        return Some(format!("use none of these times, because {why}; `{run}`"));
    }
    let ended = set.summary.as_ref().is_some_and(|s| !s.interrupted);
    if !ended {
        return Some(format!("run it to its end: `{}`", RunCommand::of(set)));
    }
    if set.run.build != "release" {
        let run = RunCommand::of(set).cargo();
        return Some(format!("measure with a release build: `{run}`"));
    }
    None
}

/// What follows from a comparison that was measured on this machine.
fn here(set: &RunSet, best: &BestPlacement) -> Option<String> {
    if best.machine != HERE {
        return None;
    }
    match &best.outcome {
        PlacementVerdict::Alone { .. } => None,
        PlacementVerdict::Better { placement, .. } if placement == REFERENCE => Some(
            "leave tables in dram, as is the default; other placements are for tables that dram \
             cannot hold"
                .into(),
        ),
        PlacementVerdict::Better { placement, .. } => Some(format!(
            "place tables so, in `tierloom sql` with `SET tierloom.placement = '{placement}'`"
        )),
        PlacementVerdict::NoneBetter { than, next, .. } if is_noisy(set) => {
            Some(repeat(set, &[than, next], "on an idle machine"))
        }
        PlacementVerdict::NoneBetter { than, .. } => Some(format!(
            "choose by capacity, since no placement costs time; {than} is the default choice"
        )),
        PlacementVerdict::TooFewRepetitions { fastest, over, .. } => {
            Some(repeat(set, &[over, fastest], "more often"))
        }
    }
}

fn is_noisy(set: &RunSet) -> bool {
    let noisy = warnings::measured(set)
        .filter(|q| q.time_ms.relative_range() > NOISY_RELATIVE_RANGE)
        .count();
    noisy * 4 > warnings::measured(set).count()
}

fn repeat(set: &RunSet, placements: &[&String], how: &str) -> String {
    let names: Vec<&str> = placements.iter().map(|p| p.as_str()).collect();
    let run = RunCommand::of(set).placements(&names);
    let repeat = MORE_REPETITIONS.max(set.run.settings.repeat.saturating_mul(3));
    let run = if set.throughputs.is_empty() {
        run.with(&format!("--repeat {repeat}"))
    } else {
        run
    };
    format!("repeat it {how}: `{run}`")
}

/// What follows from figures of a machine profile.
fn elsewhere(set: &RunSet, best: &BestPlacement) -> Option<String> {
    if best.machine == HERE {
        return None;
    }
    let own = "a profile of your own machine is made there by `tierloom characterize -o mine.yaml` \
               and used here with `--machine mine.yaml`";
    let name = &best.machine;
    Some(match &best.outcome {
        PlacementVerdict::Alone { .. } => return None,
        PlacementVerdict::Better { placement, .. } if placement != REFERENCE => {
            let run = RunCommand::of(set)
                .scale_factor(set.scale_factor_on(name))
                .placements(&[REFERENCE, placement]);
            format!("measure it on a machine like {name}: `{run}`; {own}")
        }
        _ => format!("leave tables in dram on a machine like {name}; {own}"),
    })
}

fn nothing_compared(set: &RunSet) -> String {
    let settings = &set.run.settings;
    let mut run = RunCommand::of(set);
    if settings.placements.len() < 2 {
        run = run.placements(&[REFERENCE, "cxl", "3:2"]);
    }
    // Nothing is modelled of concurrent sessions.
    run.streams = None;
    let machines = match settings.machines.as_slice() {
        [] => "nus24".to_owned(),
        several => several.join(","),
    };
    let run = run.with(&format!("--machine {machines}"));
    format!("compare placements, modelled where this machine cannot have them: `{run}`")
}

/// A command line that runs the workload again.
struct RunCommand {
    program: &'static str,
    workload: String,
    scale_factor: f64,
    seed: Option<u64>,
    /// The queries, if they were chosen.
    queries: Vec<String>,
    streams: Option<String>,
    placements: Vec<String>,
    more: Vec<String>,
}

impl RunCommand {
    /// Same workload, data and placements as the run.
    fn of(set: &RunSet) -> RunCommand {
        let run = &set.run;
        let streams = set.throughputs.first().map(|t| {
            let (count, seconds) = (t.streams.len(), number(t.duration_s));
            format!(" --streams {count} --duration {seconds}s")
        });
        RunCommand {
            program: "tierloom",
            workload: run.workload.clone(),
            scale_factor: run.settings.scale_factor,
            // The TPC's data has no seed; 1 is the default of the other.
            seed: (run.workload == "ssb" && run.settings.seed != 1).then_some(run.settings.seed),
            queries: if run.command.iter().any(|word| word.starts_with("--quer")) {
                run.settings.queries.clone()
            } else {
                Vec::new()
            },
            streams,
            placements: run.settings.placements.clone(),
            more: Vec::new(),
        }
    }

    fn cargo(self) -> RunCommand {
        RunCommand {
            program: "cargo run --release --",
            ..self
        }
    }

    fn scale_factor(self, scale_factor: f64) -> RunCommand {
        RunCommand {
            scale_factor,
            ..self
        }
    }

    fn placements(self, names: &[&str]) -> RunCommand {
        let mut placements: Vec<String> = Vec::new();
        for name in names {
            if !placements.iter().any(|p| p == name) {
                placements.push((*name).to_owned());
            }
        }
        RunCommand { placements, ..self }
    }

    fn with(mut self, option: &str) -> RunCommand {
        self.more.push(option.to_owned());
        self
    }
}

impl std::fmt::Display for RunCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scale_factor = number(self.scale_factor);
        let RunCommand {
            program, workload, ..
        } = self;
        write!(f, "{program} run {workload} --sf {scale_factor}")?;
        if let Some(seed) = self.seed {
            write!(f, " --seed {seed}")?;
        }
        if !self.queries.is_empty() {
            write!(f, " --queries {}", self.queries.join(","))?;
        }
        if let Some(streams) = &self.streams {
            f.write_str(streams)?;
        }
        match self.placements.join(",") {
            none if none.is_empty() => {}
            // A shell expands brackets.
            nodes if nodes.contains('[') => write!(f, " --placement '{nodes}'")?,
            plain => write!(f, " --placement {plain}")?,
        }
        self.more.iter().try_for_each(|o| write!(f, " {o}"))
    }
}
