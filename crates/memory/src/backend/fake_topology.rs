//! Topologies of simulated nodes, for tests and simulation.

use std::sync::atomic::{AtomicU64, Ordering};

use tierloom_topology::{SysRoot, Topology};

use crate::MemoryError;

/// A simulated node, for [`fake_topology`].
#[derive(Debug, Clone, Copy)]
pub struct FakeNode {
    /// Node number, as the kernel would assign it.
    pub node: u32,
    /// Number of CPUs; CPU numbers continue from the nodes before.
    pub cpus: u32,
    /// Size of its memory in bytes, all of it free; 0 for a node without memory.
    pub memory_bytes: u64,
}

/// A [`Topology`] of simulated nodes.
///
/// Written as a small sysfs tree into a temporary directory and read back from there, so that it
/// goes through the same code as a real machine. The distance between any two nodes is 20, and the
/// tiers follow from that; [`Topology::override_tiers`] can change them.
///
/// # Errors
/// [`MemoryError::File`] if the tree cannot be written or parsed.
pub fn fake_topology(nodes: &[FakeNode]) -> Result<Topology, MemoryError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let root = std::env::temp_dir().join(format!(
        "tierloom-fake-topology-{}-{number}",
        std::process::id()
    ));
    let topology = write_tree(&root, nodes)
        .and_then(|()| Topology::read(&SysRoot::at(&root)).map_err(std::io::Error::other));
    // A directory that cannot be removed stays in the temporary directory, which does no harm.
    let _ = std::fs::remove_dir_all(&root);
    topology.map_err(|source| MemoryError::File {
        action: "make an invented topology in",
        path: root,
        source,
        next_step: "check that the temporary directory can be written".to_owned(),
    })
}

fn write_tree(root: &std::path::Path, nodes: &[FakeNode]) -> std::io::Result<()> {
    let write = |path: String, text: String| {
        let path = root.join(path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, text + "\n")
    };
    let join = |numbers: Vec<u32>| {
        numbers
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    let numbers = |keep: &dyn Fn(&FakeNode) -> bool| {
        join(
            nodes
                .iter()
                .filter(|node| keep(node))
                .map(|node| node.node)
                .collect(),
        )
    };
    let base = "sys/devices/system/node";
    write(format!("{base}/online"), numbers(&|_| true))?;
    write(format!("{base}/possible"), numbers(&|_| true))?;
    write(
        format!("{base}/has_memory"),
        numbers(&|node| node.memory_bytes > 0),
    )?;
    write(format!("{base}/has_cpu"), numbers(&|node| node.cpus > 0))?;
    let mut next_cpu = 0;
    for node in nodes {
        let cpus: Vec<u32> = (next_cpu..next_cpu + node.cpus).collect();
        next_cpu += node.cpus;
        let distance = |other: &FakeNode| if other.node == node.node { "10" } else { "20" };
        let id = node.node;
        let kib = node.memory_bytes / 1024;
        write(format!("{base}/node{id}/cpulist"), join(cpus.clone()))?;
        write(
            format!("{base}/node{id}/distance"),
            nodes.iter().map(distance).collect::<Vec<_>>().join(" "),
        )?;
        write(
            format!("{base}/node{id}/meminfo"),
            format!("Node {id} MemTotal: {kib} kB\nNode {id} MemFree: {kib} kB"),
        )?;
        for cpu in cpus {
            write(
                format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"),
                "0".to_owned(),
            )?;
            write(
                format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"),
                cpu.to_string(),
            )?;
        }
    }
    let last_cpu = next_cpu.saturating_sub(1);
    write(
        "sys/devices/system/cpu/online".to_owned(),
        format!("0-{last_cpu}"),
    )?;
    let total_kib: u64 = nodes.iter().map(|node| node.memory_bytes / 1024).sum();
    write(
        "proc/meminfo".to_owned(),
        format!("MemTotal: {total_kib} kB\nMemFree: {total_kib} kB"),
    )?;
    write(
        "proc/sys/kernel/osrelease".to_owned(),
        "6.12.0-invented".to_owned(),
    )?;
    write(
        "proc/cpuinfo".to_owned(),
        "processor\t: 0\nmodel name\t: invented".to_owned(),
    )?;
    let allowed = format!(
        "Cpus_allowed_list:\t0-{last_cpu}\nMems_allowed_list:\t{}",
        numbers(&|_| true)
    );
    write("proc/self/status".to_owned(), allowed)
}
