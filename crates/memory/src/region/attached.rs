//! Regions in memory that others share, such as tables of a pool.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::Region;
use crate::backend::{AttachedMemory, MemoryBackend, Placing};
use crate::shared::SharedRange;
use crate::{Mapping, MemoryError, PageSize, Placement};

impl Region {
    /// Makes a region of a part of `range`, which it keeps mapped. Nothing is copied or touched.
    ///
    /// `placing` says where its pages are, and why they stay there. The region keeps `owner`, for
    /// instance what counts the readers of the range, and lets it go after its part of the range.
    ///
    /// # Errors
    /// [`MemoryError::SizeNotPages`] if the part is not made of whole base pages, and
    /// [`MemoryError::OutOfRange`] if it is empty or not inside the range.
    pub fn attached(
        name: impl Into<String>,
        range: Arc<SharedRange>,
        part: Range<usize>,
        placing: Placing,
        owner: Arc<dyn Send + Sync>,
    ) -> Result<Self, MemoryError> {
        let name = name.into();
        let page_size = PageSize::Base;
        let size_bytes = part.len();
        if !size_bytes.is_multiple_of(page_size.bytes()) {
            return Err(MemoryError::SizeNotPages {
                name,
                size_bytes,
                page_size,
                page_bytes: page_size.bytes(),
                rounded_bytes: page_size.round_up(size_bytes),
            });
        }
        let outside = MemoryError::OutOfRange {
            name: name.clone(),
            start: part.start,
            end: part.end,
            size_bytes: range.size_bytes(),
        };
        let mapping = Mapping::shared(range, part, owner).map_err(|_| outside)?;
        let backend: Arc<dyn MemoryBackend> = Arc::new(AttachedMemory::new(placing));
        Ok(Self {
            name,
            mapping,
            backend,
            page_size,
            start_page: 0,
            placement: Mutex::new(Placement::kernel_default()),
            only_node: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Access;
    use crate::{AuditMode, MigrationOptions, fake_topology};

    fn range() -> Arc<SharedRange> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(16384).unwrap();
        let mut range = SharedRange::reserve(16384, Access::Read).unwrap();
        range.append(&file, 0, 16384).unwrap();
        Arc::new(range)
    }

    fn in_pool() -> Placing {
        Placing::Pool {
            place: "demo.pool".into(),
        }
    }

    #[test]
    fn a_region_of_a_shared_range_keeps_it_mapped_and_its_owner_until_the_last_slice() {
        let (range, owner) = (range(), Arc::new(()));
        let start = range.as_slice().as_ptr().addr();
        let watched = Arc::downgrade(&range);
        let keep = Arc::clone(&owner) as Arc<dyn Send + Sync>;
        let region = Region::attached("t.c", range, 4096..12288, in_pool(), keep).unwrap();
        let region = Arc::new(region);
        assert_eq!(
            (region.address(), region.size_bytes()),
            (start + 4096, 8192)
        );
        let slice = region.slice(0..100).unwrap();
        drop(region);
        assert_eq!(slice.as_ref(), [0; 100]);
        assert_eq!((watched.strong_count(), Arc::strong_count(&owner)), (1, 2));
        drop(slice);
        assert_eq!((watched.strong_count(), Arc::strong_count(&owner)), (0, 1));
    }

    #[test]
    fn it_has_an_audit_of_touched_pages_and_refuses_to_move() {
        let region = Region::attached("t.c", range(), 0..8192, in_pool(), Arc::new(())).unwrap();
        assert_eq!(region.as_slice()[0], 0);
        let audit = region.audit(AuditMode::Full).unwrap();
        assert_eq!((audit.pages_total, audit.misplaced_pages), (2, 0));
        assert!(audit.absent_pages <= 1 || audit.unknown_pages == 2);
        let node = crate::FakeNode {
            node: 0,
            cpus: 1,
            memory_bytes: 1 << 30,
        };
        let topology = fake_topology(&[node]).unwrap();
        let to = Placement::bind(tierloom_topology::NodeId(0));
        let refused = region.migrate(&to, &topology, MigrationOptions::default());
        let message = refused.err().unwrap().to_string();
        assert!(message.contains("in pool demo.pool"), "{message}");
    }

    #[test]
    #[should_panic(expected = "not for writing")]
    fn stores_are_refused_before_the_processor_does() {
        let mut region =
            Region::attached("t.c", range(), 0..4096, in_pool(), Arc::new(())).unwrap();
        region.as_mut_slice()[0] = 1;
    }

    #[test]
    fn parts_of_pages_and_parts_outside_are_errors() {
        for part in [0..100, 0..0, 12288..20480] {
            let made = Region::attached("t.c", range(), part.clone(), in_pool(), Arc::new(()));
            assert!(made.is_err(), "{part:?}");
        }
    }
}
