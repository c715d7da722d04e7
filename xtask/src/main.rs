//! `cargo xtask`: the checks of this repository, the same on a developer's machine and in CI.
//!
//! `test` runs all steps; names run single steps, in the order given. Every step prints what it
//! does before it starts. The summary at the end has the time of each step, the tests that checked
//! nothing, and the guests that were booted again after a failure of the emulator.
//!
//! `deb` and `wheel` are no steps: they make packages for users.

mod checks;
mod deny;
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

/// Steps that need no SQL engine come first, so that simple mistakes are found before the long
/// builds.
const STEPS: [Step; 14] = [
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
    (
        "deny",
        "check the licences and sources of dependencies, and that no copies were added",
        deny::deny,
    ),
    ("lean", "build without the SQL engine", checks::lean),
    (
        "cross",
        "compile the kernels for aarch64 (the first time fetches a compiler for it)",
        checks::cross,
    ),
    (
        "smoke",
        "run every benchmark and example once, small",
        smoke::smoke,
    ),
    (
        "lint",
        "clippy over everything, warnings denied",
        checks::lint,
    ),
    (
        "doc",
        "build the documentation, warnings denied",
        checks::doc,
    ),
    (
        "tests",
        "unit, property, snapshot, integration and doc tests; the lab boots its guests here",
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
        "fuzz",
        "a minute of random workload files through the parser",
        fuzz::fuzz,
    ),
    (
        "sqlfuzz",
        "a minute of random SQL against plain DataFusion and DuckDB",
        sqlfuzz::sqlfuzz,
    ),
];

fn main() -> Result<()> {
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
    let steps = steps(&asked)?;
    notes::clear(&shell)?;
    let mut times = Vec::with_capacity(steps.len());
    let ended = steps
        .iter()
        .try_for_each(|step| timed(&shell, *step, &mut times));
    // The notes are printed after a failure too, since they may explain it.
    let told = notes::summary(&shell);
    eprint!("== summary\n{}", table(&times));
    match told {
        Ok(lines) => eprint!("{lines}"),
        Err(error) => eprintln!("{error:#}"),
    }
    ended
}

/// The steps of these names; `test` means all of them.
fn steps(asked: &[String]) -> Result<Vec<Step>> {
    let names = STEPS.map(|step| step.0).join(", ");
    if asked.is_empty() {
        bail!("usage: cargo xtask test, deb, wheel, or steps: {names}");
    }
    let mut steps = Vec::new();
    for name in asked {
        match STEPS.iter().find(|step| step.0 == name) {
            Some(step) => steps.push(*step),
            None if name == "test" => steps.extend(STEPS),
            None => bail!("no step {name:?}; there are test, {names}"),
        }
    }
    Ok(steps)
}

fn timed(
    shell: &Shell,
    (name, what, step): Step,
    times: &mut Vec<(&'static str, Duration)>,
) -> Result<()> {
    let start = Instant::now();
    eprintln!("== {name}: {what}");
    let ended = step(shell).with_context(|| format!("step {name} failed"));
    times.push((name, start.elapsed()));
    let how = if ended.is_ok() { "done" } else { "FAILED" };
    eprintln!("== {name}: {how} in {:.0} s", start.elapsed().as_secs_f64());
    ended
}

/// A line with the time of each step that ran, and one for the total.
fn table(times: &[(&str, Duration)]) -> String {
    let mut text = String::new();
    let all: Duration = times.iter().map(|(_, time)| *time).sum();
    for (name, time) in times.iter().chain([&("all", all)]) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:>8} {:>6.0} s", time.as_secs_f64());
    }
    text
}
