//! What is built for tests.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Arguments of cargo for all crates with one set of features, so that DataFusion is built once.
pub const EVERYTHING: [&str; 3] = [
    "--workspace",
    "--features",
    "tierloom/serve,tierloom/cluster",
];

/// The variable of cargo with the program that compiles our crates, but not their dependencies.
const COMPILES_OURS: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Lets clippy look at each of our crates while it is compiled for the tests, warnings denied.
///
/// `cargo clippy` would check all dependencies first, and compile nothing: two passes through
/// DataFusion in the place of one.
pub fn lint_what_is_built(shell: &Shell) {
    shell.set_var(COMPILES_OURS, "clippy-driver");
    // Each argument ends so; see `cargo clippy`.
    shell.set_var("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
}

/// A shell in which cargo compiles as for users.
pub fn without_lints(shell: &Shell) -> Shell {
    let shell = shell.clone();
    shell.set_var(COMPILES_OURS, "");
    shell
}

/// The folder with the libraries of the dev profile: below `target`, or where cargo's setting
/// `build.build-dir` has it.
///
/// # Errors
/// Cargo does not know.
pub fn libraries(shell: &Shell) -> Result<PathBuf> {
    let facts = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet();
    let facts: serde_json::Value = serde_json::from_str(&facts.read()?)?;
    let folder = ["build_directory", "target_directory"];
    let mut folder = folder.iter().filter_map(|name| facts[name].as_str());
    let folder = folder.next().context("cargo names no folder")?;
    Ok(Path::new(folder).join("debug/deps"))
}

/// Builds tests of these names, and the programs of their packages, as all tests are built;
/// otherwise DataFusion would be built once more, with other features.
///
/// # Errors
/// They do not compile.
pub fn build_tests(shell: &Shell, names: &[&str]) -> Result<()> {
    let named = names.iter().flat_map(|name| ["--test", name]);
    let build = cmd!(
        shell,
        "cargo test {EVERYTHING...} --no-run --quiet {named...}"
    );
    Ok(build.run()?)
}
