//! Tests of isolation: histories of many threads, whole and with the protocol broken on purpose;
//! of processes that are killed, and clients that panic; and of the work that published stores are
//! given.

mod checkpoint;
mod full_disk;
mod graph;
mod history;
mod kill;
mod panics;
mod peer;
mod phantoms;

use std::sync::Arc;

use tierloom_memory::{AnonymousNuma, PageSize, Placement};
use tierloom_topology::{SysRoot, Topology};

use crate::StoreMemory;

/// This machine, read once.
fn topology() -> Topology {
    Topology::read(&SysRoot::host()).expect("this machine")
}

fn memory(topology: &Topology) -> StoreMemory<'_> {
    StoreMemory {
        backend: Arc::new(AnonymousNuma::new()),
        topology,
        page_size: PageSize::Base,
        placements: [(); 4].map(|()| Placement::kernel_default()),
    }
}

/// A seed of this run, which is printed.
fn seed() -> u64 {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    seed
}
