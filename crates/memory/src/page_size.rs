//! Page sizes that a region can request.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::PlacementError;
use crate::sys;

/// Bytes per MiB, for sizes and limits.
pub const MIB: usize = 1 << 20;

/// Page size of a region; also the granule in which its placement is laid out.
///
/// Serialised as the text that [`PageSize::from_str`] reads: `4k`, `thp`, `2m`, `1g`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum PageSize {
    /// The processor's base page (4 KiB on x86-64), with transparent huge pages turned off for the
    /// region.
    #[default]
    #[serde(rename = "4k")]
    Base,
    /// Transparent huge pages of 2 MiB, requested with `madvise(MADV_HUGEPAGE)`.
    ///
    /// The kernel may fall back to base pages when memory is fragmented; they come from the same
    /// node, so the placement holds either way.
    #[serde(rename = "thp")]
    Thp,
    /// 2 MiB pages from the hugetlb pool, which an administrator has to fill.
    #[serde(rename = "2m")]
    Huge2M,
    /// 1 GiB pages from the hugetlb pool, which an administrator has to fill.
    #[serde(rename = "1g")]
    Huge1G,
}

impl PageSize {
    /// All page sizes, smallest first.
    pub const ALL: [PageSize; 4] = [Self::Base, Self::Thp, Self::Huge2M, Self::Huge1G];

    /// Bytes of one page, which is the unit of placement; 2 MiB for [`PageSize::Thp`].
    pub fn bytes(self) -> usize {
        match self {
            Self::Base => sys::base_page_bytes(),
            Self::Thp | Self::Huge2M => 2 * MIB,
            Self::Huge1G => 1024 * MIB,
        }
    }

    /// `len_bytes` rounded up to whole pages; saturates at the largest multiple that fits `usize`.
    pub fn round_up(self, len_bytes: usize) -> usize {
        let page_bytes = self.bytes();
        len_bytes
            .checked_next_multiple_of(page_bytes)
            .unwrap_or(usize::MAX - (page_bytes - 1))
    }

    /// Whether pages come from the hugetlb pool.
    pub fn is_hugetlb(self) -> bool {
        matches!(self, Self::Huge2M | Self::Huge1G)
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "4k",
            Self::Thp => "thp",
            Self::Huge2M => "2m",
            Self::Huge1G => "1g",
        })
    }
}

impl FromStr for PageSize {
    type Err = PlacementError;

    /// Parses the name of a page size, in any letter case.
    ///
    /// # Errors
    /// [`PlacementError::UnknownPageSize`] for anything but `4k`, `thp`, `2m` and `1g`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = text.trim().to_ascii_lowercase();
        Self::ALL
            .into_iter()
            .find(|size| size.to_string() == wanted)
            .ok_or_else(|| PlacementError::UnknownPageSize {
                asked: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_unknown_sizes_are_named() {
        for size in PageSize::ALL {
            assert_eq!(size.to_string().parse::<PageSize>().unwrap(), size);
        }
        assert_eq!("2M".parse::<PageSize>().unwrap(), PageSize::Huge2M);
        let error = "64k".parse::<PageSize>().unwrap_err().to_string();
        assert!(error.contains("64k") && error.contains("thp"), "{error}");
    }

    #[test]
    fn rounding_up_never_overflows() {
        assert_eq!(PageSize::Thp.round_up(1), 2 * MIB);
        assert_eq!(PageSize::Thp.round_up(2 * MIB), 2 * MIB);
        assert_eq!(
            PageSize::Huge1G.round_up(usize::MAX) % PageSize::Huge1G.bytes(),
            0
        );
        assert_eq!(PageSize::Base.round_up(0), 0);
    }
}
