//! Abilities that only a system call reveals.

use super::process::Process;
use super::{Ability, Probes};
use crate::kernel::version;
use crate::{IdSet, SysRoot, Topology, WeightedInterleave};

/// Advice for calls that a container's seccomp filter rejects.
///
/// The default profiles of Docker and Podman allow memory policy calls with this capability.
const ADD_SYS_NICE: &str = "start the container with --cap-add SYS_NICE (Docker's and Podman's default seccomp profiles allow the calls then)";
const BOOT_NUMA: &str = "boot a kernel built with CONFIG_NUMA=y and CONFIG_MIGRATION=y, as those of the large distributions are";

/// Cause and fix for a memory policy call that failed with `errno`.
fn refusal(errno: i32, process: &Process) -> (String, String) {
    match errno {
        libc::EPERM | libc::EACCES if process.seccomp => (
            "a seccomp filter refuses memory policy calls (EPERM)".to_owned(),
            ADD_SYS_NICE.to_owned(),
        ),
        libc::EPERM | libc::EACCES => (
            "a capability for memory policy calls is missing (EPERM)".to_owned(),
            "run the command with sudo, or in a container with --cap-add SYS_NICE".to_owned(),
        ),
        libc::ENOSYS => (
            "the kernel has no such call (ENOSYS)".to_owned(),
            BOOT_NUMA.to_owned(),
        ),
        other => (
            format!("the call failed with {}", errno_name(other)),
            format!(
                "please report errno {other} with the output of tierloom topology --record DIR"
            ),
        ),
    }
}

fn by_probe(
    name: &str,
    works: String,
    fails: &str,
    result: Result<(), i32>,
    process: &Process,
) -> Ability {
    match result {
        Ok(()) => Ability::yes(name, works),
        Err(errno) => {
            let (cause, fix) = refusal(errno, process);
            Ability::no(name, fails, cause, fix)
        }
    }
}

pub(super) fn policies(topology: &Topology, probes: &dyn Probes, process: &Process) -> Ability {
    let nodes: IdSet = topology.memory_nodes().into_iter().collect();
    let works = match nodes.len() {
        1 => {
            format!("work; node {nodes} is the only one with memory, so every placement ends there")
        }
        _ => format!("work; memory on nodes {nodes}"),
    };
    by_probe(
        "NUMA memory policies",
        works,
        "cannot be set",
        probes.get_mempolicy(),
        process,
    )
}

pub(super) fn weighted_interleave(
    topology: &Topology,
    probes: &dyn Probes,
    process: &Process,
) -> Ability {
    const NAME: &str = "kernel weighted interleave";
    const WITHOUT: &str = "Tierloom's weights per object do without it";
    let newer = || "boot Linux 6.9 or later (on Debian 12: apt install -t bookworm-backports linux-image-amd64)";
    // Both sources are needed: a container may hide /sys although the call works, and a filter may
    // reject the call although /sys shows the weights.
    match (&topology.weighted_interleave, probes.weighted_interleave()) {
        (WeightedInterleave::Present { weights, .. }, Ok(())) => {
            let weights: Vec<String> = weights
                .iter()
                .map(|(node, weight)| format!("{node}:{weight}"))
                .collect();
            Ability::yes(
                NAME,
                format!("works; system-wide weights {}", weights.join(",")),
            )
        }
        (WeightedInterleave::Present { .. }, Err(errno)) => {
            let (cause, fix) = match errno {
                libc::EINVAL => (
                    "the running kernel does not know the policy (EINVAL)".to_owned(),
                    newer().to_owned(),
                ),
                other => refusal(other, process),
            };
            Ability::no(
                NAME,
                format!("weights exist, but the policy cannot be set; {WITHOUT}"),
                cause,
                fix,
            )
        }
        (WeightedInterleave::Absent { reason }, Ok(())) => Ability::limited(
            NAME,
            "the policy can be set, but its weights cannot be seen",
            reason.clone(),
            "mount sysfs (mount -t sysfs none /sys), or in a container -v /sys/kernel/mm/mempolicy:/sys/kernel/mm/mempolicy",
        ),
        (WeightedInterleave::Absent { reason }, Err(_)) => {
            let old = version(&topology.kernel_release).is_none_or(|version| version < (6, 9));
            let fix = if old { newer() } else { BOOT_NUMA };
            Ability::no(NAME, format!("not offered; {WITHOUT}"), reason.clone(), fix)
        }
    }
}

pub(super) fn page_query(probes: &dyn Probes, process: &Process) -> Ability {
    let works = "move_pages tells where pages are: placements can be audited".to_owned();
    by_probe(
        "page queries",
        works,
        "pages cannot be located: no page audit",
        probes.page_query(),
        process,
    )
}

pub(super) fn page_move(probes: &dyn Probes, process: &Process) -> Ability {
    let works = "move_pages moves own pages".to_owned();
    by_probe(
        "page migration",
        works,
        "pages cannot be moved",
        probes.page_move(),
        process,
    )
}

pub(super) fn perf_events(root: &SysRoot, probes: &dyn Probes, process: &Process) -> Ability {
    const NAME: &str = "perf events";
    let Err(errno) = probes.perf_event() else {
        return Ability::yes(NAME, "CPU cycles of own threads can be counted");
    };
    let paranoid = root.text("proc/sys/kernel/perf_event_paranoid");
    let (cause, fix) = match errno {
        libc::EACCES | libc::EPERM => match paranoid.as_deref().map(str::parse::<i32>) {
            // Level 2 excludes kernel events from unprivileged users; level 3, a patch of some
            // distributions, excludes all events.
            Some(Ok(level)) if level > 1 => (
                format!("kernel.perf_event_paranoid is {level}"),
                "sysctl kernel.perf_event_paranoid=1".to_owned(),
            ),
            _ if process.seccomp => (
                "a seccomp filter refuses perf_event_open (EPERM)".to_owned(),
                "start the container with --cap-add PERFMON (--cap-add SYS_ADMIN before Linux 5.8)"
                    .to_owned(),
            ),
            _ => (
                format!("permission is missing ({})", errno_name(errno)),
                "run the command with sudo, or in a container with --cap-add PERFMON".to_owned(),
            ),
        },
        libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV => (
            format!(
                "there is no hardware counter ({}): a virtual machine without a virtual PMU",
                errno_name(errno)
            ),
            "give the virtual machine one (QEMU/KVM: -cpu host,pmu=on), or measure on bare metal"
                .to_owned(),
        ),
        libc::ENOSYS => (
            "the kernel has no perf_event_open (ENOSYS)".to_owned(),
            "boot a kernel built with CONFIG_PERF_EVENTS=y".to_owned(),
        ),
        other => (
            format!("perf_event_open failed with {}", errno_name(other)),
            format!(
                "please report errno {other} with the output of tierloom topology --record DIR"
            ),
        ),
    };
    Ability::no(
        NAME,
        "CPU cycles cannot be counted; Tierloom uses its own byte and time counts",
        cause,
        fix,
    )
}

/// Symbolic name of an errno that these calls return.
fn errno_name(errno: i32) -> String {
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::E2BIG => "E2BIG",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENOSPC => "ENOSPC",
        libc::ENOSYS => "ENOSYS",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        other => return format!("errno {other}"),
    };
    name.to_owned()
}
