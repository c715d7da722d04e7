//! What records say of the command that made them.

use std::time::{SystemTime, UNIX_EPOCH};
use tierloom_bench::run::Session;

/// Describes this invocation for the records.
pub fn open_session() -> Session {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Session {
        id: format!("{:x}-{:x}", since.as_micros(), std::process::id()),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("TIERLOOM_COMMIT")
            .filter(|commit| !commit.is_empty())
            .map(str::to_owned),
        build: crate::output::BUILD.into(),
        command: std::env::args().collect(),
        samples: false,
    }
}
