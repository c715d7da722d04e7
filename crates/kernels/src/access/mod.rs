//! Access kernels: loops that read, write, copy or update memory in one described way, with exactly
//! the instructions that were asked for.
//!
//! ```text
//!   Access (what is wanted) ── Kernel::new: checked, SIMD width resolved ──> Kernel
//!                                                                              │ run(memory, batch, places)  throughput
//!                                                                              │ sample(...)               latency of one access
//!   SharedBytes (bytes that several threads may touch at once) ────────────────┘
//! ```
//!
//! Several threads run kernels on the same bytes at once, also writing ones; that is what a memory
//! benchmark does. So the loops touch memory through inline assembly and atomics only, behind
//! [`SharedBytes`], and never through references.

mod chain;
mod kernel;
mod loops;
mod places;
mod sampler;
mod shared;
mod single;
mod spec;
mod timer;
mod touched;
mod zipf;

pub use chain::{Chain, ChainState};
pub use kernel::Kernel;
pub use places::Places;
pub use sampler::Sampler;
pub use shared::SharedBytes;
pub use spec::{
    Access, AccessError, CacheOp, ChainStep, ChaseLocality, Distribution, FenceMode, LineState,
    Operation, Order,
};
pub use timer::{OverheadSpread, Timer};
pub use touched::{Touched, check_pattern, pattern_word};
