//! Files on hugetlbfs: their pages come out of a pool of huge pages that the system sets apart.
//!
//! What the kernel does there, tried on Linux 6.18: lengths that are no multiple of the page are
//! refused (EINVAL), `write` too; a file takes no pages when it becomes longer; `fallocate` takes
//! them, and keeps those it got when there are too few (ENOSPC); a hole gives back whole pages and
//! clears parts of pages; a page that is touched without being allocated is SIGBUS where none is
//! left. So everything that is mapped for writing is allocated first.

use std::fs::File;
use std::path::Path;

use rustix::fs::{fstat, fstatfs};

use crate::PoolError;
use crate::layout::EXTENT_BYTES;

/// Number of the file system in `linux/magic.h`.
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// The pages of a hugetlbfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HugePages {
    page_bytes: u64,
}

/// Pages that the system has of one size, and that it can still give away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    total: u64,
    free: u64,
    /// Free ones that are promised to mappings.
    promised: u64,
    /// That the kernel may add on demand.
    surplus: u64,
}

impl HugePages {
    /// Those of the file system of `file`; `None` if it is no hugetlbfs.
    ///
    /// # Errors
    /// What the system says, and [`PoolError::HugePageSize`] for pages larger than an extent.
    pub(crate) fn of(file: &File, path: &Path) -> Result<Option<Self>, PoolError> {
        let stat = fstatfs(file).map_err(|errno| {
            crate::error::refused("examine the file system of", path, errno.into())
        })?;
        // The number has 32 bits and may have been extended with its sign.
        match stat.f_type & 0xffff_ffff {
            HUGETLBFS_MAGIC => Self::new(u64::try_from(stat.f_bsize).unwrap_or(0), path).map(Some),
            _ => Ok(None),
        }
    }

    fn new(page_bytes: u64, path: &Path) -> Result<Self, PoolError> {
        match page_bytes.is_power_of_two() && page_bytes <= EXTENT_BYTES {
            true => Ok(Self { page_bytes }),
            false => Err(PoolError::HugePageSize {
                path: path.to_owned(),
                page_bytes,
            }),
        }
    }

    /// The length that a file can have: whole pages. The rest would be part of no extent.
    pub(crate) fn whole(self, bytes: u64) -> u64 {
        bytes - bytes % self.page_bytes
    }

    /// Refuses a range that certainly needs more pages than there are, before any is taken: so
    /// they are not all gone for a moment, for other programs.
    pub(crate) fn check(self, file: &File, path: &Path, bytes: u64) -> Result<(), PoolError> {
        let blocks = fstat(file).map_or(0, |stat| stat.st_blocks);
        // Blocks of `stat` have 512 bytes.
        let has = u64::try_from(blocks).unwrap_or(0) / (self.page_bytes / 512);
        let needed = bytes.div_ceil(self.page_bytes).saturating_sub(has);
        let counts = Counts::read(Path::new("/"), self.page_bytes);
        match counts.is_some_and(|counts| needed > counts.available()) {
            true => Err(self.too_few(path, bytes, counts)),
            false => Ok(()),
        }
    }

    /// The error for a range of a file whose pages were refused, and given back again.
    pub(crate) fn refused(self, path: &Path, bytes: u64) -> PoolError {
        self.too_few(path, bytes, Counts::read(Path::new("/"), self.page_bytes))
    }

    fn too_few(self, path: &Path, bytes: u64, counts: Option<Counts>) -> PoolError {
        let needed_pages = bytes.div_ceil(self.page_bytes);
        let folder = folder(self.page_bytes);
        let free_pages = counts.map_or(0, Counts::available);
        let next_step = match counts {
            None => format!("mount sysfs, and see /{folder}/free_hugepages"),
            Some(counts) if needed_pages > free_pages => format!(
                "raise the setting as root (`echo {} > /{folder}/nr_hugepages`), or end what uses them",
                counts.total + (needed_pages - free_pages)
            ),
            // The system has them, and this process may not have them.
            Some(_) => "a limit keeps them from it: mount the file system with a larger `size=`, \
                        raise the control group's `hugetlb.*.max`, or let memory come from other \
                        nodes (numactl)"
                .to_owned(),
        };
        PoolError::HugePages {
            path: path.to_owned(),
            needed_pages,
            page_bytes: self.page_bytes,
            free_pages,
            next_step,
        }
    }
}

fn folder(page_bytes: u64) -> String {
    format!("sys/kernel/mm/hugepages/hugepages-{}kB", page_bytes / 1024)
}

impl Counts {
    /// From sysfs below `root`; `None` if it is not there.
    fn read(root: &Path, page_bytes: u64) -> Option<Self> {
        let folder = root.join(folder(page_bytes));
        let number = |name: &str| -> Option<u64> {
            let text = std::fs::read_to_string(folder.join(name)).ok()?;
            text.trim().parse().ok()
        };
        let surplus = number("nr_overcommit_hugepages").unwrap_or(0);
        Some(Self {
            total: number("nr_hugepages")?,
            free: number("free_hugepages")?,
            promised: number("resv_hugepages").unwrap_or(0),
            surplus: surplus.saturating_sub(number("surplus_hugepages").unwrap_or(0)),
        })
    }

    fn available(self) -> u64 {
        self.free.saturating_sub(self.promised) + self.surplus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: HugePages = HugePages {
        page_bytes: 2 << 20,
    };

    fn counts(total: u64, free: u64, promised: u64) -> Option<Counts> {
        let surplus = 0;
        Some(Counts {
            total,
            free,
            promised,
            surplus,
        })
    }

    #[test]
    fn pages_that_are_promised_to_others_are_not_counted_as_free() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Counts::read(root.path(), 2 << 20), None);
        let folder = root.path().join(folder(2 << 20));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, value) in [
            ("nr_hugepages", "16\n"),
            ("free_hugepages", "9\n"),
            ("resv_hugepages", "4\n"),
        ] {
            std::fs::write(folder.join(name), value).unwrap();
        }
        let read = Counts::read(root.path(), 2 << 20);
        assert_eq!(read, counts(16, 9, 4));
        assert_eq!(read.unwrap().available(), 5);
        std::fs::write(folder.join("nr_overcommit_hugepages"), "3\n").unwrap();
        std::fs::write(folder.join("surplus_hugepages"), "1\n").unwrap();
        assert_eq!(Counts::read(root.path(), 2 << 20).unwrap().available(), 7);
    }

    #[test]
    fn too_few_pages_name_the_setting_and_the_command_that_suffices() {
        let path = Path::new("/mnt/huge/p");
        // 20 pages are needed and 5 can be had: 15 more than the 16 there are.
        let text = PAGES.too_few(path, 40 << 20, counts(16, 9, 4)).to_string();
        for part in [
            "/mnt/huge/p",
            "20 huge pages of 2 MiB",
            "5 can be had",
            "echo 31 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let limited = PAGES.too_few(path, 8 << 20, counts(16, 9, 4)).to_string();
        assert!(limited.contains("size="), "{limited}");
        assert!(!limited.contains("nr_hugepages"), "{limited}");
    }

    #[test]
    fn pages_larger_than_an_extent_are_refused_and_lengths_are_whole_pages() {
        let path = Path::new("/mnt/huge/p");
        let error = HugePages::new(1 << 30, path).unwrap_err();
        assert!(error.is_bad_input());
        assert!(error.to_string().contains("pagesize=2M"), "{error}");
        assert_eq!(HugePages::new(2 << 20, path).unwrap(), PAGES);
        assert_eq!(PAGES.whole((5 << 20) + 1), 4 << 20);
        assert_eq!(PAGES.whole(4 << 20), 4 << 20);
    }
}
