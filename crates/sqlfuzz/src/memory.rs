//! Resident memory of this process, and whether it grows from case to case.

/// Number of cases whose least memory is compared.
///
/// The allocator keeps what a large statement took and gives it back some statements later, so
/// memory after one case says nothing; what is leaked is there after every one.
const WINDOW: usize = 20;

/// Number of cases after which caches and threads have their normal size.
const WARM: usize = 10;

/// Limit for the growth of the least memory, which is the sign of a leak.
pub const MOST_GROWTH_MIB: u64 = 192;

/// Growth of memory after a case that is printed at once.
const STEP_MIB: u64 = 64;

/// Resident memory after each case of a run, in MiB.
#[derive(Debug, Default)]
pub struct Growth {
    after_cases: Vec<u64>,
    most: u64,
}

impl Growth {
    /// Adds the memory after the next case; true if it is far above that after all cases before.
    pub fn add(&mut self, now_mib: u64) -> bool {
        self.after_cases.push(now_mib);
        let jumped = self.after_cases.len() > WARM && now_mib > self.most + STEP_MIB;
        self.most = self.most.max(now_mib);
        jumped
    }

    /// The most memory after a case.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The least memory after the first cases, and after the last; `None` if the run was too short.
    pub fn least(&self) -> Option<(u64, u64)> {
        let cases = self.after_cases.get(WARM..)?;
        let first = cases.get(..WINDOW)?;
        let last = cases.get(WINDOW..)?.last_chunk::<WINDOW>()?;
        Some((*first.iter().min()?, *last.iter().min()?))
    }

    /// Whether memory grew, which no run may let happen.
    pub fn is_leak(&self) -> bool {
        self.least()
            .is_some_and(|(first, last)| last > first + MOST_GROWTH_MIB)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(after_cases: impl Iterator<Item = u64>) -> Growth {
        let mut growth = Growth::default();
        after_cases.for_each(|mib| {
            growth.add(mib);
        });
        growth
    }

    #[test]
    fn memory_that_comes_back_is_no_leak_and_memory_that_stays_is_one() {
        let spikes = growth((0..100).map(|case| if case % 3 == 0 { 2_000 } else { 120 }));
        assert_eq!(spikes.least(), Some((120, 120)));
        assert!(!spikes.is_leak());
        let leak =
            growth((0..100).map(|case| 120 + 4 * case + if case % 3 == 0 { 900 } else { 0 }));
        assert!(leak.is_leak(), "{:?}", leak.least());
        let late = growth((0..100).map(|case| if case < 75 { 120 } else { 400 }));
        assert!(late.is_leak());
    }

    #[test]
    fn a_short_run_says_nothing_of_growth() {
        assert_eq!(growth(std::iter::repeat_n(120, 49)).least(), None);
        assert_eq!(
            growth(std::iter::repeat_n(120, 50)).least(),
            Some((120, 120))
        );
    }
}
