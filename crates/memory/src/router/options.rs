//! Options of the router, and the errors of its configuration.

use std::str::FromStr;

use serde::Serialize;

use super::Class;
use super::kernel::{MAX_NODES, MAX_PARTS, Nodes};
use crate::{MIB, Placement, PlacementKind};

/// Most places that a class may name.
pub const MAX_PLACES: usize = 3;
/// Default of [`RouterOptions::cache_bytes`]: 256 MiB per place of a class.
pub const DEFAULT_CACHE_BYTES: u64 = 256 * MIB as u64;
/// Name of the fallback place behind the configured ones, where the kernel chooses the node.
pub const SYSTEM_PLACE: &str = "system";

/// Name of the place in a pool.
pub const POOL_PLACE: &str = "pool";

/// Name of the row of usage tables for blocks allocated before their place was given other nodes.
pub const EARLIER_PLACE: &str = "earlier places";
/// Name of the inner allocator in events.
///
/// It serves what the router has no addresses left for. Its bytes are not counted.
pub const INNER_PLACE: &str = "allocator";

/// Where the pages of a place come from.
#[derive(Debug, Clone, PartialEq)]
pub enum PlaceMemory {
    /// Nodes; partitioned placements cannot be routed.
    Nodes(Placement),
    /// The pool that was lent to the router with [`super::lend_pool`]; once per class.
    Pool,
}

/// One place of a class, with its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceOptions {
    /// Name used in usage tables and events.
    pub name: String,
    /// Where its pages come from.
    pub memory: PlaceMemory,
    /// Most bytes that the class may hold there, freed ones that are cached for reuse included.
    pub limit_bytes: u64,
}

/// What to do with an allocation when all places of its class are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// Serve the allocation from the node that the kernel chooses, and count it there.
    #[default]
    Serve,
    /// Serve it in the same way and mark the operator as being over its limit.
    ///
    /// The code that runs the operator polls [`super::OperatorHandle::is_over`] and ends the query.
    /// Most programs abort on a failed allocation, so this is the way to an ordinary error.
    Signal,
    /// Fail it: the allocator returns null.
    ///
    /// That aborts a program which does not allocate with `try_reserve`.
    Refuse,
}

/// Places, overflow behaviour and cache size of all classes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RouterOptions {
    /// The places of each class, first choice first.
    ///
    /// Allocations of a class without places are counted, and the kernel chooses their node.
    pub places: Vec<(Class, Vec<PlaceOptions>)>,
    /// What to do when all places of a class are full.
    pub overflow: Overflow,
    /// Bytes of freed memory that each place of each class caches for its next allocation.
    ///
    /// `None` for [`DEFAULT_CACHE_BYTES`].
    pub cache_bytes: Option<u64>,
}

impl RouterOptions {
    /// The places of `class`, first choice first; empty if none are configured.
    pub fn places_of(&self, class: Class) -> &[PlaceOptions] {
        let found = self.places.iter().find(|(of, _)| *of == class);
        found.map_or(&[], |(_, places)| places)
    }
}

/// Why a configuration of the router was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RouterError {
    /// The class name is not one of [`Class::ALL`].
    #[error(
        "unknown class of operator memory `{asked}`; choose one of {}",
        class_names()
    )]
    UnknownClass {
        /// The name as given, in lower case.
        asked: String,
    },
    /// The text is not a place, or not a list of places.
    #[error("cannot read the place `{text}` of operator memory: {reason}")]
    Spec {
        /// The element that cannot be read.
        text: String,
        /// What is wrong with it, and what would be accepted.
        reason: String,
    },
    /// A class has more than [`MAX_PLACES`] places.
    #[error("class {class} has {count} places; at most {MAX_PLACES} can be told apart")]
    TooManyPlaces {
        /// The class with too many places.
        class: Class,
        /// Number of places given.
        count: usize,
    },
    /// A class names the pool twice.
    #[error("class {class} names the pool twice")]
    PoolTwice {
        /// The class.
        class: Class,
    },
    /// A class names a pool, and none was lent.
    #[error("class {class} is to use memory of a pool, and no pool is open; name one with --pool")]
    NoPool {
        /// The class.
        class: Class,
    },
    /// Another pool was to be lent while memory of the one before is in use.
    #[error("memory of pool {name} is in use; no other pool can be used before it is free")]
    PoolInUse {
        /// The pool whose memory is in use.
        name: String,
    },
    /// The router cannot apply the placement.
    #[error("class {class}: placement `{placement}` cannot be routed: {reason}")]
    Placement {
        /// The class whose place it is.
        class: Class,
        /// The placement, as text.
        placement: String,
        /// Why not, and what to use instead.
        reason: String,
    },
    /// The program's global allocator is not a [`super::TierAllocator`].
    #[error(
        "operator memory cannot be routed: this program's global allocator is not a `TierAllocator`; \
         declare one (`#[global_allocator] static A: TierAllocator<_> = ...`) or run with routing off"
    )]
    NotInstalled,
    /// The kernel did not reserve even the smallest address range.
    #[error(
        "cannot reserve address space for operator memory: mmap answered errno {errno}; \
         raise the limit on address space (`ulimit -v unlimited`) or allow overcommit (vm.overcommit_memory 0 or 1)"
    )]
    Reserve {
        /// The errno of the last `mmap`.
        errno: i32,
    },
}

impl FromStr for Class {
    type Err = RouterError;

    /// Finds a class by its name, in any letter case.
    ///
    /// # Errors
    /// [`RouterError::UnknownClass`]; its message lists the names.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = text.trim().to_ascii_lowercase();
        let found = Class::ALL.into_iter().find(|class| class.name() == wanted);
        found.ok_or(RouterError::UnknownClass { asked: wanted })
    }
}

fn class_names() -> String {
    Class::ALL.map(Class::name).join(", ")
}

/// Converts a placement into the fixed-size form that the allocator can copy without allocating.
pub(super) fn nodes_of(class: Class, placement: &Placement) -> Result<Nodes, RouterError> {
    let wrong = |reason: String| RouterError::Placement {
        class,
        placement: placement.to_string(),
        reason,
    };
    let parts: Vec<(u32, u32)> = match placement.kind() {
        PlacementKind::Default => Vec::new(),
        PlacementKind::Bind(node) => vec![(node.0, 1)],
        PlacementKind::Weighted(weights) => weights.iter().map(|(n, w)| (n.0, *w)).collect(),
        PlacementKind::Partitioned(_) => {
            return Err(wrong(
                "operator memory has no first and second part; give weights, as in `0:7,1:3`"
                    .to_owned(),
            ));
        }
    };
    if parts.len() > MAX_PARTS {
        return Err(wrong(format!("at most {MAX_PARTS} nodes can be weighted")));
    }
    let mut nodes = Nodes::ANY;
    for (slot, (node, weight)) in nodes.parts.iter_mut().zip(&parts) {
        let small = u8::try_from(*node)
            .ok()
            .filter(|n| usize::from(*n) < MAX_NODES);
        let node =
            small.ok_or_else(|| wrong(format!("only nodes below {MAX_NODES} can be routed to")))?;
        *slot = (node, *weight);
    }
    nodes.count = parts.len() as u8;
    Ok(nodes)
}
