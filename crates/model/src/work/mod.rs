//! Work to be modelled: phases, the structures they access, and the placement of those on tiers.

mod phase;
mod placement;

pub use phase::{
    Access, COPY_NS_PER_LINE, LINE_BYTES, MORSEL_BYTES, Op, Pattern, Phase, PhaseKind,
    StructureClass,
};
pub use placement::{Placement, TierShare, TierShares};
