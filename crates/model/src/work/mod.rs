//! Work to be priced: phases, what they touch, and where that lies.

mod phase;
mod placement;

pub use phase::{
    Access, COPY_NS_PER_LINE, LINE_BYTES, MORSEL_BYTES, Op, Pattern, Phase, PhaseKind,
    StructureClass,
};
pub use placement::{Placement, TierShare, TierShares};
