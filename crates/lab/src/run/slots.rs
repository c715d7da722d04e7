//! As many guests at once as the machine has cores, whichever processes they belong to.

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::{Kit, LabError};

/// How often a waiting process looks again.
const AGAIN: Duration = Duration::from_millis(100);

/// The right to emulate with some cores. It ends with this value, and with the process that has it.
#[derive(Debug)]
pub(super) struct Slots {
    _locked: Vec<File>,
}

impl Slots {
    /// Waits for `wanted` cores, at most all there are; `None` when `stop` says that nobody wants
    /// them any more.
    pub(super) fn take(
        kit: &Kit,
        wanted: usize,
        stop: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<Slots>, LabError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        take_in(&kit.shared_dir().join("guests"), cores, wanted, stop, say)
    }
}

/// One lock file for each core, and one for the turn: who waits for several holds the turn, so that
/// nobody waits with a part of them.
fn take_in(
    dir: &Path,
    cores: usize,
    wanted: usize,
    stop: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Slots>, LabError> {
    let wanted = wanted.min(cores);
    let Some(turn) = open(dir, "turn")? else {
        return Ok(Some(Slots {
            _locked: Vec::new(),
        }));
    };
    let mut told = false;
    let mut wait = || {
        if !told {
            say(&format!(
                "lab: waiting for {wanted} of {cores} cores: guests are running"
            ));
            told = true;
        }
        thread::sleep(AGAIN);
    };
    while !lock(&turn, dir)? {
        if stop() {
            return Ok(None);
        }
        wait();
    }
    let mut locked = Vec::with_capacity(wanted);
    let mut core = 0;
    while locked.len() < wanted {
        if stop() {
            return Ok(None);
        }
        // The files were made by whoever made the first one.
        let Some(file) = open(dir, &core.to_string())? else {
            break;
        };
        if lock(&file, dir)? {
            locked.push(file);
        }
        core += 1;
        if core == cores {
            core = 0;
            if locked.len() < wanted {
                wait();
            }
        }
    }
    Ok(Some(Slots { _locked: locked }))
}

/// Whether the lock was free. A file system without locks lets everybody in.
fn lock(file: &File, dir: &Path) -> Result<bool, LabError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
            Ok(true)
        }
        Err(TryLockError::Error(error)) => Err(LabError::io("lock a file in", dir)(error)),
    }
}

/// `None` in a cache that this user may not write to: then nobody counts.
fn open(dir: &Path, name: &str) -> Result<Option<File>, LabError> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let path = dir.join(name);
    let opened = fs::create_dir_all(dir)
        .and_then(|()| File::options().create(true).append(true).open(&path));
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) => Ok(None),
        Err(error) => Err(LabError::io("open the lock", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn take(dir: &Path, wanted: usize) -> Option<Slots> {
        take_in(dir, 3, wanted, &|| false, &mut |_| ()).unwrap()
    }

    #[test]
    fn no_more_cores_are_in_use_than_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let (used, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for worker in 0..12 {
                let (dir, used, most) = (dir.path(), &used, &most);
                scope.spawn(move || {
                    // A group that wants more than there are gets all.
                    let wanted = [1, 2, 3, 5][worker % 4];
                    let cores = wanted.min(3);
                    let _slots = take(dir, wanted).unwrap();
                    let now = used.fetch_add(cores, Ordering::SeqCst) + cores;
                    most.fetch_max(now, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(5));
                    used.fetch_sub(cores, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 3);
    }

    #[test]
    fn who_waits_is_told_so_and_can_stop() {
        let dir = tempfile::tempdir().unwrap();
        let held = take(dir.path(), 3).unwrap();
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::SeqCst) == 5;
        let mut told = Vec::new();
        let mut say = |line: &str| told.push(line.to_owned());
        let none = take_in(dir.path(), 3, 1, &stop, &mut say).unwrap();
        assert!(none.is_none());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("1 of 3 cores"), "{told:?}");
        drop(held);
        assert!(take(dir.path(), 3).is_some());
    }
}
