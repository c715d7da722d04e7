//! Settings that affect benchmark results: what is read, and what is reported if they cannot be
//! read.

mod common;

use common::{Copy, MACHINES, root};
use std::os::unix::fs::FileExt;
use tierloom_topology::record::record;
use tierloom_topology::{Environment, Fact, SysRoot, Topology};

fn environment(copy: &Copy) -> Environment {
    Environment::read(&copy.root(), &copy.read())
}

fn known(fact: &Fact) -> &str {
    fact.known().unwrap_or_else(|| panic!("{fact}"))
}

const CPU: &str = "sys/devices/system/cpu";

#[test]
fn what_a_recorded_machine_lacks_is_unknown_with_a_reason_and_never_empty() {
    for name in MACHINES {
        let topology = Topology::read(&root(name)).unwrap();
        let environment = Environment::read(&root(name), &topology);
        for (what, fact) in environment.facts() {
            let text = match fact {
                Fact::Known(text) | Fact::Unknown(text) => text,
            };
            assert!(!text.is_empty(), "{name}: {what}");
        }
        assert!(
            environment
                .prefetchers
                .to_string()
                .contains("recorded tree")
                || environment
                    .prefetchers
                    .to_string()
                    .contains("firmware setup"),
            "{name}: {}",
            environment.prefetchers
        );
    }
}

#[test]
fn the_machine_that_runs_the_tests_tells_every_fact_or_a_reason() {
    let root = SysRoot::host();
    let environment = Environment::read(&root, &Topology::read(&root).unwrap());
    for (what, fact) in environment.facts() {
        println!("{what}: {fact}");
        if let Fact::Unknown(why) = fact {
            assert!(why.len() > 20, "{what}: {why}");
        }
    }
}

#[test]
fn all_settings_of_a_prepared_server_are_read() {
    let copy = Copy::of("server-2s-4cxl");
    let cpus = copy.read().cpus.online;
    for cpu in cpus.iter() {
        copy.write(
            &format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"),
            "performance\n",
        )
        .write(
            &format!("{CPU}/cpu{cpu}/cpufreq/scaling_driver"),
            "intel_pstate\n",
        );
    }
    copy.write(&format!("{CPU}/intel_pstate/no_turbo"), "1\n")
        .write(&format!("{CPU}/smt/active"), "0\n")
        .write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
        .write("proc/cmdline", "root=/dev/sda1 isolcpus=2-23 quiet nohz_full=2-23\n")
        .write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        .write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: X\nmicrocode\t: 0x21000230\nflags\t\t: fpu sse2\n\nprocessor\t: 1\nmicrocode\t: 0x1\n");
    let environment = environment(&copy);
    assert_eq!(known(&environment.governor), "performance (intel_pstate)");
    assert_eq!(known(&environment.turbo), "off");
    assert_eq!(known(&environment.smt_active), "off");
    assert_eq!(known(&environment.swap), "none");
    assert_eq!(
        known(&environment.kernel_words),
        "isolcpus=2-23 nohz_full=2-23"
    );
    assert_eq!(known(&environment.clocksource), "tsc");
    assert_eq!(known(&environment.microcode), "0x21000230");
    assert_eq!(known(&environment.hypervisor), "none");
    assert_eq!(known(&environment.snc), "off");
}

#[test]
fn a_governor_that_differs_between_cpus_is_told_with_the_cpus() {
    let copy = Copy::of("guest-2node-hmat");
    copy.write(
        &format!("{CPU}/cpu0/cpufreq/scaling_governor"),
        "performance\n",
    )
    .write(
        &format!("{CPU}/cpu1/cpufreq/scaling_governor"),
        "powersave\n",
    )
    .write(&format!("{CPU}/cpufreq/boost"), "1\n");
    let environment = environment(&copy);
    assert_eq!(
        known(&environment.governor),
        "performance on CPUs 0, powersave on CPUs 1"
    );
    assert_eq!(known(&environment.turbo), "on");
}

#[test]
fn two_nodes_of_one_socket_are_clustering() {
    let copy = Copy::of("server-2s-4cxl");
    let cpus = copy.read().cpus.online;
    for cpu in cpus.iter() {
        copy.write(
            &format!("{CPU}/cpu{cpu}/topology/physical_package_id"),
            "0\n",
        );
    }
    assert_eq!(known(&environment(&copy).snc), "2 nodes per socket");
}

#[test]
fn prefetchers_come_from_the_register_of_every_cpu() {
    let copy = Copy::of("guest-2node-hmat");
    copy.write(
        "proc/cpuinfo",
        "processor : 0\nvendor_id : GenuineIntel\nmodel name : X\nflags : fpu\n",
    );
    let cpus = copy.read().cpus.online;
    let set = |cpu: u32, value: u64| {
        copy.write(&format!("dev/cpu/{cpu}/msr"), "");
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(copy.path(&format!("dev/cpu/{cpu}/msr")))
            .unwrap();
        file.write_all_at(&value.to_le_bytes(), 0x1a4).unwrap();
    };
    for cpu in cpus.iter() {
        set(cpu, 0);
    }
    assert_eq!(
        known(&environment(&copy).prefetchers),
        "all on (register 0x1a4 is 0)"
    );
    set(0, 0xf);
    let text = environment(&copy).prefetchers.to_string();
    assert!(
        text.contains("CPUs 1") && text.contains("CPUs 0: off: L2 streamer"),
        "{text}"
    );
}

#[test]
fn a_recorded_tree_tells_the_settings_of_the_machine_it_came_from() {
    let copy = Copy::of("guest-2node-hmat");
    for cpu in [0, 1] {
        // The kernel links each CPU to the policy that it belongs to.
        copy.link(&format!("{CPU}/cpu{cpu}/cpufreq"), "../cpufreq/policy0");
    }
    copy.write(
        &format!("{CPU}/cpufreq/policy0/scaling_governor"),
        "performance\n",
    )
    .write(
        &format!("{CPU}/cpufreq/policy0/scaling_driver"),
        "acpi-cpufreq\n",
    )
    .write(&format!("{CPU}/cpufreq/boost"), "0\n")
    .write(&format!("{CPU}/smt/active"), "0\n")
    .write(
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/vda2 partition 1048576 0 -2\n",
    );
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("recorded");
    record(&copy.root(), &into, 1 << 20).unwrap();
    let root = SysRoot::at(&into);
    let recorded = Environment::read(&root, &Topology::read(&root).unwrap());
    assert_eq!(known(&recorded.governor), "performance (acpi-cpufreq)");
    assert_eq!(known(&recorded.turbo), "off");
    assert_eq!(known(&recorded.swap), "1024 MiB on /dev/vda2 (0 MiB used)");
    assert_eq!(recorded, environment(&copy));
}
