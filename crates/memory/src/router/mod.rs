//! Global-allocator wrapper that routes large allocations to memory tiers by class of structure.
//!
//! Each class has its own list of places (tiers), its own byte limit per place and its own account.
//!
//! ```text
//!   allocation of 64 KiB or more, made while the thread is in a scope (`enter`)
//!        │ class
//!        ├── join         ─► place 0 (node 1, 8 GiB) ─full, refused─► place 1 ─► ... ─► system
//!        ├── aggregation  ─► place 0 ...
//!        └── (no scope, or small) ─► the inner allocator
//! ```
//! [`TierAllocator`] wraps a program's allocator. One range of addresses is reserved for all
//! classes and cut into one slot per class and place, so the class and place of a block follow from
//! its address: any thread may free it, and a block that grows keeps its class. Each slot has one
//! memory policy, set with `mbind` when it is configured, so an allocation makes no system call for
//! its placement (except for unequal weights, see below).
//!
//! Pages of a place that names nodes are populated when the block is allocated, so that a full or
//! offline node shows as a refused allocation and not as an out-of-memory kill at first touch. Such
//! a place is bound to one node, or interleaves over nodes of equal weight; the kernel applies
//! both. Unequal weights are applied by populating each block granule by granule (64 KiB, or 2 MiB
//! for blocks of 4 MiB and more). Before fresh memory is taken from a node the router checks that
//! the node has it. Where the kernel chooses the node, pages are left to first touch.
//!
//! Freed blocks keep their pages for the next allocation up to a bound
//! ([`RouterOptions::cache_bytes`]); everything beyond goes back to the kernel at once, and
//! [`trim`] gives back the rest.

mod account;
mod allocator;
mod audit;
mod events;
mod extents;
#[cfg(test)]
mod fake;
mod group;
#[cfg(test)]
mod histories;
mod holds;
mod kernel;
mod ledger;
mod lend;
mod options;
#[cfg(test)]
mod orders;
mod pool;
mod present;
#[cfg(test)]
mod pressure;
mod read;
mod recent;
mod reserve;
mod route;
mod scope;
mod shares;
mod slot;
mod spec;
mod stretches;
mod sync;
#[cfg(test)]
mod tests;
mod usage;

pub use allocator::{THRESHOLD_BYTES, TierAllocator};
pub use audit::{ClassAudit, PeakAudit, audit_now, next_peak, peak_audit, watch_peak};
pub use events::Why;
pub use lend::ClassBackend;
pub use options::{
    DEFAULT_CACHE_BYTES, EARLIER_PLACE, INNER_PLACE, MAX_PLACES, Overflow, POOL_PLACE, PlaceMemory,
    PlaceOptions, RouterError, RouterOptions, SYSTEM_PLACE,
};
pub use pool::{LentPool, PoolMemory, lend_pool, pool_name};
pub use scope::{Class, ClassScope, OperatorId, ScopeGuard, current, enter, leave, switch};
pub use spec::{PlaceSpec, PlaceTarget};
pub use usage::{Event, OperatorUsage, PlaceUsage, events, operator_usage, place_usage, places_of};

use route::Router;

/// The router of the program's allocator.
static ROUTER: Router = Router::new(kernel::LINUX, &OPERATORS);
/// Accounts of all operators, in a separate static: all zero, so it goes to `.bss` and adds nothing
/// to the size of the executable.
static OPERATORS: account::Operators = account::Operators::new();

/// Configures the places, limits and overflow behaviour of all classes, and turns routing on.
///
/// The first call reserves the address range; later calls reuse it. Blocks in use stay where they
/// are.
///
/// # Errors
/// A [`RouterError`] if a placement cannot be routed, if no address space can be reserved, or if
/// the program's global allocator is not a [`TierAllocator`].
pub fn configure(options: &RouterOptions) -> Result<(), RouterError> {
    if !is_installed() {
        return Err(RouterError::NotInstalled);
    }
    ROUTER.configure(options)?;
    // Last, since before the first configuration there are no addresses to route to.
    ROUTER.set_enabled(true);
    Ok(())
}

/// Turns routing on or off; it is off until [`configure`] has been called.
///
/// While it is off every allocation goes to the inner allocator; routed blocks in use can still be
/// freed.
pub fn set_enabled(on: bool) {
    ROUTER.set_enabled(on);
}

/// Whether large allocations are routed.
pub fn is_enabled() -> bool {
    ROUTER.is_enabled()
}

/// Whether the program's global allocator is a [`TierAllocator`].
///
/// There is no way to inspect a `#[global_allocator]`, so one large block is allocated and the
/// allocator reports whether it saw the request. During the request a marker takes the place of the
/// scope, so it is never routed and cannot be refused or counted.
fn is_installed() -> bool {
    let Ok(layout) = std::alloc::Layout::from_size_align(THRESHOLD_BYTES, 8) else {
        return false;
    };
    scope::seen(|| {
        // SAFETY: the layout is not empty, and a block that was allocated is freed with the same
        // layout.
        unsafe {
            // `black_box` keeps the compiler from removing the allocation that nobody reads.
            let block = std::hint::black_box(std::alloc::alloc(layout));
            if !block.is_null() {
                std::alloc::dealloc(block, layout);
            }
        }
    })
}

/// Queries the kernel again for the allowed nodes and for the free memory of each.
///
/// Call it where the machine may have changed, such as before each query: a node that went offline
/// is then skipped instead of tried and refused.
pub fn refresh() {
    ROUTER.refresh();
}

/// Gives all freed memory that is cached for reuse back to the kernel.
pub fn trim() {
    ROUTER.trim();
}

/// An operator's account, allocated when it is created and released when it is dropped.
#[derive(Debug)]
pub struct OperatorHandle {
    id: OperatorId,
}

impl OperatorHandle {
    /// Allocates an account.
    ///
    /// Returns the dummy account ([`OperatorId::NONE`]) when all of them (8191) are in use.
    pub fn register() -> Self {
        Self {
            id: ROUTER.operators.register(),
        }
    }

    /// The id to put into a [`ClassScope`].
    pub fn id(&self) -> OperatorId {
        self.id
    }

    /// Resets the peak and the counts, for another execution of the same plan.
    pub fn reset(&self) {
        ROUTER.operators.reset(self.id);
    }

    /// Current and peak bytes of the operator and its allocation counts.
    pub fn usage(&self) -> OperatorUsage {
        operator_usage(self.id)
    }

    /// Whether all places of the operator's class were full, under [`Overflow::Signal`].
    ///
    /// One relaxed atomic load: cheap enough to be polled once per batch.
    pub fn is_over(&self) -> bool {
        ROUTER
            .operators
            .of(self.id)
            .over
            .load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Drop for OperatorHandle {
    fn drop(&mut self) {
        if self.id != OperatorId::NONE {
            ROUTER.operators.release(self.id);
        }
    }
}
