//! The package of Python: builds its wheel, installs it and runs its tests.

use crate::everything::build_tests;
use crate::python::environment;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// The Python environment of the tests, and the packages in it.
pub const VENV: &str = "target/python-venv";
pub const PACKAGES: [&str; 10] = [
    "duckdb==2.0.0",
    "maturin==1.16.0",
    "mypy==2.4.1",
    "numpy",
    "pandas==3.1.1",
    "pandas-stubs",
    "polars==2.1.0",
    "pyarrow==26.0.1",
    "pytest==9.2.0",
    "wheel==0.48.0",
];

/// Builds the wheel and tests it.
pub fn python(shell: &Shell) -> Result<()> {
    let python = environment(shell, VENV, &PACKAGES)?;
    let wheel = wheel(shell, &python)?;
    cmd!(
        shell,
        "{python} -m pip install --quiet --force-reinstall --no-deps {wheel}"
    )
    .run()?;
    let root = shell.current_dir();
    let tests = root.join("crates/python");
    // Away from the sources, so that Python finds the installed package and nothing else.
    let _away = shell.push_dir(root.join("target/python-wheel"));
    let config = tests.join("pyproject.toml");
    let mypy = cmd!(shell, "{python} -m mypy --config-file {config} -p tierloom");
    mypy.run()?;
    let stubs = cmd!(shell, "{python} -m mypy.stubtest tierloom._native");
    stubs.run()?;
    Ok(cmd!(
        shell,
        "{python} -m pytest --rootdir {tests} -c {config} {tests}/tests"
    )
    .env("TIERLOOM", root.join("target/debug/tierloom"))
    .env("PYTHONDONTWRITEBYTECODE", "1")
    .run()?)
}

/// Packs what the tests' build has compiled: maturin would build with other features, and
/// DataFusion once more. The rest of the wheel is maturin's, so its settings are checked too.
fn wheel(shell: &Shell, python: &Path) -> Result<PathBuf> {
    // Also builds the program, which the tests compare with.
    build_tests(shell, &["library", "predict_cli"])?;
    let out = shell.current_dir().join("target/python-wheel");
    shell.remove_path(&out)?;
    let content = out.join("content");
    shell.create_dir(&content)?;
    let maturin = python.with_file_name("maturin");
    let maturin = cmd!(
        shell,
        "{maturin} pep517 write-dist-info --interpreter {python}"
    );
    maturin
        .args(["--manifest-path", "crates/python/Cargo.toml"])
        .arg("--metadata-directory")
        .arg(&content)
        .quiet()
        .ignore_stdout()
        .ignore_stderr()
        .run()
        .context("maturin does not take crates/python/pyproject.toml")?;
    cmd!(shell, "cp -r crates/python/python/tierloom {content}").run()?;
    let library = content.join("tierloom/_native.abi3.so");
    // Names for backtraces are most of it.
    cmd!(
        shell,
        "strip --strip-debug -o {library} target/debug/deps/libtierloom_python.so"
    )
    .run()?;
    cmd!(shell, "{python} -m wheel pack --dest-dir {out} {content}")
        .ignore_stdout()
        .run()?;
    let mut found = shell.read_dir(&out)?.into_iter();
    found
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .context("no wheel was packed")
}
