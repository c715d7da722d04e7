//! Runs the fuzzer of workload files for a minute.

use crate::everything::without_lints;
use anyhow::Result;
use xshell::{Shell, cmd};

/// With a nightly compiler it runs under the address sanitizer; without one the fuzzer still finds
/// panics.
pub fn fuzz(shell: &Shell) -> Result<()> {
    let shell = &without_lints(shell);
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
