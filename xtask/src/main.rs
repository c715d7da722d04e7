//! `cargo xtask`: the checks of this repository, the same on a developer's machine and in CI.
//!
//! `test` runs all steps; names run single steps, in the order given. Every step prints what it
//! does before it starts. The summary at the end has the time of each step, the tests that checked
//! nothing, and the guests that were booted again after a failure of the emulator.
//!
//! `deb` and `wheel` are no steps: they make packages for users.

mod checks;
mod deny;
mod doc;
mod everything;
mod fuzz;
mod needs;
mod notes;
mod package;
mod python;
mod smoke;
mod sqlfuzz;
mod test_run;
mod tidy;
mod wheel;

use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::time::{Duration, Instant};
use xshell::Shell;

/// A step: its name, its description and its function.
type Step = (&'static str, &'static str, fn(&Shell) -> Result<()>);

/// A step that has ended, and how long it took.
type Took = (&'static str, Duration);

/// Steps that use nothing that the others build, and wait for the network or compute on one
/// processor: they run beside the others, of which many wait for one crate.
const BESIDE: [Step; 4] = [
    (
        "deny",
        "check the licences and sources of dependencies, and that no copies were added",
        deny::deny,
    ),
    ("fetch", "install what the tests use from PyPI", fetch),
    (
        "cross",
        "compile the kernels for aarch64 (the first time fetches a compiler for it)",
        checks::cross,
    ),
    (
        "fuzz",
        "a minute of random workload files through the parser",
        fuzz::fuzz,
    ),
];

/// Steps that need no SQL engine come first, so that simple mistakes are found before the long
/// builds.
const STEPS: [Step; 11] = [
    (
        "needs",
        "look for the programs that the tests use",
        needs::needs,
    ),
    ("fmt", "check the format", checks::fmt),
    (
        "tidy",
        "check the rules of this repository: widths, lengths, names, crates, links",
        tidy::tidy,
    ),
    ("lean", "build without the SQL engine", checks::lean),
    (
        "lint",
        "build everything with clippy, warnings denied",
        checks::lint,
    ),
    (
        "smoke",
        "run every benchmark and example once, small",
        smoke::smoke,
    ),
    (
        "doc",
        "build the documentation, warnings denied, and run its examples",
        doc::doc,
    ),
    (
        "tests",
        "unit, property, snapshot and integration tests; the lab boots its guests here",
        test_run::tests,
    ),
    (
        "python",
        "build and install the packages of Python, and test them, one with other libraries",
        wheel::python,
    ),
    (
        "debian",
        "make Debian packages, install them in an empty system, try and remove them",
        package::debian,
    ),
    (
        "sqlfuzz",
        "a minute of random SQL against plain DataFusion and DuckDB",
        sqlfuzz::sqlfuzz,
    ),
];

fn main() -> Result<()> {
    if let Some(ended) = doc::as_rustdoc() {
        return ended;
    }
    let start = Instant::now();
    let shell = Shell::new()?;
    shell.change_dir(env!("CARGO_MANIFEST_DIR"));
    shell.change_dir("..");
    // A run of all tests builds everything once: state for incremental builds would double what
    // it writes (11 GB here).
    if std::env::var_os("CARGO_INCREMENTAL").is_none() {
        shell.set_var("CARGO_INCREMENTAL", "0");
    }
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = package::run(&shell, &asked) {
        return ended;
    }
    let (beside, steps) = steps(&asked)?;
    everything::lint_what_is_built(&shell);
    notes::clear(&shell)?;
    let (times, ended) = run(&shell, &beside, &steps);
    // The notes are printed after a failure too, since they may explain it.
    let told = notes::summary(&shell);
    eprint!("== summary\n{}", table(&times, start.elapsed()));
    match told {
        Ok(lines) => eprint!("{lines}"),
        Err(error) => eprintln!("{error:#}"),
    }
    ended
}

/// The steps of these names, those that run beside others first; `test` means all of them.
fn steps(asked: &[String]) -> Result<(Vec<Step>, Vec<Step>)> {
    let all = || BESIDE.iter().chain(&STEPS);
    let names: Vec<_> = all().map(|step| step.0).collect();
    let names = names.join(", ");
    if asked.is_empty() {
        bail!("usage: cargo xtask test, deb, wheel, or steps: {names}");
    }
    let mut steps = Vec::new();
    for name in asked {
        match all().find(|step| step.0 == name) {
            Some(step) => steps.push(*step),
            None if name == "test" => return Ok((BESIDE.to_vec(), STEPS.to_vec())),
            None => bail!("no step {name:?}; there are test, {names}"),
        }
    }
    Ok((Vec::new(), steps))
}

/// Runs the steps in their order until one fails, and those of `beside` at the same time; returns
/// how long each took.
fn run(shell: &Shell, beside: &[Step], steps: &[Step]) -> (Vec<Took>, Result<()>) {
    // A shell is of one thread.
    let others = shell.clone();
    let mut times = Vec::with_capacity(beside.len() + steps.len());
    let ended = std::thread::scope(|scope| {
        let mut waiting = Some(scope.spawn(move || {
            let mut times = Vec::with_capacity(beside.len());
            let mut steps = beside.iter();
            let ended = steps.try_for_each(|step| timed(&others, *step, &mut times));
            (times, ended)
        }));
        let mut join = |times: &mut Vec<Took>, now: bool| {
            let Some(waited) = waiting.take_if(|beside| now || beside.is_finished()) else {
                return Ok(());
            };
            match waited.join() {
                Ok((took, ended)) => {
                    times.extend(took);
                    ended
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        };
        let ended = steps.iter().try_for_each(|step| {
            timed(shell, *step, &mut times)?;
            join(&mut times, false)
        });
        ended.and(join(&mut times, true))
    });
    (times, ended)
}

/// What the tests use from PyPI.
fn fetch(shell: &Shell) -> Result<()> {
    sqlfuzz::install_duckdb(shell)?;
    python::install_clients(shell)?;
    wheel::install(shell).map(drop)
}

fn timed(shell: &Shell, (name, what, step): Step, times: &mut Vec<Took>) -> Result<()> {
    let start = Instant::now();
    eprintln!("== {name}: {what}");
    let ended = step(shell).with_context(|| format!("step {name} failed"));
    times.push((name, start.elapsed()));
    let how = if ended.is_ok() { "done" } else { "FAILED" };
    eprintln!("== {name}: {how} in {:.0} s", start.elapsed().as_secs_f64());
    ended
}

/// A line with the time of each step that ran, and one for all of them.
fn table(times: &[Took], all: Duration) -> String {
    let mut text = String::new();
    for (name, time) in times.iter().chain([&("all", all)]) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:>8} {:>6.0} s", time.as_secs_f64());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_beside_the_steps_is_not_lost_and_one_in_them_ends_them() {
        let shell = Shell::new().unwrap();
        let well: Step = ("well", "", |_| Ok(()));
        let badly: Step = ("badly", "", |_| bail!("it is bad"));
        let names = |beside: &[Step], steps: &[Step]| {
            let (times, ended) = run(&shell, beside, steps);
            let mut names: Vec<_> = times.iter().map(|took| took.0).collect();
            names.sort_unstable();
            (names, ended.is_ok())
        };
        assert_eq!(names(&[well], &[well]), (vec!["well"; 2], true));
        assert_eq!(names(&[badly], &[well]), (vec!["badly", "well"], false));
        assert_eq!(
            names(&[well], &[badly, well]),
            (vec!["badly", "well"], false)
        );
    }

    #[test]
    fn every_step_can_be_asked_for_alone_and_test_means_all() {
        let all = BESIDE.iter().chain(&STEPS);
        for step in all.clone() {
            let (beside, one) = steps(&[step.0.to_owned()]).unwrap();
            assert!(beside.is_empty() && one.len() == 1 && one[0].0 == step.0);
        }
        let (beside, others) = steps(&["test".into()]).unwrap();
        assert_eq!(beside.len() + others.len(), all.count());
        assert!(steps(&["tset".into()]).is_err());
        assert!(steps(&[]).is_err());
    }
}
