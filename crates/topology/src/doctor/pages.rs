//! Abilities: huge pages and memory hot-plug.

use super::Ability;
use crate::{SysRoot, Topology};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

pub(super) fn transparent(topology: &Topology) -> Ability {
    const NAME: &str = "transparent huge pages";
    match topology.huge_pages.thp_mode.as_deref() {
        Some("never") => Ability::no(
            NAME,
            "switched off",
            "/sys/kernel/mm/transparent_hugepage/enabled is `never`",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(mode) => Ability::yes(NAME, format!("mode {mode}")),
        None => Ability::no(
            NAME,
            "not offered",
            "/sys/kernel/mm/transparent_hugepage/enabled cannot be read: a kernel without CONFIG_TRANSPARENT_HUGEPAGE, or /sys is hidden",
            "boot a kernel built with CONFIG_TRANSPARENT_HUGEPAGE=y, or mount sysfs: mount -t sysfs none /sys",
        ),
    }
}

pub(super) fn hugetlb_2_mib(topology: &Topology) -> Ability {
    hugetlb(
        topology,
        &Hugetlb {
            name: "hugetlb 2 MiB pages",
            size_bytes: 2 * MIB,
            fill: "echo 1024 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            offer: "boot a kernel built with CONFIG_HUGETLBFS=y and 4 KiB base pages",
        },
    )
}

pub(super) fn hugetlb_1_gib(topology: &Topology) -> Ability {
    hugetlb(
        topology,
        &Hugetlb {
            name: "hugetlb 1 GiB pages",
            size_bytes: GIB,
            fill: "echo 4 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages  # or, where memory is fragmented, boot with hugepagesz=1G hugepages=4",
            offer: "a CPU with the flag pdpe1gb is needed; for a virtual machine: -cpu host (QEMU/KVM)",
        },
    )
}

/// One hugetlb page size, with the advice for its pool.
struct Hugetlb {
    name: &'static str,
    size_bytes: u64,
    /// Command that puts pages into the pool.
    fill: &'static str,
    /// How to get a kernel or CPU that offers the page size.
    offer: &'static str,
}

fn hugetlb(topology: &Topology, wish: &Hugetlb) -> Ability {
    let Some(pool) = topology.huge_pages.pool(wish.size_bytes) else {
        let kib = wish.size_bytes / 1024;
        let cause = format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB does not exist");
        return Ability::no(wish.name, "not offered", cause, wish.offer);
    };
    let count = pool.all;
    match (count.total, count.free) {
        (0, _) => Ability::no(
            wish.name,
            "no page in the pool",
            "nobody has put pages into the pool",
            wish.fill,
        ),
        (total, 0) => Ability::limited(
            wish.name,
            format!("{total} pages, none free"),
            "all are in use",
            wish.fill,
        ),
        (total, free) => Ability::yes(wish.name, format!("{free} of {total} pages are free")),
    }
}

pub(super) fn hot_plug(topology: &Topology, root: &SysRoot) -> Ability {
    const NAME: &str = "memory hot-plug";
    const FIX: &str = "echo online_movable > /sys/devices/system/memory/auto_online_blocks";
    let Some(policy) = root.text("sys/devices/system/memory/auto_online_blocks") else {
        return Ability::no(
            NAME,
            "not offered",
            "/sys/devices/system/memory/auto_online_blocks does not exist: a kernel without CONFIG_MEMORY_HOTPLUG, or /sys is hidden",
            "boot a kernel built with CONFIG_MEMORY_HOTPLUG=y and CONFIG_MEMORY_HOTREMOVE=y",
        );
    };
    let offline: u32 = topology
        .nodes
        .iter()
        .filter_map(|node| node.memory_blocks.as_ref())
        .map(|blocks| blocks.offline)
        .sum();
    let waiting = if offline > 0 {
        format!("; {offline} blocks are offline now")
    } else {
        String::new()
    };
    let finding = format!("policy for new memory: {policy}{waiting}");
    match policy.as_str() {
        "online_movable" => Ability::yes(NAME, finding),
        "offline" => Ability::limited(
            NAME,
            finding,
            "new memory, as of a CXL device, stays offline until somebody switches it on",
            FIX,
        ),
        // `online` and `online_kernel` may put new memory into zone Normal.
        _ => Ability::limited(
            NAME,
            finding,
            "new memory may serve the kernel itself, and then cannot be taken offline again",
            FIX,
        ),
    }
}
