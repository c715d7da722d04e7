//! Runs every benchmark and example once.

use anyhow::Result;
use xshell::{Shell, cmd};

/// Small runs in the dev profile, which show only that they work.
///
/// `tierloom run ssb --baseline`, the benchmark of queries, runs in the tests of the command line
/// program: here it would build DataFusion a second time, with the features of a build without
/// tests.
pub fn smoke(shell: &Shell) -> Result<()> {
    let out = shell.create_temp_dir()?;
    let data = out.path().join("csv");
    let tree = "crates/topology/tests/fixtures/server-2s-4cxl";
    for bench in ["place", "router"] {
        cmd!(
            shell,
            "cargo bench --quiet --profile dev -p tierloom-memory --bench {bench} -- --quick"
        )
        .run()?;
    }
    cmd!(
        shell,
        "cargo run --quiet -p tierloom-memory --example hash_probe -- 64 1"
    )
    .ignore_stdout()
    .run()?;
    cmd!(
        shell,
        "cargo bench --quiet --profile dev -p tierloom-star --bench star -- --test"
    )
    .run()?;
    for bench in ["access", "latency", "codes", "hash", "line_store"] {
        cmd!(
            shell,
            "cargo bench --quiet --profile dev -p tierloom-kernels --bench {bench} -- --test"
        )
        .run()?;
    }
    for (package, bench) in [
        ("tierloom-model", "solve"),
        ("tierloom-model", "search"),
        ("tierloom-workloads", "generate"),
        ("tierloom-operators", "operators"),
        ("tierloom-tree", "peers"),
        ("tierloom-oltp", "peers"),
    ] {
        cmd!(
            shell,
            "cargo bench --quiet --profile dev -p {package} --bench {bench} -- --test"
        )
        .run()?;
    }
    cmd!(
        shell,
        "python3 -m unittest discover -q -s scripts -p test_*.py"
    )
    .run()?;
    cmd!(
        shell,
        "cargo run --quiet -p tierloom-topology --example tree -- {tree}"
    )
    .ignore_stdout()
    .run()?;
    cmd!(
        shell,
        "cargo run --quiet -p tierloom-workloads --example ssb_csv -- --sf 0.01 --out {data}"
    )
    .run()?;
    cmd!(
        shell,
        "cargo run --quiet -p tierloom-report --example sample_report --"
    )
    .arg(out.path())
    .run()?;
    cmd!(
        shell,
        "cargo run --quiet -p tierloom-model --example ten_lines"
    )
    .ignore_stdout()
    .run()?;
    Ok(())
}
