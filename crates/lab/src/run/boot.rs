//! Time limits of a boot: one without progress and one for the whole, both in the guest's own time.
//!
//! Wall time would be wrong on a loaded host, where a healthy guest may wait for a processor most
//! of the time.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Messages with which the guest's kernel reports that one of its CPUs or tasks hangs.
const STALL_REPORTS: [&str; 4] = [
    "rcu: INFO: rcu_",
    "soft lockup - CPU#",
    "hard LOCKUP",
    "blocked for more than",
];

/// Time limits of a boot, in the guest's own time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Without a new console line and without a milestone of the boot.
    pub(super) silent: Duration,
    /// From the kernel's first report of a stall.
    pub(super) reported: Duration,
    /// For the whole boot.
    pub(super) whole: Duration,
}

/// An idle host boots a guest in 2 to 4 seconds, so these limits are generous on purpose.
impl Default for Patience {
    fn default() -> Patience {
        Patience {
            silent: Duration::from_secs(60),
            reported: Duration::from_secs(30),
            whole: Duration::from_secs(240),
        }
    }
}

/// The progress of one boot.
#[derive(Debug)]
pub(super) struct Boot {
    patience: Patience,
    now: Duration,
    last_news: Duration,
    report: Option<(Duration, String)>,
}

impl Boot {
    pub(super) fn new(patience: Patience) -> Boot {
        Boot {
            patience,
            now: Duration::ZERO,
            last_news: Duration::ZERO,
            report: None,
        }
    }

    /// Records a console line.
    ///
    /// After a report of a stall, lines do not count as progress: they are then the kernel's traces
    /// of its CPUs.
    pub(super) fn line(&mut self, line: &str) {
        if self.report.is_some() {
            return;
        }
        if STALL_REPORTS.iter().any(|report| line.contains(report)) {
            self.report = Some((self.now, line.trim().to_owned()));
        } else {
            self.step();
        }
    }

    /// Records that the boot reached a milestone.
    pub(super) fn step(&mut self) {
        self.last_news = self.now;
    }

    /// Checks the limits at `own`, the guest's own time since its start; `Some` with the reason if
    /// one is exceeded.
    pub(super) fn advance(&mut self, own: Duration) -> Option<String> {
        self.now = own;
        let s = |time: Duration| time.as_secs();
        let limits = self.patience;
        if let Some((since, report)) = &self.report
            && own.saturating_sub(*since) >= limits.reported
        {
            return Some(format!(
                "no command began within {} s of its own time after its kernel reported a stall: {report}",
                s(limits.reported)
            ));
        }
        if own.saturating_sub(self.last_news) >= limits.silent {
            return Some(format!(
                "nothing came from it for {} s of its own time",
                s(limits.silent)
            ));
        }
        (own >= limits.whole).then(|| {
            format!(
                "no command began within {} s of its own time",
                s(limits.whole)
            )
        })
    }
}

/// A clock for the time that a process could use: wall time minus the time its threads waited for a
/// processor.
///
/// A loaded host delays a guest by letting it wait; such time says nothing about the guest.
#[derive(Debug)]
pub(super) struct OwnTime {
    tasks: PathBuf,
    seen: Instant,
    waited: BTreeMap<u64, Duration>,
    own: Duration,
}

impl OwnTime {
    pub(super) fn of(pid: u32) -> OwnTime {
        OwnTime {
            tasks: format!("/proc/{pid}/task").into(),
            seen: Instant::now(),
            waited: BTreeMap::new(),
            own: Duration::ZERO,
        }
    }

    /// The time so far. Without schedstats in the kernel this is wall time.
    pub(super) fn now(&mut self) -> Duration {
        let seen = Instant::now();
        let waited = self.waits();
        self.own += own_time(seen - self.seen, &self.waited, &waited);
        (self.seen, self.waited) = (seen, waited);
        self.own
    }

    /// The time that each thread has waited on a run queue so far, from field 2 of `schedstat`.
    fn waits(&self) -> BTreeMap<u64, Duration> {
        let wait = |entry: fs::DirEntry| {
            let thread = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
            let nanoseconds = text.split_whitespace().nth(1)?.parse().ok()?;
            Some((thread, Duration::from_nanos(nanoseconds)))
        };
        let entries = fs::read_dir(&self.tasks).into_iter().flatten().flatten();
        entries.filter_map(wait).collect()
    }
}

/// `wall` minus the longest wait of any single thread in it.
///
/// The waits of several threads overlap, so their sum would be too much.
fn own_time(
    wall: Duration,
    before: &BTreeMap<u64, Duration>,
    after: &BTreeMap<u64, Duration>,
) -> Duration {
    let waits = after.iter().map(|(thread, waited)| {
        let earlier = before.get(thread).copied().unwrap_or_default();
        waited.saturating_sub(earlier)
    });
    wall.saturating_sub(waits.max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_boot_that_goes_on_is_let_go_on_until_the_whole_is_too_long() {
        let mut boot = Boot::new(Patience::default());
        for second in 1..240 {
            assert_eq!(boot.advance(seconds(second)), None, "{second}");
            if second % 50 == 0 {
                boot.line("[    3.1] something new");
            }
        }
        let why = boot.advance(seconds(240)).unwrap();
        assert!(why.contains("within 240 s"), "{why}");
    }

    #[test]
    fn a_silent_boot_is_ended_and_a_step_starts_the_silence_anew() {
        let mut boot = Boot::new(Patience::default());
        assert_eq!(boot.advance(seconds(59)), None);
        boot.step();
        assert_eq!(boot.advance(seconds(118)), None);
        let why = boot.advance(seconds(119)).unwrap();
        assert!(why.contains("nothing came"), "{why}");
    }

    #[test]
    fn a_kernel_that_tells_of_a_stall_gets_a_last_while_whatever_it_prints() {
        for report in [
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [swapper/1:0]",
        ] {
            let mut boot = Boot::new(Patience::default());
            boot.advance(seconds(20));
            boot.line(report);
            for second in 21..50 {
                assert_eq!(boot.advance(seconds(second)), None);
                boot.line("Call Trace:");
                boot.line(report);
            }
            let why = boot.advance(seconds(50)).unwrap();
            assert!(why.contains(report), "{why}");
        }
    }

    #[test]
    fn waiting_for_a_processor_is_not_the_guests_own_time() {
        let waits = |list: &[(u64, u64)]| -> BTreeMap<u64, Duration> {
            list.iter().map(|(t, s)| (*t, seconds(*s))).collect()
        };
        let own = |before: &[_], after: &[_]| own_time(seconds(10), &waits(before), &waits(after));
        assert_eq!(own(&[], &[]), seconds(10));
        assert_eq!(own(&[(1, 5), (2, 1)], &[(1, 6), (2, 9)]), seconds(2));
        // A new thread that waited all the time, a thread that ended, clocks that differ a little.
        assert_eq!(own(&[(1, 5)], &[(1, 5), (3, 10)]), seconds(0));
        assert_eq!(own(&[(1, 5)], &[]), seconds(10));
        assert_eq!(own(&[(1, 5)], &[(1, 16)]), seconds(0));
    }

    #[test]
    fn this_very_process_has_time_of_its_own() {
        let start = Instant::now();
        let mut clock = OwnTime::of(std::process::id());
        while clock.now().is_zero() {
            assert!(start.elapsed() < seconds(60), "no time in a minute");
        }
        assert!(clock.now() <= start.elapsed());
    }
}
