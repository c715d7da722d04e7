//! Trees that are incomplete or garbled: errors and notes name the file and the expected content;
//! nothing is read as zero.

mod common;

use common::Copy;
use proptest::prelude::*;
use tierloom_topology::{
    NodeId, SysRoot, TierKind, Topology, TopologyError, WeightedInterleave, render,
};

const NODE: &str = "sys/devices/system/node";

fn assert_noted(topology: &Topology, parts: &[&str]) {
    let found = topology
        .notes
        .iter()
        .any(|note| parts.iter().all(|part| note.contains(part)));
    assert!(found, "{parts:?} not in {:?}", topology.notes);
    let tree = render::tree(topology);
    assert!(tree.contains("└─ notes"), "{tree}");
}

#[test]
fn a_directory_that_is_no_system_tree_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    for root in [empty.path().to_path_buf(), empty.path().join("missing")] {
        let error = Topology::read(&SysRoot::at(&root)).unwrap_err();
        assert!(
            matches!(error, TopologyError::NotASystemTree { .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains("sys/devices/system/node/online"),
            "{error}"
        );
    }
}

#[test]
fn memory_of_a_node_must_be_readable() {
    for text in [
        "",
        "Node 0 MemTotal: much kB\nNode 0 MemFree: 1 kB",
        "Node 0 MemTotal: 1 kB",
        "Node 1 MemTotal: 1 kB\nNode 1 MemFree: 1 kB",
    ] {
        let copy = Copy::of("vm-1node");
        copy.write(&format!("{NODE}/node0/meminfo"), text);
        let error = copy.error();
        assert!(
            error.contains("node0/meminfo should hold lines such as `MemTotal: 1024 kB`"),
            "{text}: {error}"
        );
    }
    let copy = Copy::of("vm-1node");
    copy.remove(&format!("{NODE}/node0/meminfo"));
    let error = copy.error();
    assert!(
        error.contains("cannot read") && error.contains("node0/meminfo"),
        "{error}"
    );
}

#[test]
fn lists_of_nodes_and_their_cpus_must_be_readable() {
    for (file, text) in [("online", "0-x"), ("online", ""), ("node0/cpulist", "zero")] {
        let copy = Copy::of("vm-1node");
        copy.write(&format!("{NODE}/{file}"), text);
        let error = copy.error();
        assert!(
            error.contains(file) && error.contains("should hold"),
            "{file}: {error}"
        );
    }
    let copy = Copy::of("vm-1node");
    copy.write(&format!("{NODE}/online"), "0-1\n");
    assert!(copy.error().contains("node1/meminfo"));
}

#[test]
fn garbled_details_become_notes() {
    for (file, text, part) in [
        (
            "sys/devices/system/node/node0/distance",
            "10 20 30",
            "1 numbers",
        ),
        (
            "sys/devices/system/cpu/cpu0/cache/index0/size",
            "big",
            "a size such as 48K",
        ),
        (
            "sys/devices/system/cpu/cpu0/cache/index0/type",
            "Odd",
            "Data, Instruction or Unified",
        ),
        (
            "sys/devices/system/memory/block_size_bytes",
            "0",
            "a hexadecimal number",
        ),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "sometimes",
            "square brackets",
        ),
        (
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "-3",
            "a number",
        ),
        (
            "sys/kernel/mm/mempolicy/weighted_interleave/__auto_type",
            "perhaps",
            "true or false",
        ),
        ("proc/sys/kernel/numa_balancing", "on", "a number"),
    ] {
        let copy = Copy::of("vm-1node");
        copy.write(file, text);
        assert_noted(&copy.read(), &[file, part]);
    }
}

#[test]
fn a_file_that_cannot_be_read_becomes_a_note() {
    // A directory in place of the file is an error for every user; file modes do not stop root.
    let copy = Copy::of("vm-1node");
    copy.remove("proc/sys/kernel/numa_balancing")
        .write("proc/sys/kernel/numa_balancing/x", "");
    let topology = copy.read();
    assert_noted(
        &topology,
        &["/proc/sys/kernel/numa_balancing cannot be read"],
    );
    assert_eq!(topology.numa_balancing, None);
}

#[test]
fn missing_descriptions_of_cpus_are_noted() {
    let copy = Copy::of("vm-1node");
    copy.remove("sys/devices/system/cpu");
    let topology = copy.read();
    assert_eq!(
        topology.cpus.online.to_string(),
        "0-1",
        "from /proc/cpuinfo"
    );
    assert_eq!(topology.cpus.sockets, 0);
    assert_noted(&topology, &["/sys/devices/system/cpu/online is missing"]);
    assert_noted(&topology, &["sockets are unknown"]);
    assert_noted(&topology, &["cache sizes are unknown"]);
    assert!(
        topology
            .tier(TierKind::Dram)
            .unwrap()
            .reason
            .contains("sockets unknown")
    );
}

#[test]
fn missing_limits_are_noted_and_nothing_is_forbidden() {
    let copy = Copy::of("server-2s-4cxl");
    copy.write(
        "proc/self/status",
        "Cpus_allowed_list:\t99\nMems_allowed_list:\tall\n",
    );
    let topology = copy.read();
    assert_eq!(topology.limits.cpus_allowed, topology.cpus.online);
    assert_eq!(topology.limits.mems_allowed.to_string(), "0-5");
    assert_noted(&topology, &["/proc/self/status", "Cpus_allowed_list:"]);
    assert_noted(&topology, &["/proc/self/status", "Mems_allowed_list:"]);
}

#[test]
fn the_smallest_cgroup_limit_above_counts() {
    let copy = Copy::of("vm-1node");
    copy.write("proc/self/cgroup", "0::/a/b\n3:cpu:/x\n");
    copy.write("sys/fs/cgroup/a/b/memory.max", "max\n");
    copy.write("sys/fs/cgroup/a/memory.max", "1073741824\n");
    copy.write("sys/fs/cgroup/x/memory.max", "1\n");
    let limits = copy.read().limits;
    assert_eq!(limits.memory_limit_bytes, Some(1 << 30));
    assert_eq!(
        limits.source,
        "/proc/self/status; /sys/fs/cgroup/a/memory.max"
    );
}

#[test]
fn a_cgroup_path_cannot_leave_its_mount() {
    let copy = Copy::of("vm-1node");
    copy.write("proc/self/cgroup", "0::/../../../proc\n");
    copy.write("proc/memory.max", "1\n");
    assert_eq!(copy.read().limits.memory_limit_bytes, None);
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let copy = Copy::of("vm-1node");
    copy.remove(NODE).remove("sys/kernel/mm/mempolicy");
    let topology = copy.read();
    assert_eq!(topology.memory_nodes(), [NodeId(0)]);
    assert_eq!(topology.nodes[0].cpus.to_string(), "0-1");
    assert_noted(&topology, &["/sys/devices/system/node/online is missing"]);
    assert!(
        matches!(&topology.weighted_interleave, WeightedInterleave::Absent { reason } if reason.contains("CONFIG_NUMA"))
    );
}

#[test]
fn an_old_kernel_is_told_as_the_cause_of_missing_weights() {
    let copy = Copy::of("vm-1node");
    copy.remove("sys/kernel/mm/mempolicy")
        .write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    let tree = render::tree(&copy.read());
    assert!(
        tree.contains("kernel 6.1.0-18-amd64 is older than 6.9"),
        "{tree}"
    );
}

#[test]
fn figures_of_zero_are_unknown() {
    let copy = Copy::of("guest-2node-hmat");
    for file in [
        "read_latency",
        "write_latency",
        "read_bandwidth",
        "write_bandwidth",
    ] {
        copy.write(&format!("{NODE}/node1/access0/initiators/{file}"), "0\n");
    }
    let topology = copy.read();
    let node = topology.node(NodeId(1)).unwrap();
    assert_eq!(node.access[0].read_latency_ns, None);
    assert_eq!(
        node.best_access().unwrap().class,
        1,
        "the class that tells is taken"
    );
}

#[test]
fn regions_that_are_not_set_up_break_nothing() {
    let copy = Copy::of("guest-cxl");
    let region = "sys/bus/cxl/devices/region0";
    copy.write(&format!("{region}/size"), "0x0\n")
        .write(&format!("{region}/target0"), "\n");
    copy.write(&format!("{region}/commit"), "0\n")
        .remove("sys/bus/dax/devices/dax0.0");
    let topology = copy.read();
    let region = &topology.cxl.regions[0];
    assert_eq!(
        (region.size_bytes, region.targets.len(), region.nodes.len()),
        (None, 0, 0)
    );
    let tree = render::tree(&topology);
    assert!(
        tree.contains("in no region: its memory cannot be used"),
        "{tree}"
    );
    assert!(
        tree.contains("region0: size not set ram, not committed"),
        "{tree}"
    );
}

#[test]
fn no_content_of_any_file_makes_reading_panic() {
    const FILES: [&str; 12] = [
        "sys/devices/system/node/online",
        "sys/devices/system/node/node1/meminfo",
        "sys/devices/system/node/node0/distance",
        "sys/devices/system/cpu/online",
        "sys/devices/system/cpu/cpu0/cache/index0/size",
        "sys/devices/system/memory/block_size_bytes",
        "sys/bus/cxl/devices/region0/size",
        "sys/bus/cxl/devices/region0/resource",
        "sys/bus/cxl/devices/region0/target0",
        "proc/self/status",
        "proc/self/cgroup",
        "proc/sys/kernel/osrelease",
    ];
    let copy = Copy::of("guest-cxl");
    let originals = FILES.map(|file| std::fs::read_to_string(copy.path(file)).unwrap());
    let config = ProptestConfig::with_cases(96);
    proptest!(config, |(text in "[ -~\n]{0,40}|0x[0-9a-f]{1,17}|[0-9]{1,24}", pick in 0..FILES.len())| {
        copy.write(FILES[pick], &text);
        let outcome = Topology::read(&copy.root());
        copy.write(FILES[pick], &originals[pick]);
        match outcome {
            Ok(topology) => prop_assert!(render::tree(&topology).ends_with('\n')),
            Err(error) => {
                let error = error.to_string();
                prop_assert!(error.contains("should hold"), "{}", error);
            }
        }
    });
}
