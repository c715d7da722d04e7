//! Steps that check format, lints and documentation, and that other builds compile.

use crate::everything::EVERYTHING;
use crate::notes;
use anyhow::{Result, bail};
use tierloom_testing::{Kind, Note};
use xshell::{Shell, cmd};

pub fn fmt(shell: &Shell) -> Result<()> {
    Ok(cmd!(shell, "cargo fmt --all --check").run()?)
}

pub fn lint(shell: &Shell) -> Result<()> {
    Ok(cmd!(
        shell,
        "cargo clippy {EVERYTHING...} --all-targets --quiet -- -D warnings"
    )
    .run()?)
}

/// Examples are documented too: with them dependencies have the features that `lint` has checked
/// them with, and are not checked once more.
pub fn doc(shell: &Shell) -> Result<()> {
    let all = ["--lib", "--bin", "xtask", "--examples"];
    Ok(cmd!(
        shell,
        "cargo doc {EVERYTHING...} {all...} --no-deps --quiet"
    )
    .env("RUSTDOCFLAGS", "-D warnings")
    .run()?)
}

pub fn lean(shell: &Shell) -> Result<()> {
    Ok(cmd!(
        shell,
        "cargo clippy --package tierloom --no-default-features --quiet -- -D warnings"
    )
    .run()?)
}

/// Exit code of the script if it can neither find nor fetch a compiler for the target.
const CANNOT_CROSS: i32 = 3;

pub fn cross(shell: &Shell) -> Result<()> {
    let output = cmd!(shell, "sh scripts/check-aarch64.sh")
        .ignore_status()
        .output()?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => Ok(()),
        // A machine without that compiler can still run all other steps.
        Some(CANNOT_CROSS) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.lines().next().unwrap_or("the script cannot run here");
            let note = Note::new(Kind::CheckedNothing, "xtask cross", why);
            Ok(note.append(&notes::file(shell))?)
        }
        _ => bail!(
            "the kernels do not compile for aarch64:\n{}",
            String::from_utf8_lossy(&output.stdout)
        ),
    }
}
