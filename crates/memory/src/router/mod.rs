//! Large allocations by what they are for: each class of structure on its own tier, with its own
//! limit and account.
//!
//! ```text
//!   allocation of 64 KiB or more, made while the thread is in a scope (`enter`)
//!        │ class
//!        ├── join         ─► place 0 (node 1, 8 GiB) ─full, refused─► place 1 ─► ... ─► system
//!        ├── aggregation  ─► place 0 ...
//!        └── (no scope, or small) ─► the allocator inside
//! ```
//! [`TierAllocator`] wraps a program's allocator. One range of addresses is reserved for all
//! classes; which class and place a block belongs to follows from its address, so any thread may
//! free it and a block that grows keeps its class. Each place's part of the range has one memory
//! policy, set once: no allocation costs a system call for its placement (weights other than even
//! ones do, see below).
//!
//! Pages come when they are touched, from the nodes of the place: bound to a node, or in turn over
//! nodes of equal weight. Other weights are kept by populating each block granule by granule (64
//! KiB, or 2 MiB for blocks of 4 MiB and more). Before fresh memory is taken from a node the router
//! makes sure that the node has it. Freed blocks keep their pages for the next allocation up to a
//! bound ([`RouterOptions::cache_bytes`]), everything beyond goes back to the kernel at once;
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
mod present;
#[cfg(test)]
mod pressure;
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
    DEFAULT_CACHE_BYTES, EARLIER_PLACE, INNER_PLACE, MAX_PLACES, Overflow, PlaceOptions,
    RouterError, RouterOptions, SYSTEM_PLACE,
};
pub use scope::{Class, ClassScope, OperatorId, ScopeGuard, current, enter, leave, switch};
pub use spec::PlaceSpec;
pub use usage::{Event, OperatorUsage, PlaceUsage, events, operator_usage, place_usage, places_of};

use route::Router;

/// The router of the program's allocator.
static ROUTER: Router = Router::new(kernel::LINUX, &OPERATORS);
/// Apart from it and all zero, so that it takes no room in the program's file.
static OPERATORS: account::Operators = account::Operators::new();

/// Reserves addresses (once) and sets places, limits and what happens beyond them. Blocks in use
/// stay where they are. Turns routing on.
///
/// # Errors
/// [`RouterError`]: a placement that cannot be routed, no address space, or a program whose allocator is no [`TierAllocator`].
pub fn configure(options: &RouterOptions) -> Result<(), RouterError> {
    if !is_installed() {
        return Err(RouterError::NotInstalled);
    }
    ROUTER.configure(options)?;
    ROUTER.set_enabled(true);
    Ok(())
}

/// Turns routing on or off. Off, every allocation goes to the allocator inside; blocks in use can
/// still be freed. Off until [`configure`] has been called.
pub fn set_enabled(on: bool) {
    ROUTER.set_enabled(on);
}

/// Whether large allocations are routed.
pub fn is_enabled() -> bool {
    ROUTER.is_enabled()
}

/// Whether the program's allocator is a [`TierAllocator`]: one that is asked for a large block
/// tells. The block is never the router's, so that nothing can be refused.
fn is_installed() -> bool {
    let Ok(layout) = std::alloc::Layout::from_size_align(THRESHOLD_BYTES, 8) else {
        return false;
    };
    scope::seen(|| {
        // SAFETY: the layout is not empty; a block that there is is freed at once, with its layout.
        unsafe {
            let block = std::hint::black_box(std::alloc::alloc(layout));
            if !block.is_null() {
                std::alloc::dealloc(block, layout);
            }
        }
    })
}

/// Asks the kernel anew what it allows and what nodes can give. Call it where the machine may have
/// changed, as before each query: a node that went offline is then avoided instead of asked.
pub fn refresh() {
    ROUTER.refresh();
}

/// Gives all freed memory that is kept for reuse back to the kernel.
pub fn trim() {
    ROUTER.trim();
}

/// An account for one more operator. It is free for others when the handle is dropped.
#[derive(Debug)]
pub struct OperatorHandle {
    id: OperatorId,
}

impl OperatorHandle {
    /// An account; that of nobody ([`OperatorId::NONE`]) when thousands are in use.
    pub fn register() -> Self {
        Self {
            id: ROUTER.operators.register(),
        }
    }

    /// The operator.
    pub fn id(&self) -> OperatorId {
        self.id
    }

    /// Starts peak and counts again, before another execution.
    pub fn reset(&self) {
        ROUTER.operators.reset(self.id);
    }

    /// What the operator has and had.
    pub fn usage(&self) -> OperatorUsage {
        operator_usage(self.id)
    }

    /// Whether all places of its class were full, with [`Overflow::Signal`]. Cheap enough to be
    /// asked for each batch.
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
