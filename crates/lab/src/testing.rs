//! Helpers for tests that boot guests, in this crate and in others.

use std::io::Write;

use crate::{
    GuestCommand, GuestFile, GuestOptions, GuestOutcome, Kit, LabCache, LabError, prepare, run,
};

/// Path in the guest of the test program that is running.
const PROGRAM: &str = "/bin/test-program";

/// Prepares the kit in the default cache, for a test that boots a guest.
///
/// Returns `None` if `TIERLOOM_LAB=skip` disables guests; the summary of the test run then says so.
/// Progress of a download goes straight to stderr: the test harness would capture it while somebody
/// waits.
///
/// # Errors
/// Same as [`LabCache::open`] and [`prepare`].
pub fn kit_for_tests() -> Result<Option<Kit>, LabError> {
    if std::env::var("TIERLOOM_LAB").is_ok_and(|value| value == "skip") {
        tierloom_testing::checked_nothing("no guest was booted: TIERLOOM_LAB=skip");
        return Ok(None);
    }
    let mut say = |line: &str| {
        // A closed stderr is no reason to fail a test.
        let _ = writeln!(std::io::stderr(), "{line}");
    };
    let cache = LabCache::open(None)?;
    Ok(Some(prepare(&cache, &mut say)?.for_tests()))
}

/// One step that [`run_tests_in_guest`] runs in its guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestStep {
    /// A command that must exit with 0.
    Command(GuestCommand),
    /// An `#[ignore]` test of the running test program, by its full name, that must pass.
    Test(&'static str),
}

impl GuestStep {
    /// A command step that runs `script` in busybox's shell.
    pub fn shell(script: impl Into<String>) -> GuestStep {
        GuestStep::Command(GuestCommand::shell(script))
    }

    fn command(&self) -> GuestCommand {
        match self {
            GuestStep::Command(command) => command.clone(),
            GuestStep::Test(name) => test_command(name),
        }
    }
}

/// Boots a guest that contains the running test program and runs `steps` in it.
///
/// Every command must exit with 0, and for the name of every test exactly one test must run and
/// pass. Returns `None` if guests are disabled ([`kit_for_tests`]).
///
/// # Panics
/// If the guest cannot be booted or does not finish, and if a step fails; the message then has the
/// step's output.
pub fn run_tests_in_guest(mut options: GuestOptions, steps: &[GuestStep]) -> Option<GuestOutcome> {
    let kit = kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"))?;
    let own = std::env::current_exe().unwrap_or_else(|error| panic!("this program: {error}"));
    options.files.push(GuestFile::new(own, PROGRAM));
    let commands: Vec<GuestCommand> = steps.iter().map(GuestStep::command).collect();
    let kind = options.kind;
    let outcome = run(&kit, &options, &commands, &mut |line| {
        eprintln!("[{kind}] {line}");
    })
    .unwrap_or_else(|error| panic!("{error}"));
    // All steps have run by now, also those after a failed one; the first failure is the one to
    // report.
    for (step, command) in steps.iter().zip(&outcome.commands) {
        let out = command.stdout_text();
        let good = match (step, command.exit_code) {
            (_, code) if code != 0 => Err(format!("ended with exit code {code}")),
            (GuestStep::Command(_), _) => Ok(()),
            (GuestStep::Test(_), _) => one_passed(&out),
        };
        if let Err(why) = good {
            panic!("{step:?} {why}:\n{out}\n{}", command.stderr_text());
        }
    }
    Some(outcome)
}

/// A command that runs one test.
///
/// `--exact` keeps tests whose names begin alike from running too, and the variable turns a test
/// that would skip itself into a failure.
fn test_command(name: &str) -> GuestCommand {
    GuestCommand::new([PROGRAM, "--ignored", "--exact", "--nocapture", name])
        .env(tierloom_testing::MUST_CHECK, "1")
}

/// Whether the test harness reported exactly one test, and that it passed.
fn one_passed(out: &str) -> Result<(), String> {
    let results: Vec<&str> = out
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "))
        .collect();
    match results[..] {
        [result] if result.starts_with("ok. 1 passed; 0 failed; 0 ignored; ") => Ok(()),
        [result] => Err(format!("is not one test that passed ({result})")),
        _ => Err(format!("told {} results", results.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_test_that_ran_and_passed_will_do() {
        let one = "\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.0s\n";
        one_passed(one).unwrap();
        for out in [
            String::new(),
            one.replace("1 passed", "0 passed"),
            one.replace("1 passed", "2 passed"),
            one.replace("ok. 1 passed; 0 failed", "FAILED. 1 passed; 1 failed"),
            one.replace("0 ignored", "1 ignored"),
            one.repeat(2),
        ] {
            one_passed(&out).unwrap_err();
        }
    }
}
