//! Abilities that depend on this process: privileges, limits, MSR access, and NUMA balancing.

use std::fs::OpenOptions;
use std::io;

use super::{Ability, Probes};
use crate::{SysRoot, Topology};

/// Bit numbers of capabilities, from `linux/capability.h`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;

/// Restrictions of this process.
pub(super) struct Process {
    pub(super) uid: u32,
    /// Effective capabilities; `None` if `/proc/self/status` does not list them.
    capabilities: Option<u64>,
    /// Whether seccomp is active.
    pub(super) seccomp: bool,
}

impl Process {
    pub(super) fn read(root: &SysRoot, probes: &dyn Probes) -> Self {
        let status = root.text("proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        Self {
            uid: probes.effective_uid(),
            capabilities: field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok()),
            // Modes: 0 is off, 1 strict, 2 a filter.
            seccomp: field("Seccomp:").is_some_and(|mode| mode != "0"),
        }
    }

    /// Whether the process has a capability.
    ///
    /// If the status file does not list capabilities, root is assumed to have all of them.
    pub(super) fn has(&self, capability: u32) -> bool {
        self.capabilities
            .map_or(self.uid == 0, |bits| bits >> capability & 1 == 1)
    }
}

pub(super) fn privileges(process: &Process) -> Ability {
    const NAME: &str = "root and capabilities";
    let wanted = [
        ("CAP_SYS_NICE", CAP_SYS_NICE),
        ("CAP_SYS_ADMIN", CAP_SYS_ADMIN),
    ];
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|(_, bit)| !process.has(*bit))
        .map(|(name, _)| *name)
        .collect();
    let finding = format!("runs as user {}", process.uid);
    match (process.uid, missing.is_empty()) {
        (0, true) => Ability::yes(
            NAME,
            format!("{finding} with CAP_SYS_NICE and CAP_SYS_ADMIN"),
        ),
        (_, true) => Ability::limited(
            NAME,
            format!("{finding} with CAP_SYS_NICE and CAP_SYS_ADMIN"),
            "only root may write kernel settings (huge page pools, kernel weights, memory blocks)",
            "run the command with sudo",
        ),
        (0, false) => Ability::limited(
            NAME,
            finding,
            format!("{} missing, as in a container", missing.join(" and ")),
            "start the container with --cap-add SYS_NICE --cap-add SYS_ADMIN",
        ),
        (_, false) => Ability::limited(
            NAME,
            finding,
            format!(
                "not root, and {} missing; placing and querying own memory works without",
                missing.join(" and ")
            ),
            "run the command with sudo, or once: sudo setcap cap_sys_nice+ep \"$(command -v tierloom)\"",
        ),
    }
}

pub(super) fn msr(topology: &Topology, root: &SysRoot, process: &Process) -> Ability {
    const NAME: &str = "MSR access (hardware prefetchers)";
    let cpu = topology.limits.cpus_allowed.first().unwrap_or(0);
    let path = format!("dev/cpu/{cpu}/msr");
    // The driver checks permissions when the device is opened, so no register has to be accessed.
    match OpenOptions::new()
        .read(true)
        .write(true)
        .open(root.join(&path))
    {
        Ok(_) => Ability::yes(NAME, format!("/{path} can be read and written")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ability::no(
            NAME,
            format!("/{path} does not exist"),
            "the msr driver is not loaded (or this is no x86 machine, which has no MSRs)",
            "modprobe msr",
        ),
        Err(error) => {
            let fix = match process.uid {
                0 => format!(
                    "in a container: --cap-add SYS_RAWIO --device /{path}; under kernel lockdown: boot without Secure Boot"
                ),
                _ => "run the command with sudo".to_owned(),
            };
            Ability::no(
                NAME,
                format!("/{path} cannot be opened"),
                format!("{error}; the driver asks for root and CAP_SYS_RAWIO"),
                fix,
            )
        }
    }
}

pub(super) fn numa_balancing(topology: &Topology) -> Ability {
    const NAME: &str = "NUMA balancing off";
    match topology.numa_balancing {
        None => Ability::yes(NAME, "the kernel has no NUMA balancing"),
        Some(mode) if !mode.is_on() => Ability::yes(NAME, "the kernel leaves pages where they are"),
        Some(mode) => Ability::limited(
            NAME,
            format!("kernel.numa_balancing is {} ({mode})", mode.0),
            "the kernel moves pages of its own accord, away from the placement asked for",
            "sysctl kernel.numa_balancing=0",
        ),
    }
}

pub(super) fn limits(topology: &Topology) -> Ability {
    const NAME: &str = "whole machine allowed";
    let limits = &topology.limits;
    let existing = topology.nodes.iter().map(|node| node.id).collect();
    let machine_bytes: u64 = topology.nodes.iter().map(|node| node.mem_total_bytes).sum();
    let mut causes = Vec::new();
    let mut fixes = Vec::new();
    if limits.cpus_allowed != topology.cpus.online {
        causes.push(format!(
            "a cpuset or an affinity mask allows cpus {} of {}",
            limits.cpus_allowed, topology.cpus.online
        ));
        fixes.push(format!(
            "taskset -pc {} $$, or in a container --cpuset-cpus={}",
            topology.cpus.online, topology.cpus.online
        ));
    }
    if limits.mems_allowed != existing {
        causes.push(format!(
            "a cpuset allows memory of nodes {} of {existing}",
            limits.mems_allowed
        ));
        fixes.push(format!(
            "in a container --cpuset-mems={existing}; under systemd AllowedMemoryNodes={existing}"
        ));
    }
    if let Some(limit) = limits
        .memory_limit_bytes
        .filter(|limit| *limit < machine_bytes)
    {
        causes.push(format!("a cgroup allows {limit} bytes of {machine_bytes}"));
        fixes.push("in a container --memory=0; under systemd MemoryMax=infinity".to_owned());
    }
    let finding = format!(
        "cpus {} and memory of nodes {} ({})",
        limits.cpus_allowed, limits.mems_allowed, limits.source
    );
    if causes.is_empty() {
        return Ability::yes(NAME, finding);
    }
    Ability::limited(NAME, finding, causes.join("; "), fixes.join("; "))
}
