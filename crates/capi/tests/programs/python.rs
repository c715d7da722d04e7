//! Python as a caller: ctypes, and pyarrow as the owner of a slice.

use super::build::{is_there, library_folder, printed, root};
use std::path::PathBuf;
use std::process::Command;
use tierloom_testing::checked_nothing;

fn script(python: &str, name: &str) {
    let folder = library_folder();
    let said = printed(
        Command::new(python)
            .arg(root().join("tests/programs/python").join(name))
            .arg(folder.path().join("libtierloom_c.so.0"))
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    );
    assert_eq!(said.trim(), "done");
}

#[test]
fn ctypes_calls_the_library() {
    if !is_there("python3") {
        return checked_nothing("there is no python3 (Debian: python3)");
    }
    script("python3", "calls.py");
}

#[test]
fn pyarrow_owns_a_slice() {
    let python = std::env::var_os("TIERLOOM_PYARROW").map_or_else(
        || root().join("../../target/pg-clients/bin/python"),
        PathBuf::from,
    );
    let there = Command::new(&python)
        .args(["-c", "import pyarrow"])
        .output();
    if !there.is_ok_and(|there| there.status.success()) {
        return checked_nothing(format!(
            "{} has no pyarrow; `cargo xtask tests` installs it",
            python.display()
        ));
    }
    script(&python.to_string_lossy(), "arrow.py");
}
