//! Free memory under the process's control group (version 2).
//!
//! A group beyond its limit is not refused memory: the kernel reclaims, then kills a process in it.
//! The ledger therefore stays below the limit.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::read::read_start;
use crate::backend::NodeCapacity;

/// Mount points of control groups version 2; the second one is where hybrid set-ups have it.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Longest path of a group; deeper ones are ignored.
const PATH_BYTES: usize = 512;
/// Bytes of `memory.stat` that are read; `inactive_file` and `active_file` are in the first part.
const STAT_BYTES: usize = 2048;

/// Folder of the group with the least free memory, the process's own or an ancestor; empty where
/// none has a limit. A fixed array, since it is read inside the allocator.
static NEAREST: Mutex<Folder> = Mutex::new(Folder {
    path: [0; PATH_BYTES],
    len: 0,
});

#[derive(Clone, Copy)]
struct Folder {
    path: [u8; PATH_BYTES],
    len: usize,
}

impl Folder {
    /// Reads the start of a file in the folder, without allocating.
    fn read<'a>(&self, name: &str, into: &'a mut [u8]) -> Option<&'a str> {
        // The rest of the array stays zero: the path ends with a zero byte as `open` needs it.
        let mut path = [0; PATH_BYTES + 32];
        let end = self.len + 1 + name.len();
        path.get_mut(..self.len)?
            .copy_from_slice(&self.path[..self.len]);
        *path.get_mut(self.len)? = b'/';
        path.get_mut(self.len + 1..end)?
            .copy_from_slice(name.as_bytes());
        let read = read_start(&path, into).ok()?;
        std::str::from_utf8(&into[..read]).ok()
    }

    /// Limit of the group; `None` for none (the file then holds `max`).
    fn limit_bytes(&self) -> Option<u64> {
        self.read("memory.max", &mut [0; 64])?.trim().parse().ok()
    }

    /// Bytes that the group may still take, less a safety margin.
    ///
    /// Page cache counts as free: the kernel drops it before it kills anything.
    fn free_bytes(&self) -> Option<u64> {
        let limit_bytes = self.limit_bytes()?;
        let mut text = [0; 64];
        let used_bytes: u64 = self
            .read("memory.current", &mut text)?
            .trim()
            .parse()
            .ok()?;
        let mut text = [0; STAT_BYTES];
        let stat = self.read("memory.stat", &mut text).unwrap_or("");
        let file_bytes = counted(stat, "inactive_file") + counted(stat, "active_file");
        let left = limit_bytes.saturating_sub(used_bytes);
        Some(NodeCapacity::from_meminfo(limit_bytes, left, file_bytes).free_bytes)
    }
}

/// The value of one line of `memory.stat`, 0 if it is missing.
fn counted(stat: &str, name: &str) -> u64 {
    let mut lines = stat.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

/// Finds the group with the least free memory, the process's own or an ancestor.
///
/// Every ancestor's limit applies as well, and siblings use memory of the ancestors, so the
/// tightest one is found by free bytes and not by limit. Allocates, so it runs at configuration
/// only.
pub(super) fn find() {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = membership.lines().find_map(|line| line.strip_prefix("0::"));
    let nearest = own.and_then(|own| {
        let mount = MOUNTS
            .into_iter()
            .find(|mount| Path::new(mount).join("cgroup.controllers").exists())?;
        let groups = Path::new(own.trim_start_matches('/')).ancestors();
        let folders = groups.filter_map(|group| folder(&Path::new(mount).join(group)));
        folders
            .filter_map(|folder| Some((folder.free_bytes()?, folder)))
            .min_by_key(|(free_bytes, _)| *free_bytes)
    });
    let mut kept = NEAREST.lock().unwrap_or_else(PoisonError::into_inner);
    kept.len = 0;
    if let Some((_, folder)) = nearest {
        *kept = folder;
    }
}

fn folder(path: &Path) -> Option<Folder> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut path = [0; PATH_BYTES];
    path.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(Folder {
        path,
        len: bytes.len(),
    })
}

/// Bytes that the process may still take by the limit that [`find`] found; `None` for no limit.
pub(super) fn free_bytes() -> Option<u64> {
    // Copied, so that no file is read while the lock is held.
    let folder = *NEAREST.lock().unwrap_or_else(PoisonError::into_inner);
    (folder.len > 0).then(|| folder.free_bytes()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn group(limit: &str, used_bytes: u64, file_bytes: u64) -> Option<u64> {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| fs::write(place.path().join(name), text).unwrap();
        write("memory.max", format!("{limit}\n"));
        write("memory.current", format!("{used_bytes}\n"));
        let stat = format!("anon 5\nfile 7\ninactive_file {file_bytes}\nactive_file 0\n");
        write("memory.stat", stat);
        folder(place.path()).unwrap().free_bytes()
    }

    #[test]
    fn a_group_has_what_its_limit_leaves_with_file_pages_less_a_margin() {
        let limit = (100 * MIB).to_string();
        assert_eq!(group(&limit, 40 * MIB, 0), Some(44 * MIB));
        // Half of the file pages, as long as that is less than the margin, may be in use.
        assert_eq!(group(&limit, 40 * MIB, 20 * MIB), Some(54 * MIB));
        assert_eq!(group(&limit, 99 * MIB, 0), Some(0));
        assert_eq!(group("max", 40 * MIB, 0), None);
    }

    #[test]
    fn a_folder_without_a_limit_or_with_too_long_a_name_is_no_group() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(folder(place.path()).unwrap().free_bytes(), None);
        assert!(folder(&place.path().join("x".repeat(PATH_BYTES))).is_none());
    }
}
