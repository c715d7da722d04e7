//! `doctor`: every missing ability is reported with its cause and its fix.

mod common;

use common::{Copy, MACHINES, machine, root};
use tierloom_topology::doctor::{Ability, Availability, FakeProbes, examine};
use tierloom_topology::render::doctor_table;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

fn abilities(name: &str, probes: &FakeProbes) -> Vec<Ability> {
    examine(&machine(name), &root(name), probes)
}

fn ability<'a>(abilities: &'a [Ability], name: &str) -> &'a Ability {
    abilities
        .iter()
        .find(|ability| ability.name.starts_with(name))
        .unwrap_or_else(|| panic!("no ability {name}"))
}

fn fix(ability: &Ability) -> &str {
    ability.fix.as_deref().unwrap_or_default()
}

#[test]
fn tables_show_state_cause_and_fix() {
    for (name, probes) in [
        (
            "vm-1node",
            FakeProbes {
                perf_event: Err(ENOENT),
                ..FakeProbes::all_succeed(0)
            },
        ),
        (
            "server-2s-4cxl",
            FakeProbes {
                perf_event: Err(EACCES),
                ..FakeProbes::all_succeed(1000)
            },
        ),
        ("guest-2node-hmat", FakeProbes::all_succeed(0)),
        ("guest-cxl", FakeProbes::all_fail(ENOSYS, 0)),
    ] {
        insta::assert_snapshot!(
            format!("doctor-{name}"),
            doctor_table(&abilities(name, &probes))
        );
    }
}

#[test]
fn whatever_is_missing_has_a_cause_and_a_fix() {
    for name in MACHINES {
        for errno in [EPERM, EACCES, EINVAL, ENOSYS, ENOENT, 9999] {
            for uid in [0, 1000] {
                for ability in abilities(name, &FakeProbes::all_fail(errno, uid)) {
                    let is_given =
                        |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
                    let missing = ability.state != Availability::Yes;
                    assert_eq!(
                        is_given(&ability.cause),
                        missing,
                        "{name} {errno}: {ability:?}"
                    );
                    assert_eq!(
                        is_given(&ability.fix),
                        missing,
                        "{name} {errno}: {ability:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_seccomp_filter_is_told_once_with_the_flag_to_add() {
    let copy = Copy::of("guest-2node-hmat");
    copy.write("proc/self/status", "CapEff:\t00000000a80425fb\nSeccomp:\t2\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0-1\n");
    copy.remove("proc/sys/kernel/perf_event_paranoid");
    let found = examine(&copy.read(), &copy.root(), &FakeProbes::all_fail(EPERM, 0));
    let full: Vec<&str> = found
        .iter()
        .filter(|a| fix(a).contains("--cap-add SYS_NICE ("))
        .map(|a| a.name.as_str())
        .collect();
    assert_eq!(full, ["NUMA memory policies"]);
    for name in ["page queries", "page migration"] {
        let ability = ability(&found, name);
        assert_eq!(ability.state, Availability::No);
        assert_eq!(fix(ability), "the same as for \"NUMA memory policies\"");
    }
    assert!(fix(ability(&found, "perf events")).contains("--cap-add PERFMON"));
    assert!(fix(ability(&found, "root")).contains("--cap-add SYS_NICE"));
}

#[test]
fn refused_counters_name_the_setting() {
    let copy = Copy::of("server-2s-4cxl");
    for (level, part) in [("4", "sysctl kernel.perf_event_paranoid=1"), ("1", "sudo")] {
        copy.write("proc/sys/kernel/perf_event_paranoid", level);
        let probes = FakeProbes {
            perf_event: Err(EACCES),
            ..FakeProbes::all_succeed(1000)
        };
        let found = examine(&copy.read(), &copy.root(), &probes);
        assert!(
            fix(ability(&found, "perf events")).contains(part),
            "{level}"
        );
    }
}

#[test]
fn a_policy_that_the_kernel_lacks_names_the_release_to_boot() {
    let copy = Copy::of("vm-1node");
    copy.remove("sys/kernel/mm/mempolicy")
        .write("proc/sys/kernel/osrelease", "6.1.0\n");
    let probes = FakeProbes {
        weighted_interleave: Err(EINVAL),
        ..FakeProbes::all_succeed(0)
    };
    let found = examine(&copy.read(), &copy.root(), &probes);
    let weights = ability(&found, "kernel weighted interleave");
    assert_eq!(weights.state, Availability::No);
    assert!(fix(weights).contains("6.9"), "{weights:?}");
    // The files are hidden but the call works: a container with a masked /sys.
    let found = examine(&copy.read(), &copy.root(), &FakeProbes::all_succeed(0));
    assert_eq!(
        ability(&found, "kernel weighted interleave").state,
        Availability::Limited
    );
}

#[test]
fn pools_modes_and_policies_follow_the_files() {
    let copy = Copy::of("vm-1node");
    let state = |copy: &Copy, name: &str| {
        let found = examine(&copy.read(), &copy.root(), &FakeProbes::all_succeed(0));
        ability(&found, name).state
    };
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    assert_eq!(state(&copy, "hugetlb 2 MiB"), Availability::No);
    copy.write(&format!("{pool}/nr_hugepages"), "8");
    assert_eq!(state(&copy, "hugetlb 2 MiB"), Availability::Limited);
    copy.write(&format!("{pool}/free_hugepages"), "3");
    assert_eq!(state(&copy, "hugetlb 2 MiB"), Availability::Yes);
    copy.remove("sys/kernel/mm/hugepages/hugepages-1048576kB");
    assert_eq!(state(&copy, "hugetlb 1 GiB"), Availability::No);

    copy.write(
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always madvise [never]",
    );
    assert_eq!(state(&copy, "transparent"), Availability::No);

    let online = "sys/devices/system/memory/auto_online_blocks";
    for (policy, expected) in [
        ("online_movable", Availability::Yes),
        ("online", Availability::Limited),
        ("offline", Availability::Limited),
    ] {
        copy.write(online, policy);
        assert_eq!(state(&copy, "memory hot-plug"), expected, "{policy}");
    }
    copy.remove(online);
    assert_eq!(state(&copy, "memory hot-plug"), Availability::No);

    copy.write("proc/sys/kernel/numa_balancing", "1");
    assert_eq!(state(&copy, "NUMA balancing"), Availability::Limited);
    copy.write("proc/sys/kernel/numa_balancing", "0");
    assert_eq!(state(&copy, "NUMA balancing"), Availability::Yes);

    assert_eq!(state(&copy, "MSR"), Availability::No);
    copy.write("dev/cpu/0/msr", "");
    assert_eq!(state(&copy, "MSR"), Availability::Yes);
}

#[test]
fn limits_of_the_process_are_told() {
    let copy = Copy::of("server-2s-4cxl");
    copy.write(
        "proc/self/status",
        "Cpus_allowed_list:\t0-23\nMems_allowed_list:\t0,2-3\n",
    );
    copy.write("proc/self/cgroup", "0::/box\n")
        .write("sys/fs/cgroup/box/memory.max", "17179869184\n");
    let found = examine(&copy.read(), &copy.root(), &FakeProbes::all_succeed(0));
    let limits = ability(&found, "whole machine");
    assert_eq!(limits.state, Availability::Limited);
    for part in [
        "cpus 0-23 of 0-47",
        "nodes 0,2-3 of 0-5",
        "17179869184 bytes",
    ] {
        assert!(limits.cause.as_ref().unwrap().contains(part), "{limits:?}");
    }
    for part in [
        "--cpuset-cpus=0-47",
        "--cpuset-mems=0-5",
        "MemoryMax=infinity",
    ] {
        assert!(fix(limits).contains(part), "{limits:?}");
    }
}

#[test]
fn unused_cxl_memory_is_told_with_the_command_that_makes_a_region() {
    let copy = Copy::of("server-2s-4cxl");
    copy.remove("sys/bus/cxl/devices/region2")
        .remove("sys/bus/dax/devices/dax2.0");
    let found = examine(&copy.read(), &copy.root(), &FakeProbes::all_succeed(0));
    let devices = ability(&found, "CXL");
    assert_eq!(devices.state, Availability::Limited);
    assert!(
        fix(devices).starts_with("cxl create-region -t ram") && fix(devices).ends_with("mem2"),
        "{devices:?}"
    );
}

#[test]
fn dax_devices_are_told_by_their_driver() {
    let copy = Copy::of("guest-cxl");
    let state = |copy: &Copy| {
        let found = examine(&copy.read(), &copy.root(), &FakeProbes::all_succeed(0));
        (
            ability(&found, "devdax").state,
            fix(ability(&found, "devdax")).to_owned(),
        )
    };
    assert_eq!(state(&copy).0, Availability::Limited);
    let driver = "sys/bus/dax/devices/dax0.0/driver";
    copy.remove(driver);
    assert!(
        state(&copy)
            .1
            .contains("daxctl reconfigure-device --mode=devdax dax0.0")
    );
    copy.link(driver, "../drivers/device_dax");
    assert_eq!(state(&copy).0, Availability::Yes);
    copy.remove("sys/bus/dax");
    assert_eq!(state(&copy).0, Availability::No);
}

#[test]
fn json_of_abilities_has_plain_words() {
    let json = serde_json::to_value(abilities("vm-1node", &FakeProbes::all_succeed(0))).unwrap();
    assert_eq!(json[0]["name"], "NUMA memory policies");
    assert_eq!(json[0]["state"], "yes");
    assert!(json[0]["fix"].is_null());
}
