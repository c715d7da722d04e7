//! Steps that check format and lints, and that other builds compile.

use crate::everything::{EVERYTHING, without_lints};
use crate::notes;
use crate::wheel::MODEL_CRATE;
use anyhow::{Result, bail};
use tierloom_testing::{Kind, Note};
use xshell::{Shell, cmd};

pub fn fmt(shell: &Shell) -> Result<()> {
    Ok(cmd!(shell, "cargo fmt --all --check").run()?)
}

/// Here the shell has clippy compile (see [`lint_what_is_built`]); what this builds is run later.
///
/// [`lint_what_is_built`]: crate::everything::lint_what_is_built
pub fn lint(shell: &Shell) -> Result<()> {
    Ok(cmd!(
        shell,
        "cargo test {EVERYTHING...} --all-targets --no-run --quiet"
    )
    .run()?)
}

/// Compiles rather than checks, together with the model's wheel, which has the same dependencies
/// with the same features: step `python` packs what is built here.
pub fn lean(shell: &Shell) -> Result<()> {
    let packages = ["--package", "tierloom", "--package", MODEL_CRATE];
    Ok(cmd!(
        shell,
        "cargo build {packages...} --no-default-features --quiet"
    )
    .run()?)
}

/// Exit code of the script if it can neither find nor fetch a compiler for the target.
const CANNOT_CROSS: i32 = 3;

pub fn cross(shell: &Shell) -> Result<()> {
    let plain = without_lints(shell);
    let output = cmd!(plain, "sh scripts/check-aarch64.sh")
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
