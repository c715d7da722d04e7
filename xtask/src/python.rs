//! Python environments for programs from PyPI.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use xshell::{Shell, cmd};

/// The Python environment for clients of the server and the packages in it; see docs/serve.md.
const CLIENTS: &str = "target/pg-clients";
const CLIENT_PACKAGES: [&str; 14] = [
    "psycopg[binary]==3.3.9",
    "asyncpg==0.32.0",
    "adbc-driver-postgresql==1.13.0",
    "adbc-driver-flightsql==1.13.0",
    "pyarrow==26.0.1",
    // The newest one whose extension for PostgreSQL is a package too.
    "duckdb==1.5.5",
    "duckdb-extension-postgres-scanner==1.5.5",
    "sqlalchemy==2.1.9",
    "pandas==3.1.1",
    "polars==2.1.0",
    "connectorx==0.4.6",
    "pyodbc==5.5.0",
    // Later ones fetch a binary from elsewhere when they are installed.
    "dbt-core==1.11.16",
    "dbt-postgres==1.11.0",
];

/// Installs clients of the server into a separate Python environment if they are not there.
///
/// # Errors
/// Python lacks a part, or pip fails.
pub fn install_clients(shell: &Shell) -> Result<()> {
    environment(shell, CLIENTS, &CLIENT_PACKAGES).map(drop)
}

/// The interpreter of a separate environment in the folder `venv` with `packages`, which are
/// installed if they are not there.
///
/// # Errors
/// Python lacks a part, or pip fails.
pub fn environment(shell: &Shell, venv: &str, packages: &[&str]) -> Result<PathBuf> {
    // Two steps may ask for the same one at the same time.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let venv = shell.current_dir().join(venv);
    let wanted = packages.join(" ");
    // Written last, so that an environment that was not finished is made again.
    let done = venv.join("packages");
    if shell.read_file(&done).ok().as_deref() != Some(&wanted) {
        install(shell, &venv, packages)
            .with_context(|| format!("{wanted} cannot be installed from PyPI"))?;
        shell.write_file(&done, wanted)?;
    }
    Ok(venv.join("bin/python"))
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
