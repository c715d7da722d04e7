//! Memory access loops: sequential reads, copies, pointer chases and independent random reads, with run-time SIMD dispatch.
//!
//! The loops know nothing of nodes or tiers: they work on the bytes they are given, wherever those are. [`host_probe`]
//! puts them together into a measurement of this host that takes a fraction of a second.

pub mod access;
mod chase;
mod copy;
mod probe;
mod random;
mod read;
mod rng;
mod simd;
mod spread;

pub use chase::{CHASE_GROUP_BYTES, ChaseRing, LINE_BYTES, MAX_CHASE_CHAINS};
pub use copy::{CopyKind, copy, copy_with, parallel_fill_copy};
pub use probe::{HostProbe, StreamProbe, host_probe, stream_probe};
pub use random::{MAX_IN_FLIGHT, RandomRead, random_read};
pub use read::{sequential_read, sequential_read_with};
pub use simd::Simd;
pub use spread::Spread;
