//! Settings that affect benchmark results but do not belong to the topology.
//!
//! They include clock speed, prefetchers, clustering, swap and kernel parameters. Each is a
//! [`Fact`]: known as text, or unknown with the reason and a remedy. Reading them never fails, as
//! nothing depends on them.

mod kernel;
mod prefetch;
mod processor;

use std::fmt;

use serde::Serialize;

use crate::root::Reader;
use crate::{SysRoot, Topology};

/// A setting, where it could be determined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fact {
    /// The setting as text.
    Known(String),
    /// Why it could not be determined, and what would help.
    Unknown(String),
}

impl Fact {
    /// The setting as text, if known.
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

/// Settings of a machine during a benchmark, read at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// CPU frequency governor and driver, by CPUs if they differ.
    pub governor: Fact,
    /// Whether cores may exceed their base frequency ("on", "off").
    pub turbo: Fact,
    /// Sub-NUMA clustering as the nodes show it ("2 nodes per socket", "off").
    pub snc: Fact,
    /// Hardware prefetchers that are off, according to the control register of each CPU.
    pub prefetchers: Fact,
    /// Microcode revision of the first CPU.
    pub microcode: Fact,
    /// Whether cores run several hardware threads ("on, 2 threads per core", "off").
    pub smt_active: Fact,
    /// Swap areas with their use; "none" is best for measurements.
    pub swap: Fact,
    /// Mode of the kernel's page migration.
    pub numa_balancing: Fact,
    /// Mode of transparent huge pages.
    pub thp: Fact,
    /// Whether this is a virtual machine, with its vendor and product.
    pub hypervisor: Fact,
    /// Clock source of the kernel.
    pub clocksource: Fact,
    /// Kernel parameters that affect CPUs and memory (`isolcpus=`, `numa=`, ...), or "none".
    pub kernel_words: Fact,
}

impl Environment {
    /// Reads the settings below `root`; `topology` has to be from the same root.
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

    /// All settings with their names, in a fixed order, for tables.
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
