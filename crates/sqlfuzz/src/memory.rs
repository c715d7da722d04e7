//! Resident memory of this process.

/// Resident memory of this process in MiB; 0 if it cannot be read.
pub fn resident_mib() -> u64 {
    status_mib("VmRSS:").unwrap_or(0)
}

/// The most resident memory since the last call, in MiB, if the kernel counts it anew.
pub fn peak_mib() -> Option<u64> {
    let peak = status_mib("VmHWM:");
    // "5" sets the high-water mark back to what is resident now, see proc_pid_clear_refs(5).
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    peak
}

/// A line of `/proc/self/status` that is in kB, in MiB.
fn status_mib(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib / 1024)
}
