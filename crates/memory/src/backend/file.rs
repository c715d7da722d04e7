//! Backend for files: tmpfs, hugetlbfs, fsdax and ordinary file systems.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tierloom_topology::NodeId;

use super::{MemoryBackend, NodeCapacity, capacity};
use crate::sys::files::{FileSystem, FileSystemKind};
use crate::sys::{self, files};
use crate::{Mapping, MemoryError, PageSize};

/// Regions in files that are mapped shared.
///
/// *tmpfs* and *hugetlbfs* take pages from nodes and honour the placement. *fsdax* pages are where
/// the device is, and the page cache of an ordinary file may be on any node: there the placement is
/// only a preference, and the audit reports the truth.
///
/// For a new file, free space is checked and (on a device) blocks are allocated before any page is
/// touched, so that a full file system is an error and not a SIGBUS. The bytes that a region maps
/// are locked (an open file description lock, `F_OFD_SETLK`), so no two regions share any. Other
/// programs must not write or truncate the file meanwhile: the bytes are shared memory.
#[derive(Debug, Clone)]
pub struct FileBackend {
    place: Place,
    keep: bool,
    offset_bytes: u64,
}

#[derive(Debug, Clone)]
enum Place {
    Directory(PathBuf),
    File(PathBuf),
}

impl FileBackend {
    /// One new file per region in `directory`, deleted when the region is dropped.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            place: Place::Directory(directory.into()),
            keep: false,
            offset_bytes: 0,
        }
    }

    /// The file at `path`.
    ///
    /// An existing file is mapped with its contents (it must be long enough) and kept. A new one is
    /// deleted when the region is dropped, unless [`FileBackend::keep`] is set.
    pub fn at_path(path: impl Into<PathBuf>) -> Self {
        Self {
            place: Place::File(path.into()),
            keep: false,
            offset_bytes: 0,
        }
    }

    /// Offset of the first mapped byte: a multiple of the region's page size, and 0 for
    /// directories.
    ///
    /// An existing file must be long enough for offset and region; a new one gets blocks only for
    /// the region.
    pub fn offset_bytes(mut self, offset_bytes: u64) -> Self {
        self.offset_bytes = offset_bytes;
        self
    }

    /// Whether files that regions created stay when the regions are dropped.
    pub fn keep(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    fn path(&self) -> &Path {
        match &self.place {
            Place::Directory(path) | Place::File(path) => path,
        }
    }

    /// The directory that the file is or will be in.
    fn directory(&self) -> &Path {
        match &self.place {
            Place::Directory(path) => path,
            Place::File(path) => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            },
        }
    }

    fn file_system(&self) -> Result<FileSystem, MemoryError> {
        files::examine(self.directory())
            .map_err(|errno| self.error("examine the file system of", self.directory(), errno))
    }

    fn error(&self, action: &'static str, path: &Path, errno: i32) -> MemoryError {
        let next_step = match errno {
            libc::ENOENT => "create the directory first",
            libc::EACCES | libc::EPERM | libc::EROFS => "choose a directory this user may write",
            libc::ENOSPC => "free some space or choose another directory",
            _ => "choose another directory or file",
        };
        let source = std::io::Error::from_raw_os_error(errno);
        MemoryError::File {
            action,
            path: path.to_owned(),
            source,
            next_step: next_step.to_owned(),
        }
    }

    fn io_error(&self, action: &'static str, path: &Path, source: &std::io::Error) -> MemoryError {
        self.error(action, path, source.raw_os_error().unwrap_or(libc::EIO))
    }

    fn open(&self, name: &str) -> Result<(File, PathBuf, bool), MemoryError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = match &self.place {
            Place::File(path) => path.clone(),
            Place::Directory(directory) => {
                // Region names may have slashes, and any length.
                let safe: String = name
                    .chars()
                    .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
                    .take(64)
                    .collect();
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                directory.join(format!("tierloom-{}-{number}-{safe}", std::process::id()))
            }
        };
        if matches!(self.place, Place::File(_)) && path.exists() {
            let file = OpenOptions::new().read(true).write(true).open(&path);
            return file
                .map(|file| (file, path.clone(), false))
                .map_err(|error| self.io_error("open", &path, &error));
        }
        // `create_new` fails if another process has created the file since.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        file.map(|file| (file, path.clone(), true))
            .map_err(|error| self.io_error("create", &path, &error))
    }

    /// Locks the bytes of a region: two regions on the same bytes would alias. The lock belongs to
    /// the open file description, so it also excludes other regions of this process.
    fn lock(&self, file: &File, path: &Path, size_bytes: usize) -> Result<(), MemoryError> {
        match files::lock_range(file, self.offset_bytes, size_bytes) {
            Ok(()) => Ok(()),
            Err(libc::EAGAIN | libc::EACCES) => Err(MemoryError::FileInUse {
                path: path.to_owned(),
            }),
            // A file system without locks: the documentation of the type asks the user to take
            // care.
            Err(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOLCK | libc::EINVAL) => Ok(()),
            Err(errno) => Err(self.error("lock", path, errno)),
        }
    }

    /// Sets the length of a new file and allocates its blocks; checks the length of an existing
    /// one.
    fn size_file(
        &self,
        file: &File,
        path: &Path,
        size_bytes: usize,
        created: bool,
    ) -> Result<(), MemoryError> {
        let needed_bytes = self.end_bytes(size_bytes);
        if !created {
            let found_bytes = file
                .metadata()
                .map_err(|error| self.io_error("examine", path, &error))?
                .len();
            return long_enough(path, found_bytes, needed_bytes);
        }
        file.set_len(needed_bytes)
            .map_err(|error| self.io_error("set the length of", path, &error))?;
        // In tmpfs and hugetlbfs, blocks are pages: they are allocated run by run, under the
        // placement.
        if self.file_system()?.kind == FileSystemKind::Device {
            files::allocate_blocks(file, self.offset_bytes, size_bytes)
                .map_err(|errno| self.error("allocate blocks of", path, errno))?;
        }
        Ok(())
    }

    /// Offset in the file at which a region ends.
    fn end_bytes(&self, size_bytes: usize) -> u64 {
        self.offset_bytes.saturating_add(size_bytes as u64)
    }

    /// Refuses devices: their metadata has length 0, so the length check would mislead.
    fn check_is_file(&self, path: &Path) -> Result<(), MemoryError> {
        if !path.exists() || path.is_file() {
            return Ok(());
        }
        Err(MemoryError::File {
            action: "map as a file",
            path: path.to_owned(),
            source: std::io::Error::from_raw_os_error(libc::ENODEV),
            next_step: "name a file; a DAX device is mapped as a device (devdax)".to_owned(),
        })
    }

    fn check_offset(&self, page_size: PageSize) -> Result<(), MemoryError> {
        if self.offset_bytes > 0 && matches!(self.place, Place::Directory(_)) {
            return Err(MemoryError::File {
                action: "map a new file from an offset on in",
                path: self.path().to_owned(),
                source: std::io::Error::from_raw_os_error(libc::EINVAL),
                next_step: "files made in a directory are mapped from their start; name a file or leave the offset out"
                    .to_owned(),
            });
        }
        whole_pages(self.path(), self.offset_bytes, page_size.bytes() as u64)
    }
}

/// Checks that an offset in a file or device is a multiple of its page size.
pub(super) fn whole_pages(
    path: &Path,
    offset_bytes: u64,
    align_bytes: u64,
) -> Result<(), MemoryError> {
    if offset_bytes.is_multiple_of(align_bytes) {
        return Ok(());
    }
    let below_bytes = offset_bytes - offset_bytes % align_bytes;
    Err(MemoryError::Offset {
        path: path.to_owned(),
        offset_bytes,
        align_bytes,
        below_bytes,
        above_bytes: below_bytes.saturating_add(align_bytes),
    })
}

/// Checks that an existing file is long enough: touching a page past its end raises SIGBUS.
fn long_enough(path: &Path, found_bytes: u64, needed_bytes: u64) -> Result<(), MemoryError> {
    if found_bytes >= needed_bytes {
        return Ok(());
    }
    Err(MemoryError::FileSize {
        path: path.to_owned(),
        found_bytes,
        needed_bytes,
    })
}

/// Opens an existing file for mapping its first `size_bytes`, without locking it.
pub(crate) fn open_to_map(path: &Path, size_bytes: usize) -> Result<File, MemoryError> {
    let backend = FileBackend::at_path(path);
    let wrong = |action| move |error: std::io::Error| (action, error);
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let examined = opened.map_err(wrong("open")).and_then(|file| {
        file.metadata()
            .map(|data| (file, data))
            .map_err(wrong("examine"))
    });
    let (file, data) =
        examined.map_err(|(action, error)| backend.io_error(action, path, &error))?;
    backend.check_is_file(path)?;
    long_enough(path, data.len(), size_bytes as u64)?;
    Ok(file)
}

impl MemoryBackend for FileBackend {
    fn describe(&self) -> String {
        match &self.place {
            Place::Directory(path) => format!("files in {}", path.display()),
            Place::File(path) if self.offset_bytes > 0 => {
                format!("file {} from byte {}", path.display(), self.offset_bytes)
            }
            Place::File(path) => format!("file {}", path.display()),
        }
    }

    fn capacity(
        &self,
        node: NodeId,
        page_size: PageSize,
    ) -> Result<Option<NodeCapacity>, MemoryError> {
        match self.file_system()?.kind {
            FileSystemKind::Device => Ok(None),
            _ => capacity::read(Path::new("/"), node, page_size).map(Some),
        }
    }

    fn check(&self, name: &str, size_bytes: usize, page_size: PageSize) -> Result<(), MemoryError> {
        let file_system = self.file_system()?;
        let wrong = |reason: String| {
            Err(MemoryError::FileSystem {
                path: self.path().to_owned(),
                page_size,
                reason,
            })
        };
        match file_system.kind {
            FileSystemKind::Hugetlb { page_bytes }
                if !page_size.is_hugetlb() || page_bytes != page_size.bytes() as u64 =>
            {
                return wrong(format!(
                    "it is a hugetlbfs of {} KiB pages; ask for that page size",
                    page_bytes / 1024
                ));
            }
            FileSystemKind::Memory | FileSystemKind::Device if page_size.is_hugetlb() => {
                let mount = format!("mount -t hugetlbfs -o pagesize={page_size} none DIR");
                return wrong(format!(
                    "hugetlb pages need a hugetlbfs directory (`{mount}`)"
                ));
            }
            _ => {}
        }
        self.check_offset(page_size)?;
        let existing = match &self.place {
            Place::File(path) => std::fs::metadata(path).ok().map(|data| (path, data.len())),
            Place::Directory(_) => None,
        };
        if let Some((path, found_bytes)) = existing {
            self.check_is_file(path)?;
            return long_enough(path, found_bytes, self.end_bytes(size_bytes));
        }
        match file_system.free_bytes {
            Some(free_bytes) if free_bytes < size_bytes as u64 => Err(MemoryError::NoSpace {
                name: name.to_owned(),
                path: self.path().to_owned(),
                needed_mib: (size_bytes as u64).div_ceil(1 << 20),
                free_mib: free_bytes >> 20,
            }),
            _ => Ok(()),
        }
    }

    fn reserve(
        &self,
        name: &str,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<Mapping, MemoryError> {
        let (file, path, created) = self.open(name)?;
        // Locked before its length changes: another region may have the file mapped.
        let ready = self
            .lock(&file, &path, size_bytes)
            .and_then(|()| self.size_file(&file, &path, size_bytes, created));
        let mapping = ready.and_then(|()| {
            Mapping::shared_file_at(file, self.offset_bytes, size_bytes, page_size)
                .map_err(|errno| self.error("map", &path, errno))
        });
        match mapping {
            Ok(mapping) if created && !self.keep => Ok(mapping.before_unmap(move || {
                // The file may be gone already. Other errors leave it behind and cannot be reported
                // from a drop.
                let _ = std::fs::remove_file(path);
            })),
            Ok(mapping) => Ok(mapping),
            Err(error) => {
                if created {
                    // The first error is the one to report.
                    let _ = std::fs::remove_file(&path);
                }
                Err(error)
            }
        }
    }

    fn huge_bytes(&self, mapping: &Mapping) -> Option<u64> {
        sys::huge::huge_bytes(mapping)
    }
}
