//! Limits the number of emulating threads to the number of cores, over all processes that share a
//! cache.
//!
//! Each core in use is a file lock in the cache's folder, so a process that dies frees its own.

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::{Kit, LabError};

/// Interval at which a waiting process retries.
const AGAIN: Duration = Duration::from_millis(100);

/// The right to emulate on a number of cores.
///
/// It ends when this value is dropped, or with the process.
#[derive(Debug)]
pub(super) struct Slots {
    _locked: Vec<File>,
}

impl Slots {
    /// Waits for `wanted` cores, capped at the number of cores; `None` if `stop` returned true
    /// while waiting.
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

/// Takes one lock file per core, and before them a lock on `turn`.
///
/// Only the holder of the turn collects locks. Otherwise two groups that each hold a part of the
/// cores could wait for each other for ever.
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
    let mut announced = false;
    let mut wait = || {
        if !announced {
            say(&format!(
                "lab: waiting for {wanted} of {cores} cores: guests are running"
            ));
            announced = true;
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
        // The same user created all of these files, so this fails only if `turn` would have failed
        // too.
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

/// Whether the lock was free. On a file system without locks every process passes.
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

/// Opens a lock file; `None` if this user may not write to the cache, in which case guests are not
/// counted.
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
                    // A group that needs more cores than there are takes all of them.
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
        let mut announced = Vec::new();
        let mut say = |line: &str| announced.push(line.to_owned());
        let none = take_in(dir.path(), 3, 1, &stop, &mut say).unwrap();
        assert!(none.is_none());
        assert_eq!(announced.len(), 1, "{announced:?}");
        assert!(announced[0].contains("1 of 3 cores"), "{announced:?}");
        drop(held);
        assert!(take(dir.path(), 3).is_some());
    }
}
