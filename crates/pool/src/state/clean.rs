//! Proof that no cache holds a dirty line of some extents.
//!
//! A dead process leaves dirty lines in its host's caches, which may reach memory at any later
//! time, over the data of the next owner. So extents that somebody has written become free only
//! with one of these (rule R4).

use serde::{Deserialize, Serialize};

use crate::format::Coherence;

/// No cache of the host that wrote the extents has a dirty line of them.
///
/// In a request it is the word of the process that made it there: whoever may write to the memory
/// has to be trusted with it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(into = "bool", try_from = "bool")]
pub(crate) struct Clean(());

impl From<Clean> for bool {
    fn from(_: Clean) -> Self {
        true
    }
}

impl TryFrom<bool> for Clean {
    type Error = &'static str;

    fn try_from(clean: bool) -> Result<Self, Self::Error> {
        clean
            .then_some(Self(()))
            .ok_or("extents that are not clean have no proof")
    }
}

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

    /// Nobody has written to the extents: they were never mapped.
    pub(crate) fn never_mapped() -> Self {
        Self(())
    }

    /// A person says that the host is switched off or cut off from the memory.
    pub(crate) fn confirmed_down() -> Self {
        Self(())
    }
}
