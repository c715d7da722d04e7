//! Abilities: CXL memory devices and DAX.

use super::Ability;
use crate::Topology;
use crate::cxl::{DaxDevice, DaxMode};

pub(super) fn memory_devices(topology: &Topology) -> Ability {
    const NAME: &str = "CXL memory devices";
    const LOAD: &str = "modprobe -a cxl_acpi cxl_pci cxl_port cxl_mem  # lspci -d ::0502 lists CXL memory devices that the machine has";
    let cxl = &topology.cxl;
    if !cxl.bus {
        let cause = "no device on the CXL bus: the machine has no CXL host bridge, firmware hides it, or its drivers are not loaded";
        return Ability::no(NAME, "none; CXL tiers can be modelled", cause, LOAD);
    }
    let names: Vec<&str> = cxl
        .memdevs
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    if names.is_empty() {
        return Ability::no(
            NAME,
            "a CXL bus without memory devices",
            "no memory device has a driver",
            LOAD,
        );
    }
    let unused: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| cxl.regions_of_memdev(name).next().is_none())
        .collect();
    let finding = format!("{} in {}", names.join(", "), regions(topology));
    match unused.first() {
        None => Ability::yes(NAME, finding),
        Some(first) => Ability::limited(
            NAME,
            finding,
            format!(
                "{} in no region, so that the memory cannot be used",
                unused.join(", ")
            ),
            format!("cxl create-region -t ram -d decoder0.0 -m {first}"),
        ),
    }
}

fn regions(topology: &Topology) -> String {
    let names: Vec<&str> = topology
        .cxl
        .regions
        .iter()
        .map(|region| region.name.as_str())
        .collect();
    if names.is_empty() {
        "no region".to_owned()
    } else {
        names.join(", ")
    }
}

pub(super) fn devdax(topology: &Topology) -> Ability {
    const NAME: &str = "devdax";
    let in_mode = |mode: DaxMode| -> Vec<&DaxDevice> {
        topology
            .cxl
            .dax_devices
            .iter()
            .filter(|device| device.mode == mode)
            .collect()
    };
    let names = |devices: &[&DaxDevice]| {
        devices
            .iter()
            .map(|device| device.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (devdax, ram, unbound) = (
        in_mode(DaxMode::Devdax),
        in_mode(DaxMode::SystemRam),
        in_mode(DaxMode::Unbound),
    );
    if !devdax.is_empty() {
        return Ability::yes(NAME, format!("{} can be mapped directly", names(&devdax)));
    }
    // Unbound devices before system-ram ones: using them costs no memory of a node.
    if let Some(first) = unbound.first() {
        return Ability::no(
            NAME,
            format!("{} not in use", names(&unbound)),
            "no driver is bound to it",
            format!(
                "modprobe device_dax; daxctl reconfigure-device --mode=devdax {}",
                first.name
            ),
        );
    }
    match ram.first() {
        Some(first) => Ability::limited(
            NAME,
            format!("{} used as system RAM", names(&ram)),
            "memory is either of a node (system-ram) or a device (devdax)",
            format!(
                "daxctl reconfigure-device --mode=devdax --force {}  # takes its memory offline first",
                first.name
            ),
        ),
        None => Ability::no(
            NAME,
            "no DAX device",
            "no CXL region, NVDIMM or soft-reserved memory is there to make one of",
            "with CXL memory: cxl create-region; to try it without: boot with memmap=4G!12G, then ndctl create-namespace --mode=devdax",
        ),
    }
}
