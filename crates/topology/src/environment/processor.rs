//! Processor settings: frequency, microcode, hardware threads, clustering, virtualisation.

use std::collections::BTreeMap;

use super::Fact;
use crate::root::Reader;
use crate::{IdSet, Topology};

const CPU_DIR: &str = "sys/devices/system/cpu";

/// Manufacturer of the processor, which determines its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    Intel,
    Amd,
    Other,
}

/// Fields of the first processor in `/proc/cpuinfo`.
pub(super) struct Processor {
    fields: BTreeMap<String, String>,
}

impl Processor {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let text = reader.text("proc/cpuinfo").unwrap_or_default();
        let first = text.lines().take_while(|line| !line.trim().is_empty());
        let fields = first
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect();
        Self { fields }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    pub(super) fn vendor(&self) -> Vendor {
        let model = || self.field("model name").unwrap_or_default().to_uppercase();
        match self.field("vendor_id") {
            Some("GenuineIntel") => Vendor::Intel,
            Some("AuthenticAMD") => Vendor::Amd,
            Some(_) => Vendor::Other,
            None if model().starts_with("INTEL") => Vendor::Intel,
            None if model().starts_with("AMD") => Vendor::Amd,
            None => Vendor::Other,
        }
    }

    pub(super) fn family(&self) -> Option<u32> {
        self.field("cpu family")?.parse().ok()
    }

    /// Whether the processor reports a hypervisor; `None` if it lists no features.
    pub(super) fn is_guest(&self) -> Option<bool> {
        let flags = self.field("flags")?;
        Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
    }

    /// Suffix for settings that a hypervisor may emulate.
    fn as_shown(&self) -> &'static str {
        match self.is_guest() {
            Some(true) => ", as the hypervisor shows it",
            _ => "",
        }
    }

    pub(super) fn microcode(&self, reader: &Reader<'_>) -> Fact {
        let from_sysfs = || reader.text(&format!("{CPU_DIR}/cpu0/microcode/version"));
        match self
            .field("microcode")
            .map(str::to_owned)
            .or_else(from_sysfs)
        {
            Some(version) => Fact::of(version),
            None => Fact::unknown("/proc/cpuinfo has no line `microcode`"),
        }
    }

    pub(super) fn hypervisor(&self, reader: &Reader<'_>) -> Fact {
        let product: Vec<String> = ["sys_vendor", "product_name"]
            .iter()
            .filter_map(|name| reader.root.text(&format!("sys/class/dmi/id/{name}")))
            .filter(|text| !text.is_empty())
            .collect();
        let named = |text: &str| match product.is_empty() {
            true => Fact::of(text),
            false => Fact::of(format!("{text} ({})", product.join(" "))),
        };
        match self.is_guest() {
            Some(true) => named("virtual machine"),
            Some(false) => named("none"),
            None => Fact::unknown("/proc/cpuinfo has no line `flags`"),
        }
    }
}

pub(super) fn governor(reader: &Reader<'_>, online: &IdSet) -> Fact {
    let mut cpus_of: BTreeMap<String, IdSet> = BTreeMap::new();
    for cpu in online.iter() {
        if let Some(governor) = reader.text(&format!("{CPU_DIR}/cpu{cpu}/cpufreq/scaling_governor"))
        {
            cpus_of.entry(governor).or_default().insert(cpu);
        }
    }
    let driver = online
        .first()
        .and_then(|cpu| reader.text(&format!("{CPU_DIR}/cpu{cpu}/cpufreq/scaling_driver")));
    let driver = driver.map_or(String::new(), |driver| format!(" ({driver})"));
    // Online CPUs without cpufreq must not appear to have the governor of the others.
    let everywhere = cpus_of.values().next().is_some_and(|cpus| cpus == online);
    match cpus_of.len() {
        0 => Fact::unknown(
            "there is no cpufreq in /sys: firmware or the hypervisor sets the frequency",
        ),
        1 if everywhere => Fact::of(format!(
            "{}{driver}",
            cpus_of.keys().next().map_or("", String::as_str)
        )),
        _ => {
            let one = |(governor, cpus): (&String, &IdSet)| format!("{governor} on CPUs {cpus}");
            let all: Vec<String> = cpus_of.iter().map(one).collect();
            Fact::of(format!("{}{driver}", all.join(", ")))
        }
    }
}

pub(super) fn turbo(reader: &Reader<'_>) -> Fact {
    // The switch of intel_pstate is inverted.
    let switches = [
        ("intel_pstate/no_turbo", ["on", "off"]),
        ("cpufreq/boost", ["off", "on"]),
    ];
    for (file, words) in switches {
        match reader.text(&format!("{CPU_DIR}/{file}")).as_deref() {
            Some("0") => return Fact::of(words[0]),
            Some("1") => return Fact::of(words[1]),
            _ => {}
        }
    }
    Fact::unknown(format!(
        "neither /{CPU_DIR}/intel_pstate/no_turbo nor /{CPU_DIR}/cpufreq/boost tells it"
    ))
}

/// Number of hardware threads per core; guests see what the hypervisor presents.
pub(super) fn smt(reader: &Reader<'_>, topology: &Topology, processor: &Processor) -> Fact {
    let threads = topology.cpus.threads_per_core;
    let on = match reader.text(&format!("{CPU_DIR}/smt/active")).as_deref() {
        Some("0") => false,
        Some("1") => true,
        _ if threads > 1 => true,
        _ if topology.cpus.sockets > 0 => false,
        _ => return Fact::unknown(format!("there is no /{CPU_DIR}/smt/active")),
    };
    let guest = processor.as_shown();
    Fact::of(match on {
        true => format!("on, {threads} threads per core{guest}"),
        false => format!("off{guest}"),
    })
}

/// Nodes with CPUs per socket: more than one means sub-NUMA clustering (Intel) or NPS (AMD).
pub(super) fn clustering(topology: &Topology, processor: &Processor) -> Fact {
    let mut nodes_of: BTreeMap<u32, usize> = BTreeMap::new();
    let mut with_cpus = 0_u32;
    for node in topology.nodes.iter().filter(|node| !node.cpus.is_empty()) {
        with_cpus += 1;
        if let Some(socket) = node.socket {
            *nodes_of.entry(socket).or_default() += 1;
        }
    }
    let sockets = topology.cpus.sockets;
    let (Some(fewest), Some(most)) = (nodes_of.values().min(), nodes_of.values().max()) else {
        return Fact::unknown("the kernel does not tell which socket a node's CPUs are in");
    };
    if with_cpus < sockets {
        return Fact::unknown(format!(
            "{sockets} sockets show {with_cpus} nodes with CPUs: firmware interleaves the sockets, or the kernel command line says numa=off"
        ));
    }
    let guest = processor.as_shown();
    Fact::of(match (fewest, most) {
        (1, 1) => format!("off{guest}"),
        (fewest, most) if fewest == most => format!("{most} nodes per socket{guest}"),
        _ => format!("{fewest} to {most} nodes per socket{guest}"),
    })
}
