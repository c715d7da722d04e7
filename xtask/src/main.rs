//! `cargo xtask`: the checks of this repository, the same on a desk and in CI.
//!
//! `test` runs everything; a name runs one step. Every step says what it does before it does it.

use anyhow::{Context, Result, bail};
use std::time::Instant;
use xshell::{Shell, cmd};

/// A step: its name, what it does, how.
type Step = (&'static str, &'static str, fn(&Shell) -> Result<()>);

const STEPS: [Step; 7] = [
    ("needs", "look for the programs that the tests use", needs),
    ("fmt", "check the format", fmt),
    ("lint", "clippy over everything, warnings denied", lint),
    ("doc", "build the documentation, warnings denied", doc),
    (
        "tests",
        "unit, property, snapshot, integration and doc tests; the lab boots its guests here",
        tests,
    ),
    ("lean", "build without the SQL engine", lean),
    (
        "smoke",
        "run every benchmark and example once, small",
        smoke,
    ),
];

fn main() -> Result<()> {
    let shell = Shell::new()?;
    shell.change_dir(env!("CARGO_MANIFEST_DIR"));
    shell.change_dir("..");
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&str> = match asked
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => bail!(
            "usage: cargo xtask test | {}",
            STEPS.map(|s| s.0).join(" | ")
        ),
        ["test"] => STEPS.iter().map(|s| s.0).collect(),
        some => some.to_vec(),
    };
    let start = Instant::now();
    for name in names {
        let Some((_, what, step)) = STEPS.iter().find(|s| s.0 == name) else {
            bail!(
                "no step {name:?}; there are test, {}",
                STEPS.map(|s| s.0).join(", ")
            );
        };
        let step_start = Instant::now();
        eprintln!("== {name}: {what}");
        step(&shell).with_context(|| format!("step {name} failed"))?;
        eprintln!(
            "== {name}: done in {:.0} s",
            step_start.elapsed().as_secs_f64()
        );
    }
    eprintln!("== all done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Installs what is missing where that needs no question (root on Debian), or names the packages.
fn needs(shell: &Shell) -> Result<()> {
    let missing: Vec<&str> = [
        ("cc", "gcc"),
        ("chromium", "chromium"),
        ("apt-get", "apt"),
        ("dpkg", "dpkg"),
    ]
    .into_iter()
    .filter(|(program, _)| {
        cmd!(shell, "sh -c")
            .arg(format!("command -v {program}"))
            .quiet()
            .ignore_stdout()
            .ignore_stderr()
            .run()
            .is_err()
    })
    .map(|(_, package)| package)
    .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let root = cmd!(shell, "id -u")
        .quiet()
        .read()
        .is_ok_and(|id| id.trim() == "0");
    if !root {
        bail!(
            "packages are missing; install them with: sudo apt-get install {}",
            missing.join(" ")
        );
    }
    eprintln!("installing {}", missing.join(" "));
    cmd!(shell, "apt-get update -q").run()?;
    cmd!(shell, "apt-get install -y -q --no-install-recommends")
        .args(missing)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()?;
    Ok(())
}

fn fmt(shell: &Shell) -> Result<()> {
    Ok(cmd!(shell, "cargo fmt --all --check").run()?)
}

fn lint(shell: &Shell) -> Result<()> {
    Ok(cmd!(
        shell,
        "cargo clippy --workspace --all-targets --quiet -- -D warnings"
    )
    .run()?)
}

fn doc(shell: &Shell) -> Result<()> {
    Ok(cmd!(shell, "cargo doc --workspace --no-deps --quiet")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?)
}

fn tests(shell: &Shell) -> Result<()> {
    Ok(cmd!(shell, "cargo test --workspace").run()?)
}

fn lean(shell: &Shell) -> Result<()> {
    Ok(cmd!(
        shell,
        "cargo clippy --package tierloom --no-default-features --quiet -- -D warnings"
    )
    .run()?)
}

/// Small and in the dev profile: that they run, not how fast. `tierloom run ssb --baseline`, the benchmark of queries, runs in the tests of
/// the command: alone it would build DataFusion a second time, with the features of a build without tests.
fn smoke(shell: &Shell) -> Result<()> {
    let out = shell.create_temp_dir()?;
    let data = out.path().join("csv");
    let tree = "crates/topology/tests/fixtures/server-2s-4cxl";
    cmd!(
        shell,
        "cargo bench --quiet --profile dev -p tierloom-memory --bench place -- --quick"
    )
    .run()?;
    cmd!(
        shell,
        "cargo bench --quiet --profile dev -p tierloom-model --bench solve -- --test"
    )
    .run()?;
    cmd!(
        shell,
        "cargo bench --quiet --profile dev -p tierloom-workloads --bench generate -- --test"
    )
    .run()?;
    cmd!(
        shell,
        "cargo run --quiet -p tierloom-kernels --example probe_host"
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
    Ok(())
}
