//! Python environments for programs from PyPI.

use anyhow::{Context, Result};
use std::path::Path;
use xshell::{Shell, cmd};

/// The Python environment for clients of PostgreSQL and the packages in it; see docs/serve.md.
const CLIENTS: &str = "target/pg-clients";
const CLIENT_PACKAGES: [&str; 5] = [
    "psycopg[binary]==3.3.9",
    "asyncpg==0.32.0",
    "adbc-driver-postgresql==1.13.0",
    "pyarrow==26.0.1",
    "duckdb==2.0.1",
];

/// Installs clients of PostgreSQL into a separate Python environment if they are not there.
///
/// # Errors
/// Python lacks a part, or pip fails.
pub fn install_clients(shell: &Shell) -> Result<()> {
    let python = format!("{CLIENTS}/bin/python");
    let wanted = "import psycopg, asyncpg, adbc_driver_postgresql, pyarrow, duckdb";
    let there = cmd!(shell, "{python} -c {wanted}").quiet().ignore_stderr();
    if there.run().is_err() {
        install(shell, Path::new(CLIENTS), &CLIENT_PACKAGES)
            .context("clients of PostgreSQL cannot be installed from PyPI")?;
    }
    Ok(())
}

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
