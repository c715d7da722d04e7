//! Memory of this machine for small stores.

use std::sync::Arc;

use tierloom_memory::{AnonymousNuma, PageSize, Placement};
use tierloom_oltp::StoreMemory;
use tierloom_topology::{SysRoot, Topology};

pub fn topology() -> Topology {
    Topology::read(&SysRoot::host()).expect("this machine")
}

pub fn memory(topology: &Topology) -> StoreMemory<'_> {
    StoreMemory {
        backend: Arc::new(AnonymousNuma::new()),
        topology,
        page_size: PageSize::Base,
        placements: [(); 4].map(|()| Placement::kernel_default()),
    }
}

/// A seed of this run, which is printed.
pub fn seed() -> u64 {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    seed
}
