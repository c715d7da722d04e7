//! Runs random SQL against plain DataFusion and DuckDB.

use crate::everything::build_tests;
use crate::python::environment;
use anyhow::Result;
use xshell::{Shell, cmd};

/// The Python environment for DuckDB and the packages in it; see docs/sql-fuzzing.md.
const VENV: &str = "target/sqlfuzz-venv";
const PACKAGES: [&str; 2] = ["duckdb==2.0.0", "pyarrow==26.0.1"];

/// Installs DuckDB into a separate Python environment if it is not there.
pub fn install_duckdb(shell: &Shell) -> Result<()> {
    environment(shell, VENV, &PACKAGES).map(drop)
}

/// Runs the fuzzer for a minute.
pub fn sqlfuzz(shell: &Shell) -> Result<()> {
    install_duckdb(shell)?;
    build_tests(shell, &["cases"])?;
    Ok(cmd!(shell, "target/debug/tierloom-sqlfuzz --seconds 60").run()?)
}
