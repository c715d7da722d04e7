//! Runs the fuzzer of workload files for a minute.

use crate::everything::without_lints;
use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// Has the compiler count the branches that an input takes and report what is compared with what,
/// by which libFuzzer finds inputs that go new ways.
const COUNTED: &str = "--cfg fuzzing -Cpasses=sancov-module \
                       -Cllvm-args=-sanitizer-coverage-level=4 \
                       -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                       -Cllvm-args=-sanitizer-coverage-pc-table \
                       -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Builds the fuzzer without `cargo fuzz`, which would itself be compiled first, and without the
/// address sanitizer, which would be more to compile: what reads workload files is safe Rust.
pub fn fuzz(shell: &Shell) -> Result<()> {
    let shell = &without_lints(shell);
    // The examples are the seeds, so that the fuzzer begins with valid files.
    let corpus = "fuzz/corpus/workload_file";
    shell.create_dir(corpus)?;
    let mut folders = vec!["examples/bench".into()];
    folders.extend(shell.read_dir("examples/papers")?);
    for folder in folders {
        for seed in shell.read_dir(folder)? {
            shell.copy_file(seed, corpus)?;
        }
    }
    let target = host(shell)?;
    // With a target named, the flags are not those of build scripts and macros.
    let build = ["--release", "--locked", "--quiet", "--target", &target];
    let out = shell.current_dir().join("fuzz/target");
    cmd!(
        shell,
        "cargo build --manifest-path fuzz/Cargo.toml {build...}"
    )
    .env("RUSTFLAGS", COUNTED)
    .env("CARGO_TARGET_DIR", &out)
    .run()?;
    let program = out.join(&target).join("release/workload_file");
    let artifacts = "-artifact_prefix=fuzz/artifacts/workload_file/";
    shell.create_dir("fuzz/artifacts/workload_file")?;
    let limits = ["-max_total_time=60", "-max_len=4096", "-verbosity=0"];
    Ok(cmd!(shell, "{program} {artifacts} {limits...} {corpus}").run()?)
}

/// The machine that the compiler compiles for.
fn host(shell: &Shell) -> Result<String> {
    let said = cmd!(shell, "rustc -vV").quiet().read()?;
    let mut lines = said.lines();
    let host = lines.find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say its host")?.to_owned())
}
