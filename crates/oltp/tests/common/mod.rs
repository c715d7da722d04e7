//! Memory of this machine for small stores, and runs of so many transactions.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tierloom_memory::{AnonymousNuma, PageSize, Placement};
use tierloom_oltp::{
    Abort, DriveOptions, DriveResult, Store, StoreMemory, Transactions, TxSession, drive,
};
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

/// A workload that ends after a number of commits.
struct Until<'a, W> {
    workload: &'a W,
    left: AtomicU64,
    stop: &'a AtomicBool,
}

impl<W: Transactions> Transactions for Until<'_, W> {
    type Input = W::Input;

    fn kinds(&self) -> &'static [&'static str] {
        self.workload.kinds()
    }

    fn draw(&self, rng: &mut Rng) -> (usize, W::Input) {
        self.workload.draw(rng)
    }

    fn attempt(&self, session: &mut TxSession<'_>, input: &W::Input) -> Result<(), Abort> {
        self.workload.attempt(session, input)?;
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 1 {
            self.stop.store(true, Ordering::Relaxed);
            // Others end their transactions.
            self.left.store(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn store(&self) -> &Store {
        self.workload.store()
    }
}

/// Runs so many transactions, however long they take.
pub fn run<W: Transactions>(workload: &W, clients: u32, seed: u64, commits: u64) -> DriveResult {
    let stop = &AtomicBool::new(false);
    let until = Until {
        workload,
        left: AtomicU64::new(commits),
        stop,
    };
    let options = DriveOptions {
        clients,
        duration: Duration::from_secs(3600),
        seed,
        stop,
    };
    drive(&until, &options).expect("driven")
}
