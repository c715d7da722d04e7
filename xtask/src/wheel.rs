//! The packages of Python: builds their wheels, installs them and runs their tests.

use crate::everything::{build_tests, libraries};
use crate::python::environment;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// The Python environment of the tests, and the packages in it.
const VENV: &str = "target/python-venv";
const PACKAGES: [&str; 10] = [
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

/// A package of Python: the crate that it is made from and the names in its wheel.
pub struct Package {
    /// The folder of its crate.
    crate_folder: &'static str,
    /// Its name when it is imported.
    name: &'static str,
    /// The library that the linker makes of its crate.
    library: &'static str,
    /// Where the wheel is packed for tests.
    out: &'static str,
}

/// The SQL engine and the model.
pub const ENGINE: Package = Package {
    crate_folder: "crates/python",
    name: "tierloom",
    library: "libtierloom_python.so",
    out: "target/python-wheel",
};

/// The model alone.
pub const MODEL: Package = Package {
    crate_folder: "crates/python-model",
    name: "tierloom_model",
    library: "libtierloom_python_model.so",
    out: "target/python-model-wheel",
};

/// The crate of the model's package.
pub const MODEL_CRATE: &str = "tierloom-python-model";

/// An environment with nothing but the wheel of the model.
const EMPTY: &str = "target/python-model-venv";

/// A crate of the SQL engine, as its name is in symbols.
const DATAFUSION: &[u8] = b"datafusion_expr";

/// Installs what the packages are built and tested with, if it is not there; the interpreter.
pub fn install(shell: &Shell) -> Result<PathBuf> {
    environment(shell, VENV, &PACKAGES)
}

/// Builds both wheels and tests them.
pub fn python(shell: &Shell) -> Result<()> {
    let python = install(shell)?;
    engine(shell, &python)?;
    model(shell, &python)
}

/// The package with the SQL engine, beside the libraries that it works with.
fn engine(shell: &Shell, python: &Path) -> Result<()> {
    // Also builds the program, which the tests compare with.
    build_tests(shell, &["library", "predict_cli"])?;
    // maturin would build with other features, and DataFusion once more.
    let wheel = ENGINE.pack(shell, python, &libraries(shell)?)?;
    cmd!(
        shell,
        "{python} -m pip install --quiet --force-reinstall --no-deps {wheel}"
    )
    .run()?;
    let root = shell.current_dir();
    let tests = root.join(ENGINE.crate_folder);
    ENGINE.check_types(shell, python)?;
    let _away = shell.push_dir(root.join(ENGINE.out));
    let config = tests.join("pyproject.toml");
    Ok(cmd!(
        shell,
        "{python} -m pytest --rootdir {tests} -c {config} {tests}/tests"
    )
    .env("TIERLOOM", root.join("target/debug/tierloom"))
    .env("TIERLOOM_MODEL", "tierloom.model")
    .env("PYTHONDONTWRITEBYTECODE", "1")
    .run()?)
}

/// The package of the model, where nothing else is installed.
fn model(shell: &Shell, python: &Path) -> Result<()> {
    // Alone, so that no other crate switches the engine on. Step `lean` has built it.
    cmd!(
        shell,
        "cargo build --locked --quiet --package {MODEL_CRATE}"
    )
    .run()?;
    let root = shell.current_dir();
    let built = root.join("target/debug");
    let library = shell.read_binary_file(built.join(MODEL.library))?;
    ensure!(
        !library.windows(DATAFUSION.len()).any(|w| w == DATAFUSION),
        "{} has the SQL engine in it: it was built with other crates; \
         cargo clean --package tierloom-python-model",
        MODEL.library
    );
    let wheel = MODEL.pack(shell, python, &built)?;
    MODEL.check_types(shell, python)?;
    let empty = root.join(EMPTY);
    shell.remove_path(&empty)?;
    cmd!(shell, "{python} -m venv --without-pip {empty}").run()?;
    let empty = empty.join("bin/python");
    cmd!(
        shell,
        "{python} -m pip --python {empty} install --quiet --no-index {wheel}"
    )
    .run()?;
    let _away = shell.push_dir(root.join(MODEL.out));
    for (folder, file) in [(&ENGINE, "test_model.py"), (&MODEL, "test_package.py")] {
        let tests = root.join(folder.crate_folder).join("tests");
        cmd!(shell, "{empty} -m unittest discover -s {tests} -p {file}")
            .env("TIERLOOM", root.join("target/debug/tierloom"))
            .env("TIERLOOM_MODEL", MODEL.name)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .run()?;
    }
    Ok(())
}

impl Package {
    /// The manifest of its crate.
    pub fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.crate_folder)
    }

    /// The wheel of a library that was built before. What is not the library is maturin's work or
    /// follows its rules, so its settings are checked too.
    fn pack(&self, shell: &Shell, python: &Path, built: &Path) -> Result<PathBuf> {
        let (out, name) = (shell.current_dir().join(self.out), self.name);
        shell.remove_path(&out)?;
        let content = out.join("content");
        shell.create_dir(&content)?;
        let maturin = python.with_file_name("maturin");
        let maturin = cmd!(
            shell,
            "{maturin} pep517 write-dist-info --interpreter {python}"
        );
        maturin
            .args(["--manifest-path", &self.manifest()])
            .arg("--metadata-directory")
            .arg(&content)
            .quiet()
            .ignore_stdout()
            .ignore_stderr()
            .run()
            .with_context(|| format!("maturin does not take {}", self.crate_folder))?;
        // With what links lead to: the model's file is one of another package.
        let source = Path::new(self.crate_folder).join("python").join(name);
        cmd!(shell, "cp -rL {source} {content}").run()?;
        let library = content.join(name).join("_native.abi3.so");
        let built = built.join(self.library);
        // Names for backtraces are most of it.
        cmd!(shell, "strip --strip-debug -o {library} {built}").run()?;
        cmd!(shell, "{python} -m wheel pack --dest-dir {out} {content}")
            .ignore_stdout()
            .run()?;
        let mut found = shell.read_dir(&out)?.into_iter();
        found
            .find(|path| path.extension().is_some_and(|e| e == "whl"))
            .context("no wheel was packed")
    }

    /// Checks the code against its types, and the stubs against the library.
    fn check_types(&self, shell: &Shell, python: &Path) -> Result<()> {
        let (root, name) = (shell.current_dir(), self.name);
        let config = root.join(self.crate_folder).join("pyproject.toml");
        let content = root.join(self.out).join("content");
        // Away from the sources, so that Python finds what was packed and nothing else.
        let _away = shell.push_dir(root.join(self.out));
        cmd!(shell, "{python} -m mypy --config-file {config} -p {name}")
            .env("MYPYPATH", &content)
            .run()?;
        cmd!(shell, "{python} -m mypy.stubtest {name}._native")
            .env("MYPYPATH", &content)
            .env("PYTHONPATH", &content)
            .run()?;
        Ok(())
    }
}
