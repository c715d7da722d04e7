//! Settings outside the topology that change what a benchmark measures: clock speed, prefetchers, clustering, swap, kernel words.
//!
//! Each one is a [`Fact`]: known with its text, or not known with the reason and what would help. Nothing here is needed to run, so nothing here fails.

mod kernel;
mod prefetch;
mod processor;

use std::fmt;

use serde::Serialize;

use crate::root::Reader;
use crate::{SysRoot, Topology};

/// A setting as far as it could be found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fact {
    /// What it is, in words.
    Known(String),
    /// Why it is not known, and what would help.
    Unknown(String),
}

impl Fact {
    /// Its text if it is known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Unknown(_) => None,
        }
    }

    fn of(text: impl Into<String>) -> Self {
        Self::Known(text.into())
    }

    fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(text) => f.pad(text),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// What a machine was set to when a benchmark ran, read at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// CPU frequency governor and driver, with the CPUs where they differ.
    pub governor: Fact,
    /// Whether cores may go above their base frequency ("on", "off").
    pub turbo: Fact,
    /// Sub-NUMA clustering as far as the nodes show it ("2 nodes per socket", "off").
    pub snc: Fact,
    /// Hardware prefetchers that are switched off, from the control register of each core.
    pub prefetchers: Fact,
    /// Microcode revision.
    pub microcode: Fact,
    /// Whether cores run several hardware threads ("on, 2 threads per core", "off").
    pub smt_active: Fact,
    /// Swap space and the use made of it; "none" is what a measurement wants.
    pub swap: Fact,
    /// The kernel's own page migration.
    pub numa_balancing: Fact,
    /// Mode of transparent huge pages.
    pub thp: Fact,
    /// Whether this is a virtual machine, and of whom.
    pub hypervisor: Fact,
    /// Where the kernel takes time from.
    pub clocksource: Fact,
    /// Words of the kernel command line that decide about CPUs and memory (`isolcpus=`, `nohz_full=`, `numa=`, ...); "none".
    pub kernel_words: Fact,
}

impl Environment {
    /// Reads the settings of the machine below `root`, whose topology has been read.
    pub fn read(root: &SysRoot, topology: &Topology) -> Self {
        let reader = Reader::new(root);
        let processor = processor::Processor::read(&reader);
        Self {
            governor: processor::governor(&reader, &topology.cpus.online),
            turbo: processor::turbo(&reader),
            snc: processor::clustering(topology, &processor),
            prefetchers: prefetch::read(root, &topology.cpus.online, &processor),
            microcode: processor.microcode(&reader),
            smt_active: processor::smt(&reader, topology, &processor),
            swap: kernel::swap(&reader),
            numa_balancing: match topology.numa_balancing {
                Some(mode) => Fact::of(mode.to_string()),
                None => Fact::unknown(
                    "there is no kernel.numa_balancing: the kernel is built without CONFIG_NUMA_BALANCING",
                ),
            },
            thp: match &topology.huge_pages.thp_mode {
                Some(mode) => Fact::of(mode.clone()),
                None => Fact::unknown(
                    "there is no /sys/kernel/mm/transparent_hugepage/enabled: the kernel is built without CONFIG_TRANSPARENT_HUGEPAGE",
                ),
            },
            hypervisor: processor.hypervisor(&reader),
            clocksource: kernel::clocksource(&reader),
            kernel_words: kernel::words(&reader),
        }
    }

    /// Names and facts in a fixed order, for tables.
    pub fn facts(&self) -> [(&'static str, &Fact); 12] {
        [
            ("governor", &self.governor),
            ("turbo", &self.turbo),
            ("sub-NUMA clustering", &self.snc),
            ("prefetchers", &self.prefetchers),
            ("microcode", &self.microcode),
            ("SMT", &self.smt_active),
            ("swap", &self.swap),
            ("NUMA balancing", &self.numa_balancing),
            ("transparent huge pages", &self.thp),
            ("hypervisor", &self.hypervisor),
            ("clock source", &self.clocksource),
            ("kernel command line", &self.kernel_words),
        ]
    }
}
