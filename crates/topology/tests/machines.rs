//! Whole machines: what is read, the tree and the JSON.

mod common;

use common::{Copy, MACHINES, machine};
use tierloom_topology::cxl::DaxMode;
use tierloom_topology::{
    CacheKind, CpuId, NodeId, SysRoot, TierKind, Topology, WeightedInterleave, render,
};

const GIB: u64 = 1 << 30;

fn tiers(topology: &Topology) -> String {
    let one = |tier: &tierloom_topology::MemoryTier| format!("{}={}", tier.kind, tier.node_list());
    topology.tiers.iter().map(one).collect::<Vec<_>>().join(";")
}

#[test]
fn trees_show_the_whole_machine() {
    for name in MACHINES {
        insta::assert_snapshot!(format!("tree-{name}"), render::tree(&machine(name)));
    }
}

#[test]
fn json_holds_the_whole_machine() {
    for name in MACHINES {
        let json = serde_json::to_string_pretty(&machine(name)).unwrap();
        insta::assert_snapshot!(format!("json-{name}"), json);
    }
}

#[test]
fn recorded_machines_are_complete() {
    for name in MACHINES {
        assert_eq!(machine(name).notes, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_virtual_machine_with_one_node_is_all_dram() {
    let vm = machine("vm-1node");
    assert_eq!(tiers(&vm), "dram=0");
    assert_eq!(vm.memory_nodes(), [NodeId(0)]);
    assert_eq!(
        vm.limits.memory_limit_bytes, None,
        "cgroup v1 writes a huge number for no limit"
    );
    let block = vm.nodes[0].memory_blocks.as_ref().unwrap();
    assert_eq!((block.block_size_bytes, block.online), (Some(128 << 20), 6));
    let WeightedInterleave::Present { auto, .. } = &vm.weighted_interleave else {
        panic!("{:?}", vm.weighted_interleave);
    };
    assert_eq!(*auto, Some(true), "this kernel calls the file __auto_type");
}

#[test]
fn firmware_figures_and_kernel_weights_of_the_hmat_guest_are_read() {
    let guest = machine("guest-2node-hmat");
    assert_eq!(tiers(&guest), "dram=0;cxl=1");
    let access = guest.node(NodeId(1)).unwrap().best_access().unwrap();
    assert_eq!(access.initiators, [NodeId(0)]);
    assert_eq!(access.read_latency_ns, Some(250.0));
    assert_eq!(access.read_bandwidth_gbps, Some(30.72));
    assert_eq!(guest.node(NodeId(0)).unwrap().distances[&NodeId(1)], 30);
    let WeightedInterleave::Present {
        weights,
        auto: None,
    } = &guest.weighted_interleave
    else {
        panic!("{:?}", guest.weighted_interleave);
    };
    assert_eq!((weights[&NodeId(0)], weights[&NodeId(1)]), (3, 2));
    assert_eq!(
        guest.tier(TierKind::Cxl).unwrap().reason,
        "no CPUs; HMAT read latency 250 ns against 100 ns on node 0"
    );
}

#[test]
fn the_cxl_guest_is_followed_from_device_to_node() {
    let guest = machine("guest-cxl");
    assert_eq!(tiers(&guest), "dram=0;cxl=1");
    let [memdev] = guest.cxl.memdevs.as_slice() else {
        panic!("{:?}", guest.cxl.memdevs)
    };
    assert_eq!(memdev.ram_size_bytes, Some(GIB / 2));
    assert_eq!(memdev.pci_address.as_deref(), Some("0000:0d:00.0"));
    assert_eq!(memdev.numa_node, None, "the driver says -1");
    let [region] = guest.cxl.regions.as_slice() else {
        panic!("{:?}", guest.cxl.regions)
    };
    assert_eq!(region.memdevs(), [memdev.name.as_str()]);
    assert_eq!(
        (region.committed, region.interleave_ways),
        (Some(true), Some(1))
    );
    assert_eq!(
        (region.size_bytes, region.nodes.as_slice()),
        (Some(GIB / 2), &[NodeId(1)][..])
    );
    let [dax] = guest.cxl.dax_devices.as_slice() else {
        panic!("{:?}", guest.cxl.dax_devices)
    };
    assert_eq!(
        (dax.mode, dax.target_node),
        (DaxMode::SystemRam, Some(NodeId(1)))
    );
    assert_eq!(dax.region.as_deref(), Some(region.name.as_str()));
    let blocks = guest
        .node(NodeId(1))
        .unwrap()
        .memory_blocks
        .as_ref()
        .unwrap();
    assert_eq!(blocks.zones["Movable"], blocks.online);
}

#[test]
fn the_server_has_two_sockets_and_four_cxl_nodes() {
    let server = machine("server-2s-4cxl");
    assert_eq!(tiers(&server), "dram=0-1;cxl=2-5");
    assert_eq!(
        (
            server.cpus.sockets,
            server.cpus.threads_per_core,
            server.cpus.online.len()
        ),
        (2, 1, 48)
    );
    let l3 = server
        .cpus
        .caches
        .iter()
        .find(|cache| cache.level == 3)
        .unwrap();
    assert_eq!(
        (l3.kind, l3.size_bytes, l3.count),
        (CacheKind::Unified, 60 << 20, 2)
    );
    assert_eq!(server.node_of_cpu(CpuId(24)), Some(NodeId(1)));
    assert_eq!(server.node(NodeId(1)).unwrap().socket, Some(1));
    let chain: Vec<String> = server
        .cxl
        .regions
        .iter()
        .map(|region| {
            format!(
                "{}>{}>{}>{}",
                region.memdevs().join("+"),
                region.name,
                region.dax_devices.join("+"),
                region.nodes[0]
            )
        })
        .collect();
    assert_eq!(
        chain,
        [
            "mem0>region0>dax0.0>2",
            "mem1>region1>dax1.0>3",
            "mem2>region2>dax2.0>4",
            "mem3>region3>dax3.0>5"
        ]
    );
    assert!(
        server
            .nodes
            .iter()
            .all(|node| node.access.is_empty() && node.best_access().is_none())
    );
}

#[test]
fn memory_of_a_socket_that_may_not_be_used_is_remote() {
    let copy = Copy::of("server-2s-4cxl");
    copy.write(
        "proc/self/status",
        "Cpus_allowed_list:\t24-47\nMems_allowed_list:\t0-5\n",
    );
    let server = copy.read();
    assert_eq!(tiers(&server), "dram=1;cxl=2-5;remote=0");
    assert_eq!(
        server.tier(TierKind::Remote).unwrap().reason,
        "on socket 0, whose CPUs this process may not use"
    );
}

#[test]
fn all_clusters_of_a_socket_are_dram() {
    // Sub-NUMA clustering: both nodes are on one package, and the process may use only one of them.
    let copy = Copy::of("server-2s-4cxl");
    for cpu in 24..48 {
        copy.write(
            &format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"),
            "0\n",
        );
    }
    copy.write(
        "proc/self/status",
        "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0-5\n",
    );
    let server = copy.read();
    assert_eq!(tiers(&server), "dram=0-1;cxl=2-5");
    assert_eq!(server.cpus.sockets, 1);
}

#[test]
fn memory_with_more_bandwidth_than_dram_is_hbm() {
    let copy = Copy::of("guest-2node-hmat");
    let initiators = "sys/devices/system/node/node1/access0/initiators";
    copy.write(&format!("{initiators}/read_bandwidth"), "400000\n");
    copy.write(&format!("{initiators}/read_latency"), "120\n");
    let tier = copy.read().tier(TierKind::Hbm).cloned().unwrap();
    assert_eq!(tier.nodes, [NodeId(1)]);
    assert_eq!(
        tier.reason,
        "no CPUs; HMAT read bandwidth 400.0 GB/s against 102.4 GB/s on node 0"
    );
}

#[test]
fn memory_without_cpus_and_figures_is_judged_by_distance() {
    let copy = Copy::of("guest-2node-hmat");
    let node = "sys/devices/system/node";
    for class in [0, 1] {
        copy.remove(&format!("{node}/node1/access{class}"));
    }
    let tier = copy.read().tier(TierKind::Cxl).cloned().unwrap();
    assert_eq!(
        tier.reason,
        "no CPUs; distance 30 from node 0 against 10 of its own memory"
    );
    copy.write(&format!("{node}/node0/distance"), "10 10\n");
    let topology = copy.read();
    assert_eq!(tiers(&topology), "dram=0-1");
    assert!(
        topology.tiers[0]
            .reason
            .contains("node 1: no CPUs; nothing says that it is slower than node 0")
    );
}

#[test]
fn an_interleaved_region_names_all_its_devices() {
    // Region 0 of the server over two devices; the second device's own region is taken away.
    let copy = Copy::of("server-2s-4cxl");
    let region = "sys/bus/cxl/devices/region0";
    copy.write(&format!("{region}/interleave_ways"), "2\n");
    copy.write(&format!("{region}/target1"), "decoder6.0\n");
    copy.remove("sys/bus/cxl/devices/region1")
        .remove("sys/bus/dax/devices/dax1.0");
    let server = copy.read();
    assert_eq!(server.cxl.regions[0].memdevs(), ["mem0", "mem1"]);
    assert!(render::tree(&server).contains("2 ways every 256 B over mem0+mem1"));
    // Without its chain, node 3 is still recognised by its distance.
    assert_eq!(server.tier_of(NodeId(3)), Some(TierKind::Cxl));
    let reason = &server.tier(TierKind::Cxl).unwrap().reason;
    assert!(
        reason.contains("node 2: no CPUs; backed by region0 on mem0+mem1 (CXL)"),
        "{reason}"
    );
    assert!(
        reason.contains("node 3: no CPUs; distance 14 from node 0"),
        "{reason}"
    );
}

#[test]
fn a_devdax_device_is_no_tier() {
    let copy = Copy::of("server-2s-4cxl");
    let driver =
        "sys/devices/platform/ACPI0017:00/root0/decoder0.3/region3/dax_region3/dax3.0/driver";
    copy.remove(driver)
        .link(driver, "../../../../../../../../bus/dax/drivers/device_dax");
    copy.write(
        "sys/devices/system/node/node5/meminfo",
        "Node 5 MemTotal: 0 kB\nNode 5 MemFree: 0 kB\n",
    );
    let server = copy.read();
    assert_eq!(server.cxl.dax_devices[3].mode, DaxMode::Devdax);
    assert_eq!(tiers(&server), "dram=0-1;cxl=2-4");
    assert_eq!(server.tier_of(NodeId(5)), None);
    let tree = render::tree(&server);
    assert!(tree.contains("in no tier"), "{tree}");
    assert!(tree.contains("node 5: no memory; no cpus"), "{tree}");
}

#[test]
fn a_region_that_firmware_handed_over_as_plain_memory_is_found_by_its_address() {
    let copy = Copy::of("guest-cxl");
    copy.remove("sys/bus/dax/devices/dax0.0");
    let guest = copy.read();
    assert_eq!(guest.cxl.regions[0].nodes, [NodeId(1)]);
    assert_eq!(
        guest.tier(TierKind::Cxl).unwrap().reason,
        "no CPUs; backed by region0 on mem0 (CXL)"
    );
}

#[test]
fn tiers_can_be_named_by_hand() {
    let mut server = machine("server-2s-4cxl");
    server.override_tiers("dram=0 remote=1").unwrap();
    assert_eq!(tiers(&server), "dram=0;cxl=2-5;remote=1");
    assert_eq!(
        server.tier(TierKind::Dram).unwrap().reason,
        "set by the user"
    );
    server.override_tiers("cxl=2-4").unwrap();
    assert_eq!(server.tier_of(NodeId(5)), None);
    assert!(
        server
            .notes
            .last()
            .unwrap()
            .contains("node 5 is in no tier")
    );
    let before = server.clone();
    assert!(server.override_tiers("cxl=9").is_err());
    assert_eq!(server, before);
}

#[test]
fn the_running_machine_can_be_read() {
    let host = Topology::read(&SysRoot::host()).unwrap();
    assert!(!host.memory_nodes().is_empty());
    assert!(!host.limits.cpus_allowed.is_empty());
    assert!(host.limits.cpus_allowed.is_subset(&host.cpus.online));
    assert!(host.tier(TierKind::Dram).is_some());
    for node in host.memory_nodes() {
        assert!(host.tier_of(node).is_some());
    }
}
