//! The kit for tests, of this crate and of others.

use std::io::Write;

use crate::{Kit, LabCache, LabError, prepare};

/// The kit in the usual cache, for a test that boots a guest; `None` where `TIERLOOM_LAB=skip` asks for tests without guests. Either is told on
/// stderr, past the test harness, which would keep it to itself while somebody waits for a download.
///
/// # Errors
/// Those of [`LabCache::open`] and [`prepare`].
pub fn kit_for_tests() -> Result<Option<Kit>, LabError> {
    let mut say = |line: &str| {
        // A closed stderr is no reason to fail a test.
        let _ = writeln!(std::io::stderr(), "{line}");
    };
    if std::env::var("TIERLOOM_LAB").is_ok_and(|value| value == "skip") {
        say("skipped, no guest was booted: TIERLOOM_LAB=skip");
        return Ok(None);
    }
    let cache = LabCache::open(None)?;
    prepare(&cache, &mut say).map(Some)
}
