//! Room on the stack for statements that nest deeply.
//!
//! Parsing, planning, evaluating and even dropping a chain of 10,000 `AND`s calls itself once for
//! each of them. A statement gets a stack for as many levels as its text can nest, and one that
//! nests deeper than [`MOST_LEVELS`] is refused.

use std::sync::LazyLock;

/// Deepest nesting that is taken.
pub const MOST_LEVELS: usize = 20_000;

/// Levels that every thread's own stack has room for.
const ORDINARY_LEVELS: usize = 64;

/// Stack of one level: the largest sum of frames found, of unoptimised builds, and as much again.
const LEVEL_BYTES: usize = if cfg!(debug_assertions) {
    40 << 10
} else {
    20 << 10
};

/// Stack of a worker thread; address space, not memory, until it is used.
pub(crate) fn worker_bytes() -> usize {
    const WANTED: usize = 256 << 20;
    // A thread for each of a hundred CPUs must leave most of a limited address space to data.
    address_space().map_or(WANTED, |limit| (limit / 4096).clamp(2 << 20, WANTED))
}

/// Calls `work` with a stack for `levels` of nesting.
pub(crate) fn with<R>(levels: usize, work: impl FnOnce() -> R) -> R {
    if levels <= ORDINARY_LEVELS {
        return work();
    }
    let bytes = levels.min(most_levels()) * LEVEL_BYTES;
    stacker::maybe_grow(bytes, bytes, work)
}

/// Deepest nesting that a stack can be had for: less than [`MOST_LEVELS`] where the address space
/// is limited.
pub(crate) fn most_levels() -> usize {
    let limit = address_space().map_or(MOST_LEVELS, |bytes| bytes / 8 / LEVEL_BYTES);
    limit.clamp(ORDINARY_LEVELS, MOST_LEVELS)
}

/// The limit of this process's address space in bytes (`ulimit -v`), if it has one.
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
