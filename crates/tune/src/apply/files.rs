//! Where the kernel keeps weights.

pub use tierloom_topology::SystemFiles;

/// The kernel's directory of weights, relative to the system root.
pub const FOLDER: &str = "sys/kernel/mm/mempolicy/weighted_interleave";
