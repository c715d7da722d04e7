//! Finds the libraries that the tests' build made, and compiles C programs against them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// This crate's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with `libtierloom_c.so` and `libtierloom_c.a`: that of the test itself.
pub fn built() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_path_buf()
}

/// A folder with the shared library under the name that programs look for.
pub fn library_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let library = built().join("libtierloom_c.so");
    assert!(library.exists(), "{} was not built", library.display());
    for name in ["libtierloom_c.so", "libtierloom_c.so.0"] {
        symlink(&library, folder.path().join(name)).unwrap();
    }
    folder
}

/// Whether a program can be started.
pub fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// What a program of a test printed; it has to succeed.
pub fn printed(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

/// Compiles the source with all warnings as errors, against the shared library in `folder`.
pub fn compile(compiler: &str, source: &Path, folder: &Path, more: &[&str]) -> PathBuf {
    let name = source.file_stem().unwrap().to_string_lossy();
    let program = folder.join(format!("{name}-{compiler}{}", more.concat().len()));
    let standard = if source.extension().is_some_and(|e| e == "cpp") {
        "-std=c++17"
    } else {
        "-std=c11"
    };
    printed(
        Command::new(compiler)
            .args([standard, "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(["-pthread", "-I"])
            .arg(root().join("include"))
            .arg(source)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(folder)
            .args(more),
    );
    program
}

/// The program, which finds the shared library in `folder`.
pub fn run(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder);
    command
}

/// The text of a file.
pub fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
