//! How much of a mapping is mapped by huge pages.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::{Mapping, last_errno};

/// `struct pm_scan_arg` of `linux/fs.h` (Linux 6.7).
#[repr(C)]
#[derive(Debug, Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`: consecutive pages of one category.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// Mapped by a huge page-table entry (PMD or larger).
const PAGE_IS_HUGE: u64 = 1 << 6;
const REGIONS_PER_CALL: usize = 256;

/// Bytes of `mapping` that are mapped by huge pages; `None` where the kernel does not report it.
pub(crate) fn huge_bytes(mapping: &Mapping) -> Option<u64> {
    match scan(mapping) {
        Ok(bytes) => Some(bytes),
        // Before Linux 6.7 only `smaps` has it, which walks the page tables of the whole process.
        Err(libc::ENOTTY | libc::EINVAL) => from_smaps(mapping),
        Err(_) => None,
    }
}

fn scan(mapping: &Mapping) -> Result<u64, i32> {
    let pagemap = File::open("/proc/self/pagemap")
        .map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    let mut found = [PageRegion::default(); REGIONS_PER_CALL];
    let (mut start, end) = (
        mapping.address() as u64,
        (mapping.address() + mapping.size_bytes()) as u64,
    );
    let mut huge_bytes = 0;
    while start < end {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start,
            end,
            regions: found.as_mut_ptr().expose_provenance() as u64,
            regions_len: REGIONS_PER_CALL as u64,
            category_mask: PAGE_IS_HUGE,
            return_mask: PAGE_IS_HUGE,
            ..ScanArguments::default()
        };
        // SAFETY: the arguments have the layout and size that the kernel expects, and `found` has
        // room for `regions_len` regions and outlives the call. Without flags the scan changes
        // nothing.
        let answer =
            unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut arguments) };
        let count = usize::try_from(answer).map_err(|_| last_errno())?;
        huge_bytes += found
            .iter()
            .take(count)
            .map(|region| region.end - region.start)
            .sum::<u64>();
        // No progress would loop forever.
        if arguments.walk_end <= start {
            return Err(libc::EIO);
        }
        start = arguments.walk_end;
    }
    Ok(huge_bytes)
}

/// Huge bytes of the VMAs that the mapping is in. A neighbouring mapping may share the VMA, so the
/// result is capped at the mapping's size.
fn from_smaps(mapping: &Mapping) -> Option<u64> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let (start, end) = (mapping.address(), mapping.address() + mapping.size_bytes());
    let mut inside = false;
    let mut found_bytes = 0_u64;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        let ends = first.split_once('-').map(|(low, high)| {
            (
                usize::from_str_radix(low, 16),
                usize::from_str_radix(high, 16),
            )
        });
        if let Some((Ok(low), Ok(high))) = ends {
            inside = low < end && start < high;
        } else if inside
            && matches!(
                first,
                "AnonHugePages:" | "ShmemPmdMapped:" | "FilePmdMapped:"
            )
        {
            found_bytes += words
                .next()
                .and_then(|kib| kib.parse::<u64>().ok())
                .unwrap_or(0)
                * 1024;
        }
    }
    Some(found_bytes.min(mapping.size_bytes() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MIB, PageSize};

    #[test]
    fn both_ways_agree_and_base_pages_are_never_counted() {
        let base = Mapping::anonymous(16 * MIB, PageSize::Base).unwrap();
        base.populate(0, 16 * MIB).unwrap();
        let thp = Mapping::anonymous(16 * MIB, PageSize::Thp).unwrap();
        thp.populate(0, 16 * MIB).unwrap();
        assert_eq!(huge_bytes(&base), Some(0));
        let by_text = from_smaps(&thp).unwrap();
        if let Ok(scanned) = scan(&thp) {
            assert_eq!(scanned, by_text);
        }
        assert!(by_text <= 16 * MIB as u64 && by_text.is_multiple_of(2 * MIB as u64));
    }
}
