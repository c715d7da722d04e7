//! Runs every benchmark and example once.

use crate::everything::EVERYTHING;
use anyhow::Result;
use xshell::{Shell, cmd};

/// Benchmarks with harnesses of their own and `--quick`.
const QUICK: [&str; 2] = ["place", "router"];

/// Benchmarks of Criterion, which runs each once with `--test`; `peers` are those of two crates.
const CRITERION: [&str; 11] = [
    "star",
    "access",
    "latency",
    "codes",
    "hash",
    "line_store",
    "solve",
    "search",
    "generate",
    "operators",
    "peers",
];

/// Small runs in the dev profile, which show only that they work.
///
/// Everything is built with the features of the tests: those of one crate alone would build its
/// dependencies once more. `tierloom run ssb --baseline`, the benchmark of queries, runs in the
/// tests of the command line program.
pub fn smoke(shell: &Shell) -> Result<()> {
    benches(shell, &QUICK, "--quick")?;
    benches(shell, &CRITERION, "--test")?;
    cmd!(
        shell,
        "python3 -m unittest discover -q -s scripts -p test_*.py"
    )
    .run()?;
    examples(shell)
}

fn benches(shell: &Shell, names: &[&str], once: &str) -> Result<()> {
    let named = names.iter().flat_map(|name| ["--bench", name]);
    let bench = cmd!(
        shell,
        "cargo bench --quiet --profile dev {EVERYTHING...} {named...} -- {once}"
    );
    Ok(bench.run()?)
}

fn examples(shell: &Shell) -> Result<()> {
    let out = shell.create_temp_dir()?;
    let data = out.path().join("csv");
    let out = out.path();
    let tree = "crates/topology/tests/fixtures/server-2s-4cxl";
    let examples = [
        ("hash_probe", vec!["64".into(), "1".into()]),
        ("tree", vec![tree.into()]),
        (
            "ssb_csv",
            vec!["--sf".into(), "0.01".into(), "--out".into(), data],
        ),
        ("sample_report", vec![out.into()]),
        ("ten_lines", vec![]),
        ("planning", vec!["ssb".into(), "1".into()]),
    ];
    let named = examples.iter().flat_map(|(name, _)| ["--example", name]);
    cmd!(shell, "cargo build --quiet {EVERYTHING...} {named...}").run()?;
    let built = shell.current_dir().join("target/debug/examples");
    for (name, arguments) in &examples {
        let program = built.join(name);
        cmd!(shell, "{program} {arguments...}")
            .ignore_stdout()
            .run()?;
    }
    Ok(())
}
