//! Notes that tests write for the summary at the end of a test run.
//!
//! A test that cannot check its subject on this machine calls [`checked_nothing`] and returns. The
//! test harness counts it as passed, but a line on stderr and the summary that `cargo xtask test`
//! prints at the end say that it checked nothing. [`retried`] records in the same way that a guest
//! was booted again after a failure of the emulator.
//!
//! Tests that draw at random take their [`seed`] from here.
//!
//! Tests of lost connections put processes on the hosts of a [`Network`] and cut their links.
//!
//! ```text
//!  test──checked_nothing, retried──> line in $TIERLOOM_TEST_NOTES ──Notes::read──> Notes::summary
//! ```

mod killed;
mod network;
mod notes;
mod seed;

use std::fmt::Display;
use std::io::Write;

pub use killed::killed_after;
pub use network::{Network, NetworkHost};
pub use notes::{Kind, Note, Notes};
pub use seed::{number, seed};

/// Environment variable with the path of the file that notes are appended to.
///
/// Without it they only go to stderr.
pub const NOTES: &str = "TIERLOOM_TEST_NOTES";

/// Environment variable that makes a test fail if it checks nothing.
///
/// It is set where everything that tests need is known to exist.
pub const MUST_CHECK: &str = "TIERLOOM_TEST_MUST_CHECK";

/// Records that the running test checks nothing, and why. The test must return after it.
///
/// # Panics
/// If [`MUST_CHECK`] is set.
pub fn checked_nothing(reason: impl Display) {
    note(Kind::CheckedNothing, &reason.to_string());
    assert!(
        std::env::var_os(MUST_CHECK).is_none(),
        "nothing was checked, and {MUST_CHECK} is set: {reason}"
    );
}

/// Records that a part of the running test is skipped, and why.
///
/// # Panics
/// If [`MUST_CHECK`] is set.
pub fn left_out(reason: impl Display) {
    note(Kind::LeftOut, &reason.to_string());
    assert!(
        std::env::var_os(MUST_CHECK).is_none(),
        "a part was left out, and {MUST_CHECK} is set: {reason}"
    );
}

/// Records that the emulator failed during the running test and that its guest is booted again.
pub fn retried(reason: impl Display) {
    note(Kind::Retried, &reason.to_string());
}

fn note(kind: Kind, reason: &str) {
    let note = Note::new(kind, &running_test(), reason);
    // Written directly to stderr: the test harness captures what a passed test prints. A closed
    // stderr must not fail a test.
    let _ = writeln!(std::io::stderr(), "{note}");
    if let Some(path) = std::env::var_os(NOTES)
        && let Err(error) = note.append(path.as_ref())
    {
        panic!("cannot write to {}: {error}", path.display());
    }
}

/// The test program and test: the harness names a test's thread after the test.
fn running_test() -> String {
    let program = std::env::current_exe().ok();
    let program = program
        .as_deref()
        .and_then(std::path::Path::file_stem)
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    // Cargo appends a dash and a hash of 16 digits to the name.
    let name = match program.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => &program,
    };
    let thread = std::thread::current();
    format!("{name}::{}", thread.name().unwrap_or("a thread of a test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_program_and_the_test() {
        assert_eq!(
            running_test(),
            "tierloom_testing::tests::a_note_names_the_program_and_the_test"
        );
    }
}
