//! Backend for DAX devices (`/dev/dax0.0`): memory of a CXL device or NVDIMM, mapped without a file
//! system or NUMA node in between.

mod device;
mod error;

use std::fs::File;
use std::path::Path;

use tierloom_topology::{NodeId, SysRoot};

use super::file::whole_pages;
use super::{MemoryBackend, NodeCapacity, Placing};
use crate::placement::Run;
use crate::sys::files;
use crate::{MIB, Mapping, MemoryError, PageSize};
use device::DaxInfo;
pub use error::DevdaxError;

/// Memory of a DAX device in `devdax` mode, mapped shared from an offset on.
///
/// The bytes are the device's own: they are **not zeroed**, and what is written stays there for the
/// next program, for other hosts that share the device, and across reboots if the device is
/// persistent. The pages cannot be placed, so regions must have the placement `default`; audits
/// report "device memory" instead of counting pages, and nothing can be migrated. The device's
/// alignment (often 2 MiB) is its page size: [`PageSize::Base`] and [`PageSize::Thp`] both mean it,
/// and offset and size must be multiples of it.
///
/// The bytes of a region are locked against other regions of this host (`F_OFD_SETLK`), not against
/// other hosts. The caller must ensure that nobody else writes to bytes that are read here as a
/// slice.
#[derive(Debug, Clone)]
pub struct DevdaxBackend {
    info: DaxInfo,
    offset_bytes: u64,
}

impl DevdaxBackend {
    /// The device at `path`, from `offset_bytes` on.
    ///
    /// It is examined in sysfs, and not opened or mapped.
    ///
    /// # Errors
    /// [`MemoryError::Devdax`] if `path` is not a DAX device, is used as system RAM, or ends before
    /// the offset ([`DevdaxError::PastTheEnd`]); [`MemoryError::Offset`] if the offset is not a
    /// multiple of the alignment.
    pub fn new(path: impl AsRef<Path>, offset_bytes: u64) -> Result<Self, MemoryError> {
        Self::below(&SysRoot::host(), path, offset_bytes)
    }

    /// Same as [`DevdaxBackend::new`] with sysfs below `root`, for recorded trees.
    ///
    /// # Errors
    /// Same as [`DevdaxBackend::new`].
    pub fn below(
        root: &SysRoot,
        path: impl AsRef<Path>,
        offset_bytes: u64,
    ) -> Result<Self, MemoryError> {
        let backend = Self {
            info: DaxInfo::read(root, path.as_ref())?,
            offset_bytes,
        };
        let info = &backend.info;
        whole_pages(&info.path, offset_bytes, info.align_bytes)?;
        // At least one byte must follow the offset.
        backend.fits(1)?;
        Ok(backend)
    }

    /// The node that the memory would belong to in system-ram mode; `None` if the device has none.
    pub fn target_node(&self) -> Option<NodeId> {
        self.info.target_node
    }

    /// Size of the whole device in bytes.
    pub fn device_size_bytes(&self) -> u64 {
        self.info.size_bytes
    }

    /// Page size of the device: offsets and sizes must be multiples of it.
    pub fn align_bytes(&self) -> u64 {
        self.info.align_bytes
    }

    /// Offset in the device of the first mapped byte.
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Name of the device in sysfs (`dax0.0`).
    pub fn device_name(&self) -> &str {
        &self.info.name
    }

    /// Checks that this many bytes can be mapped: whole pages, inside the device, permission to
    /// open.
    pub(crate) fn check_range(
        &self,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<(), MemoryError> {
        let DaxInfo {
            path, align_bytes, ..
        } = &self.info;
        if page_size.is_hugetlb() {
            return Err(DevdaxError::HugetlbPages {
                path: path.clone(),
                page_size,
                align_bytes: *align_bytes,
            }
            .into());
        }
        if !(size_bytes as u64).is_multiple_of(*align_bytes) {
            return Err(DevdaxError::SizeNotPages {
                path: path.clone(),
                size_bytes: size_bytes as u64,
                align_bytes: *align_bytes,
                rounded_bytes: (size_bytes as u64)
                    .checked_next_multiple_of(*align_bytes)
                    .unwrap_or(self.info.size_bytes),
            }
            .into());
        }
        self.fits(size_bytes as u64)?;
        self.open().map(drop)
    }

    fn fits(&self, size_bytes: u64) -> Result<(), MemoryError> {
        let end_bytes = self.offset_bytes.saturating_add(size_bytes);
        if end_bytes <= self.info.size_bytes {
            return Ok(());
        }
        Err(DevdaxError::PastTheEnd {
            path: self.info.path.clone(),
            offset_bytes: self.offset_bytes,
            size_bytes,
            device_bytes: self.info.size_bytes,
        }
        .into())
    }

    /// Opens the device for reading and writing.
    pub(crate) fn open(&self) -> Result<File, MemoryError> {
        self.info.open().map_err(MemoryError::from)
    }

    fn map(&self, file: File, size_bytes: usize) -> Result<Mapping, MemoryError> {
        Mapping::device(file, self.offset_bytes, size_bytes).map_err(|errno| {
            MemoryError::from(DevdaxError::Map {
                path: self.info.path.clone(),
                offset_bytes: self.offset_bytes,
                size_bytes: size_bytes as u64,
                source: std::io::Error::from_raw_os_error(errno),
            })
        })
    }
}

impl MemoryBackend for DevdaxBackend {
    fn describe(&self) -> String {
        let path = self.info.path.display();
        match self.offset_bytes {
            0 => path.to_string(),
            bytes if bytes.is_multiple_of(MIB as u64) => {
                format!("{path} from {} MiB", bytes / MIB as u64)
            }
            bytes => format!("{path} from byte {bytes}"),
        }
    }

    fn placing(&self) -> Placing {
        let path = self.info.path.display();
        Placing::Fixed {
            place: match self.info.target_node {
                Some(node) => format!("{path} (target node {node})"),
                None => path.to_string(),
            },
        }
    }

    fn capacity(
        &self,
        _node: NodeId,
        _page_size: PageSize,
    ) -> Result<Option<NodeCapacity>, MemoryError> {
        Ok(None)
    }

    fn check(
        &self,
        _name: &str,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<(), MemoryError> {
        self.check_range(size_bytes, page_size)
    }

    fn reserve(
        &self,
        _name: &str,
        size_bytes: usize,
        _page_size: PageSize,
    ) -> Result<Mapping, MemoryError> {
        let file = self.open()?;
        // Before the device is mapped: two regions must not alias, not even for a moment.
        files::lock_range(&file, self.offset_bytes, size_bytes).map_err(|errno| {
            DevdaxError::InUse {
                path: self.info.path.clone(),
                offset_bytes: self.offset_bytes,
                end_bytes: self.offset_bytes.saturating_add(size_bytes as u64),
                source: std::io::Error::from_raw_os_error(errno),
            }
        })?;
        self.map(file, size_bytes)
    }

    fn populate(
        &self,
        mapping: &Mapping,
        page_size: PageSize,
        runs: &mut dyn Iterator<Item = Run>,
    ) -> Result<(), MemoryError> {
        // No policy is set: the pages exist already and cannot be placed.
        for run in runs {
            let bytes = |pages: u64| usize::try_from(pages).unwrap_or(usize::MAX);
            let (first, pages) = (bytes(run.first_page), bytes(run.pages));
            let offset = first.saturating_mul(page_size.bytes());
            let len = pages.saturating_mul(page_size.bytes());
            mapping.populate(offset, len).map_err(|errno| {
                MemoryError::from(DevdaxError::Populate {
                    path: self.info.path.clone(),
                    offset_bytes: self.offset_bytes.saturating_add(offset as u64),
                    size_bytes: len as u64,
                    source: std::io::Error::from_raw_os_error(errno),
                })
            })?;
        }
        Ok(())
    }
}
