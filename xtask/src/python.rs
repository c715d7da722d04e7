//! Python environments for programs from PyPI.

use anyhow::{Context, Result};
use std::path::Path;
use xshell::{Shell, cmd};

/// Makes a separate environment in the folder `venv` and installs `packages`, arguments of pip.
///
/// # Errors
/// Python lacks a part, which is named, or pip fails.
pub fn install(shell: &Shell, venv: &Path, packages: &[&str]) -> Result<()> {
    cmd!(shell, "python3 -m venv {venv}")
        .run()
        .context("install the packages: apt-get install python3 python3-venv python3-pip")?;
    let python = venv.join("bin/python");
    Ok(cmd!(shell, "{python} -m pip install --quiet")
        .args(packages)
        .run()?)
}
