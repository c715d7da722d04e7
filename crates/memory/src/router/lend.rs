//! Regions out of the places of a class: memory that lives longer than a query, placed, limited and counted as the class's blocks are.

use std::fmt;

use tierloom_topology::NodeId;

use super::events::Why;
use super::route::Router;
use super::{Class, ClassScope, OperatorId, ROUTER};
use crate::backend::{AnonymousNuma, MemoryBackend, NodeCapacity, PageState, Placing};
use crate::placement::Run;
use crate::{Mapping, MemoryError, PageSize};

/// Gives regions memory of one class: of its first place that has room, each fall to a later one recorded as for any block.
///
/// Unlike a block of an operator a region is refused when all places of its class are full: whoever asks for one can be told. Regions must have
/// the placement `default`; their pages are not moved, since class and place follow from the address.
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
    /// Memory of `class`.
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

    /// The router asks the nodes of its places itself.
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
        // SAFETY: the block was handed out just now, has at least so many bytes, and is only freed when the mapping is gone.
        let mut mapping = unsafe { Mapping::lent(address, size_bytes) }
            .before_unmap(move || router.free_for_good(address));
        if !block.zeroed {
            mapping.as_mut_slice().fill(0);
        }
        Ok(mapping)
    }

    fn populate(
        &self,
        mapping: &Mapping,
        page_size: PageSize,
        runs: &mut dyn Iterator<Item = Run>,
    ) -> Result<(), MemoryError> {
        // Present already where the place names nodes; where it does not, the kernel chooses.
        AnonymousNuma::new().populate(mapping, page_size, runs)
    }

    fn locate(&self, mapping: &Mapping, offsets: &[usize]) -> Result<Vec<PageState>, MemoryError> {
        AnonymousNuma::new().locate(mapping, offsets)
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
    /// A block at one of the places of the scope's class, aligned to `page_bytes`.
    ///
    /// # Errors
    /// Why the first place could not give it, when none could.
    pub(super) fn allocate_placed(
        &self,
        scope: ClassScope,
        size: usize,
        page_bytes: usize,
    ) -> Result<super::slot::Block, Why> {
        let size = Self::size_aligned(size, page_bytes);
        match self.at_a_place(scope, size) {
            Ok(block) => Ok(block),
            Err(None) => self.from(scope, super::route::SYSTEM, size),
            Err(Some(why)) => {
                self.events.record(scope.class, size as u64, 0, None, why);
                Err(why)
            }
        }
    }
}
