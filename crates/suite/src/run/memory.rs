//! Memory use of this process, as the kernel reports it.

use tierloom_record::MemoryUse;

/// The process's memory just after loading.
pub fn after_loading() -> MemoryUse {
    // File pages are left out: they are the binary and mapped inputs, not table data.
    let own = resident("RssAnon")
        .zip(resident("RssShmem"))
        .map(|(anonymous, shared)| anonymous + shared);
    MemoryUse {
        loaded_bytes: own,
        loading_peak_bytes: resident("VmHWM"),
        peak_resident_bytes: None,
    }
}

/// A size from /proc/self/status, in bytes; `None` where the kernel does not report it.
pub fn resident(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with(key))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}
