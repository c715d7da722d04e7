//! All counters of a machine, opened and read together.

use std::sync::Arc;

use tierloom_topology::SysRoot;

use crate::plan::{core, cxl, uncore};
use crate::source::{CounterSource, OpenCounters, PerfSource, ResctrlSource};
use crate::{LinuxOpener, PerfOpener, Reading, RefusingOpener};

/// Kinds of counters to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Core events, for the calling thread and the threads created from it.
    pub core: bool,
    /// Memory controllers, CXL devices and resctrl, which count the whole machine.
    pub machine: bool,
}

impl Selection {
    /// All kinds of counters.
    pub const ALL: Self = Self {
        core: true,
        machine: true,
    };
    /// Core events only.
    ///
    /// For a second task of the same run: its machine-wide counts would repeat those of the first.
    pub const CORE: Self = Self {
        core: true,
        machine: false,
    };
    /// Machine-wide counters only: memory controllers, CXL devices and resctrl.
    pub const MACHINE: Self = Self {
        core: false,
        machine: true,
    };
}

/// Counters that a machine offers; probed once, opened for each measurement.
#[derive(Debug)]
pub struct Counters {
    core: Box<dyn CounterSource>,
    machine: Vec<Box<dyn CounterSource>>,
}

impl Counters {
    /// Determines which counters the machine below `root` offers.
    ///
    /// On a recorded tree nothing can be opened, and the readings say so.
    pub fn probe(root: &SysRoot) -> Self {
        // A recorded tree describes another machine; its events must not be opened on this one.
        match root.is_host() {
            true => Self::with_opener(root, Arc::new(LinuxOpener)),
            false => Self::with_opener(root, Arc::new(RefusingOpener)),
        }
    }

    /// Like [`Counters::probe`], but with `opener` for perf events.
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

    /// Opens the selected counters, switched off; [`ActiveCounters::resume`] starts them.
    ///
    /// Core events count the calling thread, and threads that it and its descendants create after
    /// this call. Existing threads are not counted, which includes those of an existing thread
    /// pool.
    pub fn open(&self, selection: Selection) -> ActiveCounters {
        let core = selection.core.then_some(&self.core);
        let machine = self.machine.iter().filter(|_| selection.machine);
        ActiveCounters {
            sources: core
                .into_iter()
                .chain(machine)
                .map(|source| source.open())
                .collect(),
        }
    }

    /// Opens all counters and starts them; [`Counters::open`] says which threads are counted.
    pub fn start(&self) -> ActiveCounters {
        let mut running = self.open(Selection::ALL);
        running.resume();
        running
    }
}

/// Open counters; dropping them without [`ActiveCounters::stop`] discards the counts.
#[derive(Debug)]
pub struct ActiveCounters {
    sources: Vec<Box<dyn OpenCounters>>,
}

impl ActiveCounters {
    /// Starts counting. Core events start last, because they count this call itself as well.
    pub fn resume(&mut self) {
        for source in self.sources.iter_mut().rev() {
            source.resume();
        }
    }

    /// Stops counting until [`ActiveCounters::resume`], and keeps the counts.
    ///
    /// For untimed work between repetitions.
    pub fn pause(&mut self) {
        for source in &mut self.sources {
            source.pause();
        }
    }

    /// What was counted so far, while counting goes on: one reading per quantity, available or not.
    pub fn readings(&mut self) -> Vec<Reading> {
        self.sources
            .iter_mut()
            .flat_map(|source| source.readings())
            .collect()
    }

    /// Stops counting and returns what was counted: one reading per quantity, available or not.
    pub fn stop(mut self) -> Vec<Reading> {
        self.pause();
        self.readings()
    }
}
