//! Access kernels of the memory benchmarks: loops that read, write, copy or update memory with
//! exactly the instructions that were requested.
//!
//! ```text
//!   Access (the request) ── Kernel::new: checks, resolves the SIMD width ──► Kernel
//!   Kernel::run(memory, batch, places)   throughput of a batch
//!   Sampler::sample(memory, offset)      latency of one access
//!   SharedBytes                          the memory; several threads may touch it at once
//! ```
//!
//! Several threads run kernels on the same bytes at once, and some of them write: that is what a
//! memory benchmark does. The loops therefore touch memory only through inline assembly and
//! atomics, behind [`SharedBytes`], and never through references.

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
