//! Folders in memory of chosen nodes, and where the pages of files are.
//!
//! A [`MemoryFolder`] is a tmpfs whose pages the kernel takes from nodes that are given, for
//! programs that exchange data through files. [`FileSystemOf`] says what kind of file system a
//! folder is on, whoever mounted it; [`FilePages`] asks the kernel where a file's pages are.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tierloom_topology::{IdSet, NodeId, Topology};

use crate::audit::{AuditMode, Counts, chosen_pages};
use crate::backend::PageState;
use crate::placement::list;
use crate::sys::{self, Mapping, base_page_bytes};
use crate::{MemoryError, PageSize, Placement, PlacementKind};

/// A folder whose files are in memory of chosen nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFolder {
    /// `bind:2` or `interleave:0,2`, as the kernel writes it.
    policy: String,
    size_bytes: u64,
}

impl MemoryFolder {
    /// A folder on the nodes of `placement`, with space for `size_bytes`; half of these nodes'
    /// memory if `None`.
    ///
    /// # Errors
    /// [`MemoryError::Folder`] for a placement that a tmpfs cannot have (weights that differ,
    /// contiguous parts, none at all), and for more space than the nodes have memory.
    pub fn new(
        placement: &Placement,
        size_bytes: Option<u64>,
        topology: &Topology,
    ) -> Result<Self, MemoryError> {
        let refused = |reason: String| MemoryError::Folder {
            what: format!("a folder on {placement}"),
            reason,
        };
        let nodes = placement.nodes();
        let mode = match placement.kind() {
            PlacementKind::Bind(_) => "bind",
            PlacementKind::Weighted(weights) if weights.iter().all(|w| w.1 == weights[0].1) => {
                "interleave"
            }
            _ => {
                let expected = "a tmpfs takes its pages from one node, or from several alike: \
                                expected a node, a tier, or equal weights";
                return Err(refused(expected.into()));
            }
        };
        let memory = nodes.iter().filter_map(|id| topology.node(*id));
        let memory: u64 = memory.map(|node| node.mem_total_bytes).sum();
        let size_bytes = size_bytes.unwrap_or(memory / 2);
        if size_bytes == 0 || size_bytes > memory {
            return Err(refused(format!(
                "{} MiB of space are asked for, and these nodes have {} MiB of memory",
                size_bytes >> 20,
                memory >> 20
            )));
        }
        Ok(MemoryFolder {
            policy: format!("{mode}:{}", list(&nodes)),
            size_bytes,
        })
    }

    /// Makes `folder`, which is there and empty, such a folder for the calling thread and those
    /// that it starts from now on, until what is returned is dropped by one of them. Nobody else
    /// sees it, and it ends with them at the latest.
    ///
    /// # Errors
    /// [`MemoryError::Folder`] that says how else it can be had: without the permission to mount,
    /// and on a kernel without memory policies.
    pub fn mount(&self, folder: &Path) -> Result<Mounted, MemoryError> {
        let options = format!("mpol={},size={},mode=0700", self.policy, self.size_bytes);
        let mounted = sys::mount::own_mounts().and_then(|()| sys::mount::tmpfs(folder, &options));
        let made = mounted.map(|()| Mounted {
            folder: folder.to_owned(),
        });
        made.map_err(|errno| {
            let why = match errno {
                libc::EPERM => "this needs the right to mount (root, or CAP_SYS_ADMIN)",
                libc::EINVAL => "this kernel does not take the policy; it may have no NUMA support",
                _ => "the kernel refuses it",
            };
            MemoryError::Folder {
                what: format!("a tmpfs with {} at {}", self.policy, folder.display()),
                reason: format!(
                    "{} ({why}); or mount one yourself: `mount -t tmpfs -o {options} tmpfs DIR`",
                    std::io::Error::from_raw_os_error(errno)
                ),
            }
        })
    }
}

/// A folder that a [`MemoryFolder`] was mounted on.
#[derive(Debug)]
pub struct Mounted {
    folder: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It ends with the process if another thread drops it, or files are open.
        let _ = sys::mount::unmount(&self.folder);
    }
}

/// The file system of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystemOf {
    /// Its type, as `mount` has it: "tmpfs", "ext4".
    pub kind: String,
    /// The memory policy of a tmpfs, if it has one: `bind:2`.
    pub policy: Option<String>,
}

impl FileSystemOf {
    /// The file system that `folder` is on, as this thread sees it.
    ///
    /// # Errors
    /// [`MemoryError::File`] if the folder is not there, or mounts cannot be read.
    pub fn folder(folder: &Path) -> Result<Self, MemoryError> {
        const MOUNTS: &str = "/proc/thread-self/mountinfo";
        let failed = |action, path: &Path, source| MemoryError::File {
            action,
            path: path.to_owned(),
            source,
            next_step: "name a folder that this user can read".into(),
        };
        let found = std::fs::metadata(folder).map_err(|e| failed("look at", folder, e))?;
        let mounts = std::fs::read_to_string(MOUNTS);
        let mounts = mounts.map_err(|e| failed("read", Path::new(MOUNTS), e))?;
        let device = found.dev();
        let device = (libc::major(device), libc::minor(device));
        Ok(
            Self::in_mounts(&mounts, device).unwrap_or_else(|| FileSystemOf {
                // Subvolumes have device numbers that no mount has.
                kind: "unknown".into(),
                policy: None,
            }),
        )
    }

    /// The file system of this device in the text of `proc_pid_mountinfo(5)`.
    fn in_mounts(mounts: &str, (major, minor): (u32, u32)) -> Option<Self> {
        let device = format!("{major}:{minor}");
        // The newest mount of a device is the last one.
        let line = mounts
            .lines()
            .rfind(|line| line.split(' ').nth(2) == Some(device.as_str()))?;
        let (_, about) = line.split_once(" - ")?;
        let mut words = about.split(' ');
        let (kind, _source, options) = (words.next()?, words.next(), words.next().unwrap_or(""));
        Some(FileSystemOf {
            kind: kind.into(),
            policy: options.split_once("mpol=").map(|(_, rest)| policy_in(rest)),
        })
    }

    /// The nodes that the policy allows; `None` if it leaves the choice to the kernel.
    pub fn nodes(&self) -> Option<Vec<NodeId>> {
        let (mode, nodes) = self.policy.as_ref()?.split_once(':')?;
        // `prefer` may take others.
        if !(mode.starts_with("bind") || mode.starts_with("interleave")) {
            return None;
        }
        let nodes: IdSet = nodes.parse().ok()?;
        Some(nodes.nodes().collect())
    }

    /// Whether files are in memory, and have no other copy.
    pub fn is_memory(&self) -> bool {
        matches!(self.kind.as_str(), "tmpfs" | "ramfs")
    }
}

impl fmt::Display for FileSystemOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.policy {
            Some(policy) => write!(f, "{} ({policy})", self.kind),
            None => f.write_str(&self.kind),
        }
    }
}

/// The policy at the beginning of `text`, which goes on with other options. A list of nodes has
/// commas of its own.
fn policy_in(text: &str) -> String {
    let nodes = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let more = parts.take_while(nodes);
    std::iter::once(first)
        .chain(more)
        .collect::<Vec<_>>()
        .join(",")
}

/// Where the pages of a file in memory are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePages {
    /// Size of the file.
    pub size_bytes: u64,
    /// Pages that the kernel was asked about.
    pub pages_checked: u64,
    /// Of these, those on each node.
    pub on_nodes: Vec<(NodeId, u64)>,
    /// Of these, those of which the kernel told no node.
    pub unknown_pages: u64,
}

impl FilePages {
    /// Asks about pages of `file`, which is open for reading and writing and which nobody makes
    /// shorter meanwhile.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`], as on kernels before Linux 5.14.
    pub fn of(file: File, mode: AuditMode) -> Result<Self, MemoryError> {
        let failed = |call, errno| MemoryError::syscall(call, "a file", errno);
        let size = file.metadata();
        let size = size.map_err(|e| failed("fstat", e.raw_os_error().unwrap_or(libc::EIO)))?;
        let size_bytes = size.len();
        if size_bytes == 0 {
            return Ok(FilePages::default());
        }
        let page = base_page_bytes();
        let pages = size_bytes.div_ceil(page as u64);
        let mapping = usize::try_from(pages)
            .ok()
            .and_then(|n| n.checked_mul(page));
        let mapping = mapping
            .ok_or(libc::EFBIG)
            .and_then(|bytes| Mapping::shared_file_at(file, 0, bytes, PageSize::Base));
        let mapping = mapping.map_err(|errno| failed("mmap", errno))?;
        let chosen: Vec<usize> = chosen_pages(mode, pages)
            .map(|n| n as usize * page)
            .collect();
        if mode == AuditMode::Full {
            mapping.populate_for_reading(0, mapping.size_bytes())
        } else {
            let each = |&offset: &usize| mapping.populate_for_reading(offset, page);
            chosen.iter().try_for_each(each)
        }
        .map_err(|errno| failed("madvise(MADV_POPULATE_READ)", errno))?;
        let status = sys::pages::query(&mapping, &chosen);
        let status = status.map_err(|errno| failed("move_pages", errno))?;
        let mut counts = Counts::default();
        for state in status {
            counts.add(PageState::from_status(state), None);
        }
        counts.per_node.sort();
        Ok(FilePages {
            size_bytes,
            pages_checked: chosen.len() as u64,
            on_nodes: counts.per_node,
            unknown_pages: counts.absent + counts.unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FakeNode, fake_topology};
    use std::io::Write;

    fn machine() -> Topology {
        let node = |node, cpus| FakeNode {
            node,
            cpus,
            memory_bytes: 1 << 30,
        };
        fake_topology(&[node(0, 2), node(1, 0), node(2, 0)]).unwrap()
    }

    fn folder(placement: &str, size_bytes: Option<u64>) -> Result<MemoryFolder, MemoryError> {
        let machine = machine();
        let spec: crate::PlacementSpec = placement.parse().unwrap();
        MemoryFolder::new(&spec.resolve(&machine).unwrap(), size_bytes, &machine)
    }

    #[test]
    fn one_node_or_several_alike_can_hold_a_folder_and_other_placements_are_refused() {
        let one = folder("2", None).unwrap();
        assert_eq!((one.policy.as_str(), one.size_bytes), ("bind:2", 1 << 29));
        let two = folder("0:1,2:1", Some(1 << 30)).unwrap();
        assert_eq!(
            (two.policy.as_str(), two.size_bytes),
            ("interleave:0,2", 1 << 30)
        );
        for (placement, size, why) in [
            ("0:2,1:1", None, "equal weights"),
            ("0=50%,1=50%", None, "equal weights"),
            ("default", None, "equal weights"),
            ("1", Some((1 << 30) + 1), "1024 MiB"),
            ("1", Some(0), "0 MiB"),
        ] {
            let refused = folder(placement, size).unwrap_err().to_string();
            assert!(refused.contains(why), "{placement}: {refused}");
        }
    }

    #[test]
    fn a_mount_is_found_by_its_device_with_its_policy() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw,errors=remount-ro\n\
            30 22 0:25 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw,size=8192k\n\
            41 22 0:41 / /mnt/a\\040b rw - tmpfs tmpfs rw,size=64k,mpol=bind:1\n\
            42 22 0:42 / /mnt/c rw - tmpfs tmpfs rw,mpol=interleave:0,2-3,inode64\n\
            43 22 0:43 / /mnt/d rw - tmpfs tmpfs rw,mpol=prefer:1,noswap\n\
            44 22 0:44 / /mnt/e rw - tmpfs tmpfs rw,mpol=local,noswap\n";
        let found = |device| FileSystemOf::in_mounts(mounts, device).unwrap();
        assert_eq!(found((8, 1)).to_string(), "ext4");
        assert_eq!(found((0, 25)).to_string(), "tmpfs");
        assert_eq!(found((0, 25)).nodes(), None);
        assert_eq!(found((0, 41)).to_string(), "tmpfs (bind:1)");
        assert_eq!(found((0, 41)).nodes(), Some(vec![NodeId(1)]));
        let several = found((0, 42));
        assert_eq!(several.policy.as_deref(), Some("interleave:0,2-3"));
        assert_eq!(several.nodes(), Some([0, 2, 3].map(NodeId).to_vec()));
        // Preferred nodes are no promise.
        assert_eq!(found((0, 43)).policy.as_deref(), Some("prefer:1"));
        assert_eq!(found((0, 43)).nodes(), None);
        assert_eq!(found((0, 44)).policy.as_deref(), Some("local"));
        assert_eq!(FileSystemOf::in_mounts(mounts, (9, 9)), None);
    }

    #[test]
    fn every_page_of_a_file_is_on_a_node_whole_or_sampled() {
        // Memory, on all machines that Linux runs on.
        let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.write_all(&vec![3; 100 * 4096 + 1]).unwrap();
        let of = |mode| FilePages::of(file.try_clone().unwrap(), mode).unwrap();
        let pages = of(AuditMode::Full);
        assert_eq!((pages.size_bytes, pages.pages_checked), (409_601, 101));
        let found: u64 = pages.on_nodes.iter().map(|(_, pages)| pages).sum();
        assert_eq!((found, pages.unknown_pages), (101, 0));
        let sample = of(AuditMode::Sampled { pages: 7 });
        let found: u64 = sample.on_nodes.iter().map(|(_, pages)| pages).sum();
        assert_eq!((sample.pages_checked, found), (7, 7));
        let empty = tempfile::tempfile().unwrap();
        let empty = FilePages::of(empty, AuditMode::Full).unwrap();
        assert_eq!(empty, FilePages::default());
    }

    #[test]
    fn a_mounted_folder_is_seen_by_the_threads_that_follow_and_by_nobody_else() {
        let place = tempfile::tempdir().unwrap();
        let (here, left) = (place.path().to_owned(), place.path().to_owned());
        let machine = machine();
        let placement = Placement::bind(NodeId(0));
        let made = MemoryFolder::new(&placement, Some(1 << 20), &machine).unwrap();
        let mounted = std::thread::spawn(move || {
            let mounted = made.mount(&here)?;
            let follower = std::thread::spawn(move || {
                std::fs::write(here.join("rows"), vec![1; 4096]).unwrap();
                // The limit holds.
                let over = std::fs::write(here.join("more"), vec![1; 2 << 20]).unwrap_err();
                assert_eq!(over.kind(), std::io::ErrorKind::StorageFull);
                let file = File::options()
                    .read(true)
                    .write(true)
                    .open(here.join("rows"));
                (
                    FileSystemOf::folder(&here),
                    FilePages::of(file.unwrap(), AuditMode::Full),
                )
            });
            let found = follower.join().unwrap();
            drop(mounted);
            assert_eq!(std::fs::read_dir(left).unwrap().count(), 0);
            Ok::<_, MemoryError>(found)
        });
        match mounted.join().unwrap() {
            Ok((file_system, pages)) => {
                let file_system = file_system.unwrap();
                assert!(file_system.is_memory(), "{file_system}");
                assert_eq!(file_system.nodes(), Some(vec![NodeId(0)]), "{file_system}");
                assert_eq!(pages.unwrap().on_nodes, [(NodeId(0), 1)]);
            }
            // Not root, or a kernel without NUMA: it says so, and what to do.
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("mount -t tmpfs -o mpol=bind:0"), "{error}");
            }
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
