//! `tune --prefetchers`: shows and switches this machine's hardware prefetchers.
//!
//! The registers are read and written by `tierloom_tune::prefetch`, which saves their content
//! before the first change.

use super::apply::state;
use super::args::Prefetchers;
use super::{ApplyReport, Args, stamp};
use crate::failure::Failure;
use crate::output;
use tierloom_tune::apply::StateFile;
use tierloom_tune::prefetch::{self, Control, CpuState, PrefetchError, RestoredRegisters};

fn failure(error: PrefetchError) -> Failure {
    if error.is_bad_input() {
        Failure::input(error)
    } else {
        Failure::runtime(error)
    }
}

fn file(args: &Args) -> StateFile {
    prefetch::state_file(&state(args))
}

/// Shows the prefetchers and, with `--yes`, switches them.
pub fn run(args: &Args, what: Prefetchers) -> Result<(), Failure> {
    let (root, state) = (args.root(), file(args));
    let path = state.path().display();
    let control = prefetch::control(&root).map_err(failure)?;
    // Read before anything is switched: the output shows the previous state.
    let cpus = prefetch::show(&root, &control).map_err(failure)?;
    let saved = prefetch::saved(&root, &state).map_err(failure)?;
    let mut text = table(&control, &cpus);
    if let Some(saved) = &saved {
        text += &format!(
            "what they held before {} is saved in {path}; tierloom tune --restore puts it back\n",
            saved.saved_at
        );
    }
    let (mut done, wanted) = (false, what == Prefetchers::On);
    if what != Prefetchers::Show && args.yes {
        let now = stamp().made_at;
        let switched = prefetch::switch(&root, &state, wanted, &now).map_err(failure)?;
        done = true;
        text += &match (switched.written, switched.kept_since) {
            (0, _) => "they are so already: nothing was written\n".to_owned(),
            (n, None) => format!(
                "all switched {}, on {n} CPUs; what they held is saved in {path}, tierloom tune --restore puts it back\n",
                word(wanted)
            ),
            (n, Some(since)) => format!(
                "all switched {}, on {n} CPUs; what they held at {since} is kept in {path}\n",
                word(wanted)
            ),
        };
    } else if what != Prefetchers::Show {
        text += &format!(
            "all would be switched {}; nothing was written; add --yes to do it\n",
            word(wanted)
        );
    }
    if args.json {
        let cpus: Vec<_> = cpus.iter().map(|c| cpu_json(&control, c)).collect();
        let json = serde_json::json!({
            "processor": control.processor,
            "register": format!("{:#x}", control.register),
            "before": cpus,
            "done": done,
            "saved_at": saved.map(|s| s.saved_at),
            "state": state.path(),
        });
        return output::print(&format!("{json:#}\n"));
    }
    output::print(&text)
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// The state of all CPUs, with CPUs of equal register content on one line.
fn table(control: &Control, cpus: &[CpuState]) -> String {
    let mut values: Vec<u64> = cpus.iter().map(|c| c.value).collect();
    values.sort_unstable();
    values.dedup();
    let mut text = format!("{}, register {:#x}\n", control.processor, control.register);
    for value in values {
        let same = cpus.iter().filter(|c| c.value == value);
        let same: Vec<String> = same.map(|c| c.cpu.to_string()).collect();
        let on = control.on(value);
        let on = if on.is_empty() {
            "none".to_owned()
        } else {
            on.join(", ")
        };
        text += &format!("CPU {}: {value:#x}, on: {on}\n", same.join(","));
    }
    text
}

fn cpu_json(control: &Control, cpu: &CpuState) -> serde_json::Value {
    let on = control.on(cpu.value);
    serde_json::json!({ "cpu": cpu.cpu, "value": format!("{:#x}", cpu.value), "on": on })
}

/// Restores the prefetchers, or describes what that would write; `None` if nothing is saved.
pub fn restored(args: &Args) -> Result<Option<ApplyReport>, Failure> {
    let state = file(args);
    let path = state.path().display();
    let restored = prefetch::restore(&args.root(), &state, args.yes).map_err(failure)?;
    let (text, found) = match &restored {
        RestoredRegisters::Nothing => return Ok(None),
        RestoredRegisters::Rebooted(saved) => (
            format!(
                "prefetchers: the machine was booted since they were saved in {path} ({}), and firmware has set them\n",
                saved.saved_at
            ),
            "another boot",
        ),
        RestoredRegisters::Back {
            saved,
            differed,
            gone,
        } => {
            let mut text = format!(
                "prefetchers, saved at {}: {} of {} CPUs {} put back\n",
                saved.saved_at,
                differed.len(),
                saved.values.len(),
                if args.yes { "are" } else { "would be" }
            );
            for cpu in gone {
                text += &format!("CPU {cpu} is gone: it is left out\n");
            }
            if !args.yes {
                text += "nothing was written; add --yes to do it\n";
            }
            (text, "saved state")
        }
    };
    let json = serde_json::json!({ "done": args.yes, "found": found, "state": state.path() });
    Ok(Some(ApplyReport { text, json }))
}

/// Notes on stderr that an earlier command switched the prefetchers and did not restore them:
/// measured weights would depend on it.
pub fn warn_of_a_saved_state(args: &Args) {
    let state = file(args);
    if let Ok(Some(saved)) = prefetch::saved(&args.root(), &state) {
        note!(
            "note: prefetchers were switched at {} and not put back; tierloom tune --restore --yes does it",
            saved.saved_at
        );
    }
}
