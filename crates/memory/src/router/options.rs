//! What the router is told, and what can be wrong with it.

use serde::Serialize;

use super::Class;
use super::kernel::{MAX_NODES, MAX_PARTS, Nodes};
use crate::{MIB, Placement, PlacementKind};

/// Places that a class may name.
pub const MAX_PLACES: usize = 3;
/// Bytes of freed memory that a place of a class keeps for its next allocation, if nothing else is
/// said.
pub const DEFAULT_CACHE_BYTES: u64 = 256 * MIB as u64;
/// Name of the place behind the named ones: the kernel's choice of node.
pub const SYSTEM_PLACE: &str = "system";

/// Name of what blocks count for that were allocated before their place was given other nodes.
pub const EARLIER_PLACE: &str = "earlier places";
/// Name of the allocator inside, in events: it serves what the router has no addresses left for.
/// Nothing is counted there.
pub const INNER_PLACE: &str = "allocator";

/// One place of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceOptions {
    /// What it is called in output.
    pub name: String,
    /// Where its pages come from.
    pub placement: Placement,
    /// Bytes that the class may have there, freed ones that are kept for reuse included.
    pub limit_bytes: u64,
}

/// What happens when all places of a class are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The allocation is served from the node that the kernel chooses, and counted there.
    #[default]
    Serve,
    /// It is served in the same way, and the operator is marked as being over its limit: whoever
    /// runs it ends the query. Most programs cannot go on after an allocation that failed, so this
    /// is the way to a proper error.
    Signal,
    /// It fails: the allocator answers null, which ends a program that does not ask for memory with
    /// `try_reserve`.
    Refuse,
}

/// How large allocations are routed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RouterOptions {
    /// The places of each class, first choice first. A class without places is counted and
    /// otherwise left to the kernel.
    pub places: Vec<(Class, Vec<PlaceOptions>)>,
    /// What happens when they are full.
    pub overflow: Overflow,
    /// Bytes of freed memory that each place of each class keeps for its next allocation;
    /// [`DEFAULT_CACHE_BYTES`] if not given.
    pub cache_bytes: Option<u64>,
}

impl RouterOptions {
    /// The places of `class`.
    pub fn places_of(&self, class: Class) -> &[PlaceOptions] {
        let found = self.places.iter().find(|(of, _)| *of == class);
        found.map_or(&[], |(_, places)| places)
    }
}

/// What can be wrong with routing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RouterError {
    /// No class of that name.
    #[error(
        "unknown class of operator memory `{asked}`; choose one of {}",
        class_names()
    )]
    UnknownClass {
        /// What was typed.
        asked: String,
    },
    /// The text is no place.
    #[error("cannot read the place `{text}` of operator memory: {reason}")]
    Spec {
        /// What was typed.
        text: String,
        /// What is wrong with it, and what is right.
        reason: String,
    },
    /// More places than there is room for.
    #[error("class {class} has {count} places; at most {MAX_PLACES} can be told apart")]
    TooManyPlaces {
        /// The class.
        class: Class,
        /// Places given.
        count: usize,
    },
    /// A placement that the router cannot keep.
    #[error("class {class}: placement `{placement}` cannot be routed: {reason}")]
    Placement {
        /// The class.
        class: Class,
        /// The placement.
        placement: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// The program's allocator is another one.
    #[error(
        "operator memory cannot be routed: this program's global allocator is not a `TierAllocator`; \
         declare one (`#[global_allocator] static A: TierAllocator<_> = ...`) or run with routing off"
    )]
    NotInstalled,
    /// Address space could not be reserved.
    #[error(
        "cannot reserve address space for operator memory: mmap answered errno {errno}; \
         raise the limit on address space (`ulimit -v unlimited`) or allow overcommit (vm.overcommit_memory 0 or 1)"
    )]
    Reserve {
        /// What mmap answered.
        errno: i32,
    },
}

fn class_names() -> String {
    Class::ALL.map(Class::name).join(", ")
}

/// The placement in a form that needs no memory of its own.
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
