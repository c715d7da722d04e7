//! Regions made from the router's places: memory that outlives a query (such as a temporary table),
//! placed, limited and counted as other memory of its class.

use std::fmt;

use tierloom_topology::NodeId;

use super::events::Why;
use super::route::{Passed, Router};
use super::{Class, ClassScope, OperatorId, ROUTER};
use crate::backend::{MemoryBackend, NodeCapacity, PageState, Placing};
use crate::{Mapping, MemoryError, PageSize};

/// Memory backend that takes regions from the places of one class.
///
/// The first place with room serves a region; falling back to a later one is recorded as for any
/// block. Unlike an operator's block, a region is refused when all places of its class are full,
/// since its creator can handle an error. Regions must have the placement `default`. Their pages
/// are not migrated, because class and place follow from the address. Where a place names no nodes,
/// the kernel chooses them when the region is populated.
#[derive(Clone, Copy)]
pub struct ClassBackend {
    class: Class,
    router: &'static Router,
}

impl fmt::Debug for ClassBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClassBackend").field(&self.class).finish()
    }
}

impl ClassBackend {
    /// A backend for memory of `class`.
    pub fn new(class: Class) -> Self {
        Self {
            class,
            router: &ROUTER,
        }
    }

    #[cfg(test)]
    pub(super) fn of(class: Class, router: &'static Router) -> Self {
        Self { class, router }
    }

    fn full(&self, name: &str, size_bytes: usize, why: impl fmt::Display) -> MemoryError {
        MemoryError::ClassFull {
            name: name.to_owned(),
            size_bytes,
            class: self.class,
            why: why.to_string(),
        }
    }
}

impl MemoryBackend for ClassBackend {
    fn describe(&self) -> String {
        format!("operator memory of class {}", self.class)
    }

    /// `None`: the router checks the capacity of the nodes itself.
    fn capacity(&self, _: NodeId, _: PageSize) -> Result<Option<NodeCapacity>, MemoryError> {
        Ok(None)
    }

    fn placing(&self) -> Placing {
        Placing::ByClass {
            class: self.class.to_string(),
        }
    }

    fn check(&self, name: &str, size_bytes: usize, page_size: PageSize) -> Result<(), MemoryError> {
        if page_size.is_hugetlb() {
            let why = format!("it has no pages of {page_size} from a pool; use 4k or thp");
            return Err(self.full(name, size_bytes, why));
        }
        Ok(())
    }

    fn reserve(
        &self,
        name: &str,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<Mapping, MemoryError> {
        let scope = ClassScope {
            class: self.class,
            operator: OperatorId::NONE,
        };
        let router = self.router;
        if !router.is_enabled() {
            return Err(self.full(name, size_bytes, "operator memory is not routed"));
        }
        let block = router
            .allocate_placed(scope, size_bytes, page_size.bytes())
            .map_err(|why| self.full(name, size_bytes, why))?;
        let address = block.address;
        // SAFETY: the block was allocated just now and has at least `size_bytes` bytes. Nobody else
        // has its address, and it is freed only by the `before_unmap` hook, after the last use of
        // the mapping.
        let mut mapping = unsafe { Mapping::lent(address, size_bytes) }
            .before_unmap(move || router.free_for_good(address));
        // A region starts as zeroes, but reused pages have the contents of the block before.
        if !block.zeroed {
            mapping.as_mut_slice().fill(0);
        }
        Ok(mapping)
    }

    fn relocate(
        &self,
        _: &Mapping,
        _: PageSize,
        moves: &[(usize, NodeId)],
    ) -> Result<Vec<PageState>, MemoryError> {
        Err(MemoryError::Migration {
            name: self.describe(),
            reason: format!("{} pages stay at their class's place", moves.len()),
        })
    }
}

impl Router {
    /// Allocates a block at one of the configured places of the scope's class, aligned to
    /// `page_bytes`.
    ///
    /// A class without configured places gets the fallback place.
    ///
    /// # Errors
    /// The reason of the first place, when no place could serve it.
    pub(super) fn allocate_placed(
        &self,
        scope: ClassScope,
        size: usize,
        page_bytes: usize,
    ) -> Result<super::slot::Block, Why> {
        let size = Self::size_aligned(size, page_bytes);
        match self.at_a_place(scope, size) {
            Ok(block) => Ok(block),
            Err(Passed { first: None, .. }) => self.from(scope, super::route::SYSTEM, size),
            Err(Passed {
                first: Some(why), ..
            }) => {
                self.events.record(scope.class, size as u64, 0, None, why);
                Err(why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::kernel::LINUX;
    use super::super::tests::{options, place, router_of};
    use super::super::{Overflow, RouterOptions};
    use super::*;
    use crate::{FakeNode, MIB, MigrationOptions, Placement, Region, RegionOptions, fake_topology};
    use tierloom_topology::Topology;

    fn topology() -> Topology {
        fake_topology(&[FakeNode {
            node: 0,
            cpus: 1,
            memory_bytes: 1 << 30,
        }])
        .unwrap()
    }

    fn region(router: &'static Router, size_bytes: usize) -> Result<Region, MemoryError> {
        let backend = Arc::new(ClassBackend::of(Class::TempTable, router));
        let options = RegionOptions::new("t.a", size_bytes, Placement::kernel_default());
        Region::create(backend, &topology(), options)
    }

    /// Two places, the first with room for one MiB.
    fn two_places() -> RouterOptions {
        let places = vec![
            place("near", Placement::kernel_default(), MIB as u64),
            place("far", Placement::kernel_default(), 2 * MIB as u64),
        ];
        options(vec![(Class::TempTable, places)], Overflow::Signal)
    }

    #[test]
    fn regions_fall_to_the_next_place_are_refused_beyond_and_return_everything() {
        let router = router_of(LINUX, &two_places());
        let near = region(router, MIB).unwrap();
        let far = region(router, 2 * MIB - 4096).unwrap();
        let used = |router: &Router| {
            let all = router.place_usage().into_iter();
            all.map(|p| p.current_bytes / MIB as u64)
                .collect::<Vec<_>>()
        };
        assert_eq!(used(router), [1, 2]);
        let error = region(router, MIB).unwrap_err().to_string();
        for part in ["`t.a`", "class temp", "limit reached", "tier_memory"] {
            assert!(error.contains(part), "{error}");
        }
        let listed: Vec<_> = router.event_list().into_iter().map(|e| e.to).collect();
        assert_eq!(listed, [Some("far".to_owned()), None]);
        drop((near, far));
        assert_eq!(used(router), [0, 0]);
        let held: u64 = router.place_usage().iter().map(|p| p.held_bytes).sum();
        assert_eq!(held, 0, "a table's memory is not kept for operators");
    }

    #[test]
    fn a_region_over_reused_memory_is_zero_and_keeps_what_is_written() {
        let router = router_of(LINUX, &RouterOptions::default());
        let scope = ClassScope {
            class: Class::TempTable,
            operator: OperatorId::NONE,
        };
        // Leaves a dirty block in the cache, as an operator would.
        let block = router
            .from(scope, super::super::route::SYSTEM, MIB)
            .unwrap();
        // SAFETY: the block was allocated just now and has MIB bytes.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(block.address).write_bytes(7, MIB) };
        router.free(block.address);
        let mut region = region(router, MIB).unwrap();
        assert_eq!(region.address(), block.address, "the block is not reused");
        assert!(region.as_slice().iter().all(|byte| *byte == 0));
        region.as_mut_slice()[MIB - 1] = 9;
        assert_eq!(region.as_slice()[MIB - 1], 9);
    }

    #[test]
    fn pages_of_a_class_are_not_moved_from_under_its_account() {
        let router = router_of(LINUX, &two_places());
        let region = region(router, MIB).unwrap();
        let to = Placement::bind(NodeId(0));
        let error = region
            .migrate(&to, &topology(), MigrationOptions::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("memory class temp has its places"),
            "{error}"
        );
    }

    #[test]
    fn without_routing_or_with_pages_of_a_pool_the_reason_is_told() {
        let router = router_of(LINUX, &two_places());
        let backend = Arc::new(ClassBackend::of(Class::TempTable, router));
        let mut options = RegionOptions::new("t.a", 2 * MIB, Placement::kernel_default());
        options.page_size = PageSize::Huge2M;
        let refused = Region::create(backend, &topology(), options).unwrap_err();
        assert!(refused.to_string().contains("use 4k or thp"), "{refused}");
        router.set_enabled(false);
        let refused = region(router, MIB).unwrap_err().to_string();
        assert!(refused.contains("is not routed"), "{refused}");
    }
}
