//! How much memory this process has.

use tierloom_record::MemoryUse;

/// What the kernel counts for this process now, just after the data was loaded.
pub fn after_loading() -> MemoryUse {
    let own = resident("RssAnon")
        .zip(resident("RssShmem"))
        .map(|(anonymous, shared)| anonymous + shared);
    MemoryUse {
        loaded_bytes: own,
        loading_peak_bytes: resident("VmHWM"),
        peak_resident_bytes: None,
    }
}

/// A size from /proc/self/status, in bytes; `None` where the kernel does not tell it.
pub fn resident(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with(key))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}
