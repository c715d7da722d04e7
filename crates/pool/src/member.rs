//! Members: files and DAX devices that a pool consists of.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;
use tierloom_memory::DevdaxBackend;
use tierloom_memory::shared::{self, Access, SharedRange, SharedWords};

use crate::PoolError;
pub(crate) use crate::error::refused;
use crate::format::{NoSuperblock, SUPERBLOCK_MAGIC, Superblock};
use crate::huge::HugePages;
use crate::layout::{BANK_PAGE, BANKS, BANKS_START, EXTENT_BYTES, SUPERBLOCK_BYTES, SUPERBLOCKS};

/// Bytes at the start of a member that superblocks and signatures of other programs are in.
pub(crate) const HEAD_BYTES: u64 = 128 << 10;

/// File systems that other hosts can change, by their number in `linux/magic.h`.
const NETWORK: [(i64, &str); 13] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
];

/// An open file or device.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) path: PathBuf,
    file: File,
    bytes: u64,
    device: bool,
    /// Of a file on hugetlbfs.
    huge: Option<HugePages>,
    access: Access,
}

impl Member {
    /// Opens an existing member.
    pub(crate) fn open(path: &Path, access: Access) -> Result<Self, PoolError> {
        let data = std::fs::metadata(path).map_err(|source| refused("find", path, source))?;
        let kind = data.file_type();
        if !kind.is_file() && !kind.is_char_device() {
            let found = match () {
                () if kind.is_dir() => "a directory",
                () if kind.is_block_device() => "a block device",
                () => "a pipe or socket",
            };
            return Err(PoolError::NotAFile {
                path: path.to_owned(),
                found,
            });
        }
        let device = kind.is_char_device();
        // Examined before it is opened: a device in another mode has a better message.
        let device_bytes = match device {
            true => Some(DevdaxBackend::new(path, 0)?.device_size_bytes()),
            false => None,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .open(path)
            .map_err(|source| refused("open", path, source))?;
        let huge = match device {
            true => None,
            false => local(&file, path).and_then(|()| HugePages::of(&file, path))?,
        };
        let bytes = device_bytes.unwrap_or(data.len());
        Ok(Self {
            // So that the state's hint does not depend on the current directory.
            path: std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            file,
            bytes,
            device,
            huge,
            access,
        })
    }

    /// Makes a file of so many bytes, for its owner alone.
    pub(crate) fn create(path: &Path, bytes: u64) -> Result<Self, PoolError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| refused("create", path, source))?;
        let sized = local(&file, path).and_then(|()| {
            let huge = HugePages::of(&file, path)?;
            let bytes = huge.map_or(bytes, |huge| huge.whole(bytes));
            let sized = file.set_len(bytes);
            sized.map_err(|source| refused("set the length of", path, source))?;
            Ok((huge, bytes))
        });
        let (huge, bytes) = sized.inspect_err(|_| remove(path))?;
        Ok(Self {
            path: std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            file,
            bytes,
            device: false,
            huge,
            access: Access::Write,
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_device(&self) -> bool {
        self.device
    }

    /// Whether stores survive the machine only after a write-back: fsdax files and devices.
    pub(crate) fn is_dax(&self) -> bool {
        self.device || shared::is_on_dax(&self.file)
    }

    /// Makes a file longer.
    pub(crate) fn set_bytes(&mut self, bytes: u64) -> Result<(), PoolError> {
        let bytes = self.huge.map_or(bytes, |huge| huge.whole(bytes));
        if !self.device && bytes > self.bytes {
            self.file
                .set_len(bytes)
                .map_err(|source| refused("lengthen", &self.path, source))?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Makes a file shorter.
    pub(crate) fn cut(&mut self, bytes: u64) -> Result<(), PoolError> {
        if !self.device && bytes < self.bytes {
            self.file
                .set_len(bytes)
                .map_err(|source| refused("shorten", &self.path, source))?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Excludes other managers on this host, until the member is closed.
    pub(crate) fn lock(&self) -> Result<(), PoolError> {
        let bytes = usize::from(BANKS) * BANK_PAGE as usize;
        shared::lock(&self.file, BANKS_START, bytes).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => PoolError::Managed {
                path: self.path.clone(),
            },
            _ => PoolError::Io {
                action: "lock",
                path: self.path.clone(),
                source,
                next_step: "use a file system with locks (tmpfs, ext4, xfs and others have them)",
            },
        })
    }

    /// Shows other processes of this host that the process of an incarnation is alive, until the
    /// member is closed.
    pub(crate) fn lock_process(&self, incarnation: u64) -> Result<(), PoolError> {
        shared::lock(&self.file, process_lock(incarnation), 1)
            .map_err(|source| refused("lock", &self.path, source))
    }

    /// Whether the process of an incarnation is alive, on this host.
    pub(crate) fn is_process_alive(&self, incarnation: u64) -> Result<bool, PoolError> {
        shared::is_locked(&self.file, process_lock(incarnation), 1)
            .map_err(|source| refused("look for locks of", &self.path, source))
    }

    /// Gives a range its blocks, so that a full file system is an error here and no SIGBUS later.
    /// What is in the range may be lost if that fails.
    pub(crate) fn allocate(&self, offset: u64, bytes: u64) -> Result<(), PoolError> {
        if self.device {
            return Ok(());
        }
        if let Some(huge) = self.huge {
            huge.check(&self.file, &self.path, bytes)?;
        }
        let allocated = fallocate(&self.file, FallocateFlags::empty(), offset, bytes);
        match (allocated, self.huge) {
            // Where blocks cannot be allocated ahead, none are.
            (Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS), _) => Ok(()),
            (Err(Errno::NOSPC | Errno::NOMEM), Some(huge)) => {
                // hugetlbfs keeps the pages that it could give.
                self.release(offset, bytes);
                Err(huge.refused(&self.path, bytes))
            }
            (Err(errno), _) => Err(refused("allocate blocks of", &self.path, errno.into())),
        }
    }

    /// Gives the blocks of a range back to the system. It is only memory: errors do not matter.
    pub(crate) fn release(&self, offset: u64, bytes: u64) {
        if !self.device {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.file, flags, offset, bytes);
        }
    }

    /// Maps a range for single words.
    pub(crate) fn words(&self, offset: u64, bytes: u64) -> Result<SharedWords, PoolError> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        SharedWords::map(&self.file, offset, size, self.access)
            .map_err(|source| refused("map", &self.path, source))
    }

    /// Maps a range behind what `range` has.
    pub(crate) fn map_into(
        &self,
        range: &mut SharedRange,
        offset: u64,
        bytes: u64,
    ) -> Result<(), PoolError> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        range
            .append(&self.file, offset, size)
            .map_err(|source| refused("map", &self.path, source))
    }

    /// The first bytes, as far as signatures and superblocks go.
    pub(crate) fn head(&self) -> Result<Vec<u8>, PoolError> {
        if !self.device {
            let mut head = Vec::new();
            let read = (&self.file).take(HEAD_BYTES).read_to_end(&mut head);
            read.and_then(|_| (&self.file).rewind())
                .map_err(|source| refused("read", &self.path, source))?;
            return Ok(head);
        }
        // A device can only be mapped, in units of its pages.
        let words = self.words(0, EXTENT_BYTES)?;
        let lines = (0..HEAD_BYTES as usize).step_by(64);
        lines.for_each(|line| words.invalidate(line));
        let offsets = (0..HEAD_BYTES as usize).step_by(8);
        Ok(offsets
            .flat_map(|at| words.load(at).to_le_bytes())
            .collect())
    }

    /// What identifies the member: either copy of its superblock.
    pub(crate) fn superblock(&self) -> Result<Superblock, PoolError> {
        let head = self.head()?;
        let copies = SUPERBLOCKS.map(|start| {
            let start = start as usize;
            let bytes = head.get(start..start + SUPERBLOCK_BYTES as usize);
            bytes.map_or(Err(NoSuperblock::Foreign), Superblock::decode)
        });
        let path = self.path.clone();
        let foreign = |found: String| Err(PoolError::NotAPool { path, found });
        match copies {
            [Ok(first), Ok(second)] if first != second => Err(PoolError::Damaged {
                path: self.path.clone(),
                what: "one copy of the superblock",
                offset: SUPERBLOCK_BYTES,
            }),
            [Ok(found), _] | [_, Ok(found)] => Ok(found),
            [Err(NoSuperblock::Newer { format, features }), _]
            | [_, Err(NoSuperblock::Newer { format, features })] => Err(PoolError::Newer {
                path: self.path.clone(),
                format,
                features,
            }),
            [Err(NoSuperblock::Foreign), Err(NoSuperblock::Foreign)] => foreign(describe(&head)),
            _ => Err(PoolError::Damaged {
                path: self.path.clone(),
                what: "the superblock (both copies)",
                offset: 0,
            }),
        }
    }
}

/// The byte that the process of an incarnation locks: behind the end of every file.
fn process_lock(incarnation: u64) -> u64 {
    1 << 62 | incarnation >> 2
}

/// What the first bytes of something are, for messages: known signatures by name.
pub(crate) fn describe(head: &[u8]) -> String {
    let has =
        |at: usize, signature: &[u8]| head.get(at..).is_some_and(|h| h.starts_with(signature));
    let known: [(usize, &[u8], &str); 12] = [
        (0, &SUPERBLOCK_MAGIC[..6], "a pool"),
        (SUPERBLOCK_BYTES as usize, &SUPERBLOCK_MAGIC[..6], "a pool"),
        (0x438, b"\x53\xef", "an ext file system"),
        (0, b"XFSB", "an XFS file system"),
        (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
        (4086, b"SWAPSPACE2", "swap space"),
        (512, b"EFI PART", "a partition table"),
        (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
        (0, b"PMEM", "a pool of PMDK"),
        (0, b"\xff\x82\xb2\x87", "a famfs file system"),
        (0, b"PAR1", "a Parquet file"),
        (0, b"SQLite format 3\0", "an SQLite database"),
    ];
    let name = known.iter().find(|(at, signature, _)| has(*at, signature));
    match name {
        Some((_, _, name)) => (*name).to_owned(),
        None if head.is_empty() => "nothing".to_owned(),
        None if head.iter().all(|byte| *byte == 0) => {
            "only zeros at its start: an unfinished pool, or memory that was cleared".to_owned()
        }
        None => "data of another kind".to_owned(),
    }
}

/// Refuses file systems of other hosts.
fn local(file: &File, path: &Path) -> Result<(), PoolError> {
    let stat =
        fstatfs(file).map_err(|errno| refused("examine the file system of", path, errno.into()))?;
    // The number has 32 bits and may have been extended with its sign.
    network_kind(stat.f_type & 0xffff_ffff).map_or(Ok(()), |kind| {
        Err(PoolError::NetworkFileSystem {
            path: path.to_owned(),
            kind,
        })
    })
}

fn network_kind(magic: i64) -> Option<&'static str> {
    let known = NETWORK.iter().find(|(number, _)| *number == magic);
    known.map(|(_, name)| *name)
}

/// Removes a file that could not be finished. The error that led here is the one to report.
pub(crate) fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_other_hosts_are_known_by_number() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(0xff53_4d42), Some("CIFS"));
        assert_eq!(network_kind(0x0102_1994), None, "tmpfs");
    }

    #[test]
    fn what_create_would_destroy_is_named() {
        let mut head = vec![0; 128 << 10];
        assert!(describe(&head).contains("zeros"));
        head[4086..4096].copy_from_slice(b"SWAPSPACE2");
        assert_eq!(describe(&head), "swap space");
        head[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert_eq!(describe(&head), "an ext file system");
        assert_eq!(describe(b"hello"), "data of another kind");
    }
}
