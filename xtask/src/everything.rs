//! What is built for tests.

use anyhow::Result;
use xshell::{Shell, cmd};

/// Arguments of cargo for all crates with one set of features, so that DataFusion is built once.
pub const EVERYTHING: [&str; 3] = [
    "--workspace",
    "--features",
    "tierloom/serve,tierloom/cluster",
];

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
