//! What tests leave behind for the summary at the end of a run.
//!
//! A test that cannot check what it is for on this machine calls [`checked_nothing`] and returns.
//! The test harness counts it as passed; the line that this writes to stderr and the summary that
//! `cargo xtask test` prints at the end say that it was not. Tries of a guest that the emulator
//! failed are kept by [`retried`] in the same way.
//!
//! ```text
//!  test ──checked_nothing, retried──> a line in the file that TIERLOOM_TEST_NOTES names ──Notes::read──> Notes::summary
//! ```

mod notes;

use std::fmt::Display;
use std::io::Write;

pub use notes::{Kind, Note, Notes};

/// The variable that names the file which notes are appended to. Without it they go to stderr only.
pub const NOTES: &str = "TIERLOOM_TEST_NOTES";

/// The variable that makes a test which checks nothing fail; set where everything that tests need
/// is known to be there.
pub const MUST_CHECK: &str = "TIERLOOM_TEST_MUST_CHECK";

/// Says that the running test checks nothing, and why; the test returns after it.
///
/// # Panics
/// Where [`MUST_CHECK`] is set.
pub fn checked_nothing(reason: impl Display) {
    note(Kind::CheckedNothing, &reason.to_string());
    assert!(
        std::env::var_os(MUST_CHECK).is_none(),
        "nothing was checked, and {MUST_CHECK} is set: {reason}"
    );
}

/// Says that part of the running test checks nothing, and why; the rest goes on.
///
/// # Panics
/// Where [`MUST_CHECK`] is set.
pub fn left_out(reason: impl Display) {
    note(Kind::LeftOut, &reason.to_string());
    assert!(
        std::env::var_os(MUST_CHECK).is_none(),
        "a part was left out, and {MUST_CHECK} is set: {reason}"
    );
}

/// Says that the emulator failed under the running test and that its guest is booted again.
pub fn retried(reason: impl Display) {
    note(Kind::Retried, &reason.to_string());
}

fn note(kind: Kind, reason: &str) {
    let note = Note::new(kind, &running_test(), reason);
    // Past the test harness, which keeps what a passed test prints to itself. A closed stderr is no
    // reason to fail a test.
    let _ = writeln!(std::io::stderr(), "{note}");
    if let Some(path) = std::env::var_os(NOTES)
        && let Err(error) = note.append(path.as_ref())
    {
        panic!("cannot write to {}: {error}", path.display());
    }
}

/// The program and the test in it: the harness names a test's thread after the test.
fn running_test() -> String {
    let program = std::env::current_exe().ok();
    let program = program
        .as_deref()
        .and_then(std::path::Path::file_stem)
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    // Cargo puts a dash and a hash behind the name.
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
