//! Watches a running guest: how far it has come, and whether a time limit is exceeded.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::boot::{Boot, OwnTime, Patience};
use super::judge::Ended;
use crate::LabError;
use crate::transcript;

/// Checks read files, so they must not follow every console line.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Enough for all frames before the first command.
const HEAD_BYTES: usize = 4096;
/// Time for QEMU to exit after the guest has sent its last frame.
const END_OF_QEMU: Duration = Duration::from_secs(30);

/// Counts the guests of a group that have begun their first command.
#[derive(Debug)]
pub(super) struct Begun {
    of: usize,
    count: AtomicUsize,
}

impl Begun {
    pub(super) fn of(guests: usize) -> Begun {
        Begun {
            of: guests,
            count: AtomicUsize::new(0),
        }
    }

    fn all(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.of
    }
}

/// The file that the guest's frames are written to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Results<'a> {
    path: &'a Path,
    tag: &'a str,
}

/// How far a guest has come, from its first frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Milestone {
    Started,
    /// Its init script runs.
    Init,
    /// The set-up has ended: the first command may begin, or a step failed.
    SetUp {
        begun: bool,
    },
}

impl<'a> Results<'a> {
    pub(super) fn new(path: &'a Path, tag: &'a str) -> Results<'a> {
        Results { path, tag }
    }

    fn milestone(&self) -> Result<Milestone, LabError> {
        let head = transcript::parse(&self.read_from(|_| 0)?, self.tag, 0);
        Ok(match (head.booted, &head.setup) {
            (false, _) => Milestone::Started,
            (true, None) => Milestone::Init,
            (true, Some(_)) => Milestone::SetUp {
                begun: head.begun(),
            },
        })
    }

    /// Whether the final `done` frame has arrived.
    ///
    /// Reads only the end of the file, since outputs may be large.
    fn done(&self) -> Result<bool, LabError> {
        let end = format!("\n{} done 0 0 0\n\n", self.tag);
        let tail = self.read_from(|len| len.saturating_sub(end.len() as u64))?;
        Ok(tail == end.as_bytes())
    }

    /// Reads at most [`HEAD_BYTES`] bytes.
    fn read_from(&self, start: impl Fn(u64) -> u64) -> Result<Vec<u8>, LabError> {
        let failed = || LabError::io("read", self.path);
        let file = File::open(self.path).map_err(failed())?;
        let start = start(file.metadata().map_err(failed())?.len());
        let mut bytes = vec![0; HEAD_BYTES];
        let count = file.read_at(&mut bytes, start).map_err(failed())?;
        bytes.truncate(count);
        Ok(bytes)
    }
}

/// The limits and inputs for watching one guest.
pub(super) struct Watch<'a> {
    pub(super) stop: &'a dyn Fn() -> bool,
    /// Limit for the commands, in the guest's own time.
    pub(super) timeout: Duration,
    /// Limits for the boot.
    pub(super) patience: Patience,
    pub(super) results: Results<'a>,
    pub(super) begun: &'a Begun,
}

impl Watch<'_> {
    /// Starts the clock of a QEMU that has just been started.
    pub(super) fn begin(&self, pid: u32) -> Course<'_> {
        Course {
            watch: self,
            clock: OwnTime::of(pid),
            boot: Boot::new(self.patience),
            reached: Milestone::Started,
            looked: None,
            commands_since: None,
            done_since: None,
        }
    }
}

/// The state of one watched guest.
pub(super) struct Course<'a> {
    watch: &'a Watch<'a>,
    clock: OwnTime,
    boot: Boot,
    reached: Milestone,
    looked: Option<Instant>,
    /// The guest's own time when its commands' limit began, and when its last frame was seen.
    commands_since: Option<Duration>,
    done_since: Option<Duration>,
}

impl Course<'_> {
    /// Records a console line.
    pub(super) fn line(&mut self, line: &str) {
        self.boot.line(line);
    }

    /// Checks the guest; `Some` if there is a reason to kill it.
    pub(super) fn look(&mut self) -> Result<Option<Ended>, LabError> {
        if (self.watch.stop)() {
            return Ok(Some(Ended::GivenUp));
        }
        let now = Instant::now();
        if self.looked.is_some_and(|last| now - last < LOOK_EVERY) {
            return Ok(None);
        }
        self.looked = Some(now);
        let own = self.clock.now();
        match self.reached {
            Milestone::SetUp { .. } => self.commands(own),
            _ => self.booting(own),
        }
    }

    fn booting(&mut self, own: Duration) -> Result<Option<Ended>, LabError> {
        let reached = self.watch.results.milestone()?;
        if reached > self.reached {
            self.reached = reached;
            self.boot.step();
        }
        if let Milestone::SetUp { begun } = reached {
            self.watch
                .begun
                .count
                .fetch_add(usize::from(begun), Ordering::Relaxed);
            return Ok(None);
        }
        Ok(self.boot.advance(own).map(Ended::Stalled))
    }

    fn commands(&mut self, own: Duration) -> Result<Option<Ended>, LabError> {
        if self.watch.results.done()? {
            let since = *self.done_since.get_or_insert(own);
            return Ok((own - since > END_OF_QEMU).then_some(Ended::Finished));
        }
        // The limit of a group starts with its last guest, or a slow boot of one guest would use up
        // the time of the others. A guest whose set-up failed gets no such extension.
        if !self.watch.begun.all() && self.reached == (Milestone::SetUp { begun: true }) {
            return Ok(None);
        }
        let since = *self.commands_since.get_or_insert(own);
        Ok((own - since > self.watch.timeout).then_some(Ended::TimedOut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(stream: &str) -> (Milestone, bool) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results");
        std::fs::write(&path, stream).unwrap();
        let results = Results::new(&path, "T");
        (results.milestone().unwrap(), results.done().unwrap())
    }

    #[test]
    fn a_look_at_the_results_shows_how_far_the_guest_came() {
        let long = "x".repeat(3 * HEAD_BYTES);
        let output = format!("T stdout 0 0 {}\n{long}\n", long.len());
        let boot = "T boot 0 0 0\n\n";
        let set_up = format!("{boot}T setup 0 0 0\n\n");
        let begun = Milestone::SetUp { begun: true };
        for (stream, milestone, done) in [
            (String::new(), Milestone::Started, false),
            ("T boot 0".into(), Milestone::Started, false),
            (boot.into(), Milestone::Init, false),
            (format!("{boot}T setup 0 0 0\n"), Milestone::Init, false),
            (set_up.clone(), begun, false),
            (format!("{set_up}{output}"), begun, false),
            (format!("{set_up}{output}T done 0 0 0\n\n"), begun, true),
            (format!("{set_up}{output}T done 0 0 0\n"), begun, false),
            (
                format!("{boot}T setup 0 1 4\nstep\n"),
                Milestone::SetUp { begun: false },
                false,
            ),
        ] {
            assert_eq!(reached(&stream), (milestone, done), "{stream:.60}");
        }
    }
}
