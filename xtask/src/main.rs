//! `cargo xtask`: the checks of this repository, the same on a desk and in CI.
//!
//! `test` runs everything; a name runs one step. Every step says what it does before it does it.

use anyhow::{Context, Result, bail};
use std::time::Instant;
use xshell::{Shell, cmd};

/// A step: its name, what it does, how.
type Step = (&'static str, &'static str, fn(&Shell) -> Result<()>);

const STEPS: [Step; 9] = [
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
        "cross",
        "compile the kernels for aarch64 (the first time fetches a compiler for it)",
        cross,
    ),
    (
        "fuzz",
        "a minute of random workload files through the parser",
        fuzz,
    ),
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
        ("c++", "g++"),
        ("python3", "python3"),
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

/// Exit code of the script where it can neither find nor fetch a compiler for the target.
const CANNOT_CROSS: i32 = 3;

fn cross(shell: &Shell) -> Result<()> {
    let output = cmd!(shell, "sh scripts/check-aarch64.sh")
        .ignore_status()
        .output()?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => Ok(()),
        // It has said what is missing; a machine without it can still run everything else.
        Some(CANNOT_CROSS) => Ok(()),
        _ => bail!(
            "the kernels do not compile for aarch64:\n{}",
            String::from_utf8_lossy(&output.stdout)
        ),
    }
}

/// With nightly the address sanitizer looks on; without, the fuzzer still finds panics.
fn fuzz(shell: &Shell) -> Result<()> {
    let tools = shell.current_dir().join("target/tools");
    let own = tools.join("bin/cargo-fuzz");
    let program = if cmd!(shell, "cargo fuzz --version")
        .quiet()
        .ignore_stdout()
        .ignore_stderr()
        .run()
        .is_ok()
    {
        "cargo-fuzz".into()
    } else {
        if !own.exists() {
            cmd!(
                shell,
                "cargo install --quiet --locked cargo-fuzz --root {tools}"
            )
            .run()?;
        }
        own
    };
    let corpus = "fuzz/corpus/workload_file";
    shell.create_dir(corpus)?;
    for seed in shell.read_dir("examples/bench")? {
        shell.copy_file(seed, corpus)?;
    }
    let nightly = cmd!(shell, "rustup run nightly rustc --version")
        .quiet()
        .ignore_stdout()
        .ignore_stderr()
        .run()
        .is_ok();
    let limits = ["-max_total_time=60", "-max_len=4096", "-verbosity=0"];
    let run = if nightly {
        cmd!(
            shell,
            "rustup run nightly {program} fuzz run workload_file -- {limits...}"
        )
    } else {
        cmd!(
            shell,
            "{program} fuzz run --sanitizer none workload_file -- {limits...}"
        )
        .env("RUSTC_BOOTSTRAP", "1")
    };
    Ok(run.run()?)
}

/// Small and in the dev profile: that they run, not how fast. `tierloom run ssb --baseline`, the benchmark of queries, runs in the tests of
/// the command: alone it would build DataFusion a second time, with the features of a build without tests.
fn smoke(shell: &Shell) -> Result<()> {
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
    for bench in ["solve", "search"] {
        cmd!(
            shell,
            "cargo bench --quiet --profile dev -p tierloom-model --bench {bench} -- --test"
        )
        .run()?;
    }
    cmd!(
        shell,
        "cargo bench --quiet --profile dev -p tierloom-workloads --bench generate -- --test"
    )
    .run()?;
    for bench in ["access", "latency", "codes", "hash"] {
        cmd!(
            shell,
            "cargo bench --quiet --profile dev -p tierloom-kernels --bench {bench} -- --test"
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
