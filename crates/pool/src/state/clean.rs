//! Proof that no cache holds a dirty line of some extents.
//!
//! A dead process leaves dirty lines in its host's caches, which may reach memory at any later
//! time, over the data of the next owner. So extents that somebody has written become free only
//! with one of these (rule R4).

use crate::format::Coherence;

/// No cache of the host that wrote the extents has a dirty line of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clean(());

impl Clean {
    /// All users share one coherent cache, so it does not matter who writes a line back.
    pub(crate) fn coherent(coherence: Coherence) -> Option<Self> {
        (coherence != Coherence::None).then_some(Self(()))
    }

    /// The host was started anew since, and its caches are gone.
    pub(crate) fn rebooted(then: &str, now: &str) -> Option<Self> {
        let known = !then.is_empty() && !now.is_empty();
        (known && then != now).then_some(Self(()))
    }

    /// The lines were written back and dropped on that host, in the closure.
    pub(crate) fn evicted<E>(evict: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        evict().map(|()| Self(()))
    }

    /// A person says that the host is switched off or cut off from the memory.
    pub(crate) fn confirmed_down() -> Self {
        Self(())
    }
}
