//! All counters of a machine together.

use std::sync::Arc;

use tierloom_topology::SysRoot;

use crate::plan::{core, cxl, uncore};
use crate::source::{CounterSource, OpenCounters, PerfSource, ResctrlSource};
use crate::{LinuxOpener, PerfOpener, Reading, RefusingOpener};

/// Which kinds of counters to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Events of the cores, for the calling thread and the threads created under it.
    pub core: bool,
    /// Memory controllers, CXL devices and resctrl: they count the whole machine.
    pub machine: bool,
}

impl Selection {
    /// Everything.
    pub const ALL: Self = Self {
        core: true,
        machine: true,
    };
    /// The cores only: for a second task of the same run, whose machine-wide counts would be those of the first.
    pub const CORE: Self = Self {
        core: true,
        machine: false,
    };
    /// The whole machine only.
    pub const MACHINE: Self = Self {
        core: false,
        machine: true,
    };
}

/// What a machine can count, found out once.
#[derive(Debug)]
pub struct Counters {
    core: Box<dyn CounterSource>,
    machine: Vec<Box<dyn CounterSource>>,
}

impl Counters {
    /// Finds out what the machine below `root` can count. On a recorded tree nothing can be opened, and the readings say so.
    pub fn probe(root: &SysRoot) -> Self {
        match root.is_host() {
            true => Self::with_opener(root, Arc::new(LinuxOpener)),
            false => Self::with_opener(root, Arc::new(RefusingOpener)),
        }
    }

    /// Like [`Counters::probe`], with perf events opened by `opener`.
    pub fn with_opener(root: &SysRoot, opener: Arc<dyn PerfOpener>) -> Self {
        let perf = |plan| -> Box<dyn CounterSource> {
            Box::new(PerfSource::new(root, plan, Arc::clone(&opener)))
        };
        Self {
            core: perf(core::plan(root)),
            machine: vec![
                perf(uncore::plan(root)),
                perf(cxl::plan(root)),
                Box::new(ResctrlSource::probe(root)),
            ],
        }
    }

    /// Opens the selected counters, switched off: [`Running::resume`] starts them.
    ///
    /// Core events count the calling thread and the threads that it, and they, create after this call. Threads that exist already are not
    /// counted, nor are those of a thread pool that is older.
    pub fn open(&self, selection: Selection) -> Running {
        let core = selection.core.then_some(&self.core);
        let machine = self.machine.iter().filter(|_| selection.machine);
        Running {
            sources: core
                .into_iter()
                .chain(machine)
                .map(|source| source.open())
                .collect(),
        }
    }

    /// Opens all counters and switches them on; see [`Counters::open`] for which threads are counted.
    pub fn start(&self) -> Running {
        let mut running = self.open(Selection::ALL);
        running.resume();
        running
    }
}

/// Open counters. Dropped without [`Running::stop`], they are closed and nothing is told.
#[derive(Debug)]
pub struct Running {
    sources: Vec<Box<dyn OpenCounters>>,
}

impl Running {
    /// Counts from now on. Core events are switched on last, since they are the ones that count this call too.
    pub fn resume(&mut self) {
        for source in self.sources.iter_mut().rev() {
            source.resume();
        }
    }

    /// Counts no more until [`Running::resume`]; what was counted stays. For the untimed work between repetitions.
    pub fn pause(&mut self) {
        for source in &mut self.sources {
            source.pause();
        }
    }

    /// Stops and tells what was counted while switched on: one reading for everything that is wanted, available or not.
    pub fn stop(mut self) -> Vec<Reading> {
        self.pause();
        self.sources
            .iter_mut()
            .flat_map(|source| source.readings())
            .collect()
    }
}
