//! Stack space for deeply nested statements.
//!
//! Parsing, planning, evaluating and even dropping a chain of 10,000 `AND`s recurses once per
//! element. A statement gets a stack for the nesting depth of its text, and one deeper than
//! [`MOST_LEVELS`] is refused.

use std::sync::LazyLock;

/// Deepest nesting that is accepted.
pub const MOST_LEVELS: usize = 24_000;

/// Nesting depth for which every thread's own stack suffices.
const ORDINARY_LEVELS: usize = 64;

/// Stack bytes per level of parsing and planning.
///
/// Unoptimised builds touched 15 KiB per level for chains of 3,000 `UNION ALL` and of 300
/// `INTERSECT`, the most of what was tried, and 3 KiB for 1,500 to 5,000 `AND`, `OR`, `+` or `||`
/// (resident memory of the stacks, from `/proc/PID/smaps`). Optimised builds were not measured.
const LEVEL_BYTES: usize = if cfg!(debug_assertions) {
    40 << 10
} else {
    20 << 10
};

/// Stack bytes per level of running, on threads created before the statement is known.
const RUNNING_LEVEL_BYTES: usize = LEVEL_BYTES / 4;

/// Stack size of a worker thread; address space, not memory, until it is touched.
pub(crate) fn worker_bytes() -> usize {
    // With a thread for each of a hundred CPUs, most of a limited address space must remain for
    // data.
    address_space().map_or(WORKER_BYTES, |limit| {
        (limit / 1024).clamp(2 << 20, WORKER_BYTES)
    })
}

/// Stack size of a worker thread if the address space is not limited.
const WORKER_BYTES: usize = 256 << 20;

/// Calls `work` with a stack for `levels` of nesting.
pub fn with<R>(levels: usize, work: impl FnOnce() -> R) -> R {
    if levels <= ORDINARY_LEVELS {
        return work();
    }
    let bytes = levels.min(most_levels()) * LEVEL_BYTES;
    stacker::maybe_grow(bytes, bytes, work)
}

/// Deepest nesting for which a stack is available.
///
/// In a limited address space it is less than [`MOST_LEVELS`].
pub fn most_levels() -> usize {
    let planning = address_space().map_or(MOST_LEVELS, |bytes| bytes / 8 / LEVEL_BYTES);
    let running = worker_bytes() / RUNNING_LEVEL_BYTES;
    planning.min(running).clamp(ORDINARY_LEVELS, MOST_LEVELS)
}

/// The limit of the process's address space in bytes (`ulimit -v`); `None` if unlimited.
fn address_space() -> Option<usize> {
    static LIMIT: LazyLock<Option<usize>> = LazyLock::new(|| {
        let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
        let line = limits
            .lines()
            .find(|l| l.starts_with("Max address space"))?;
        line.split_whitespace().nth(3)?.parse().ok()
    });
    *LIMIT
}
