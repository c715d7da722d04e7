//! Memory access loops with run-time SIMD dispatch: [`access`] kernels for measuring, copies and
//! reads for working.
//!
//! The loops know nothing of nodes or tiers: they work on the bytes they are given, wherever those
//! are.

pub mod access;
mod chase;
pub mod codes;
mod codes_decode;
mod codes_select;
mod copy;
pub mod hash;
mod prefetch;
mod probe;
pub mod radix;
mod read;
mod rng;
pub mod select;
mod simd;

pub use chase::{CHASE_GROUP_BYTES, ChaseRing, LINE_BYTES, MAX_CHASE_CHAINS};
pub use codes_decode::CodeValue;
pub use codes_select::{intersect, positions};
pub use copy::{CopyKind, copy, copy_with, parallel_fill_copy};
pub use prefetch::prefetch_read;
pub use probe::{StreamProbe, stream_probe};
pub use read::{sequential_read, sequential_read_with};
pub use simd::Simd;
