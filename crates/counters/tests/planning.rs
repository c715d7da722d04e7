//! The events that would be opened on recorded machines.

mod common;

use common::{AMD, Copy, DEVICES, EMPTY, INTEL, root};
use tierloom_counters::plan::{Plan, Scope, Unit, core, cxl, uncore};

/// Readings as lines: name, bytes per count, and type:config@CPU of each event.
fn lines(plan: &Plan) -> Vec<String> {
    let reading = |reading: &tierloom_counters::plan::PlannedReading| {
        let event = |event: &tierloom_counters::plan::PlannedEvent| {
            let [config, config1, config2] = event.config;
            assert_eq!((config1, config2), (0, 0), "{event}");
            match event.scope {
                Scope::Cpu(cpu) => format!("{}:{config:#x}@{cpu}", event.pmu_type),
                Scope::Threads => format!("{}:{config:#x}", event.pmu_type),
            }
        };
        let events: Vec<String> = reading.events.iter().map(event).collect();
        format!(
            "{} x{} {}",
            reading.name,
            reading.per_count,
            events.join(" ")
        )
    };
    plan.readings.iter().map(reading).collect()
}

fn missing(plan: &Plan) -> String {
    let one = |m: &tierloom_counters::plan::Missing| format!("{}: {}", m.name, m.why);
    plan.missing.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[test]
fn intel_controllers_are_added_up_per_socket_and_the_free_running_ones_left_out() {
    let plan = uncore::plan(&root(INTEL));
    assert_eq!(
        lines(&plan),
        [
            "dram/socket0/read x64 75:0xcf05@0 76:0xcf05@0",
            "dram/socket0/write x64 75:0xf005@0 76:0xf005@0",
            "dram/socket1/read x64 75:0xcf05@24 76:0xcf05@24",
            "dram/socket1/write x64 75:0xf005@24 76:0xf005@24",
        ]
    );
    assert_eq!(missing(&plan), "");
}

#[test]
fn controllers_with_two_schedulers_are_counted_whole() {
    let copy = Copy::of(INTEL);
    for imc in ["uncore_imc_0", "uncore_imc_1"] {
        for (direction, umask) in [("read", "0xcf"), ("write", "0xf0")] {
            for suffix in ["", ".scale", ".unit"] {
                copy.remove(&format!(
                    "{DEVICES}/{imc}/events/cas_count_{direction}{suffix}"
                ));
            }
            for (scheduler, event) in [("sch0", "0x05"), ("sch1", "0x06")] {
                let file = format!("{DEVICES}/{imc}/events/cas_count_{direction}_{scheduler}");
                copy.write(&file, &format!("event={event},umask={umask}"))
                    .write(&format!("{file}.scale"), "6.103515625e-5")
                    .write(&format!("{file}.unit"), "MiB");
            }
        }
    }
    let plan = uncore::plan(&copy.root());
    assert_eq!(
        lines(&plan)[0],
        "dram/socket0/read x64 75:0xcf05@0 75:0xcf06@0 76:0xcf05@0 76:0xcf06@0"
    );
}

#[test]
fn a_cpu_whose_socket_is_unknown_is_not_mixed_with_a_socket_of_its_number() {
    let copy = Copy::of(INTEL);
    copy.remove("sys/devices/system/cpu/cpu0/topology/physical_package_id")
        .write(
            "sys/devices/system/cpu/cpu24/topology/physical_package_id",
            "0",
        );
    let lines = lines(&uncore::plan(&copy.root()));
    assert_eq!(lines[0], "dram/cpu0/read x64 75:0xcf05@0 76:0xcf05@0");
    assert_eq!(lines[2], "dram/socket0/read x64 75:0xcf05@24 76:0xcf05@24");
}

#[test]
fn client_controllers_with_names_of_their_own_are_known() {
    let copy = Copy::of(EMPTY);
    let pmu = format!("{DEVICES}/uncore_imc");
    copy.write(&format!("{pmu}/type"), "10")
        .write(&format!("{pmu}/cpumask"), "0");
    copy.write(&format!("{pmu}/format/event"), "config:0-7");
    for (event, code) in [
        ("data_reads", "0x1"),
        ("data_writes", "0x2"),
        ("gt_requests", "0x3"),
    ] {
        copy.write(&format!("{pmu}/events/{event}"), &format!("event={code}"))
            .write(&format!("{pmu}/events/{event}.scale"), "6.103515625e-5")
            .write(&format!("{pmu}/events/{event}.unit"), "MiB");
    }
    assert_eq!(
        lines(&uncore::plan(&copy.root())),
        [
            "dram/cpu0/read x64 10:0x1@0",
            "dram/cpu0/write x64 10:0x2@0"
        ]
    );
}

#[test]
fn amd_controllers_count_commands_by_direction() {
    let plan = uncore::plan(&root(AMD));
    assert_eq!(
        lines(&plan),
        [
            "dram/socket0/read x64 16:0x10a@0 17:0x10a@0",
            "dram/socket0/write x64 16:0x20a@0 17:0x20a@0",
        ]
    );
}

#[test]
fn an_unreadable_controller_takes_the_whole_sum_away() {
    for (path, text, expected) in [
        (
            "uncore_imc_1/type",
            "many",
            "uncore_imc_1/type should hold the number of a PMU",
        ),
        ("uncore_imc_1/cpumask", "", "names no CPU"),
        (
            "uncore_imc_1/format/umask",
            "config9:0",
            "format/umask should hold bits",
        ),
        (
            "uncore_imc_1/events/cas_count_read",
            "event=0x105",
            "does not fit the field `event`",
        ),
        (
            "uncore_imc_1/events/cas_count_read",
            "row=1",
            "has no field `row`",
        ),
        (
            "uncore_imc_1/events/cas_count_read.unit",
            "Joules",
            "describes no event cas_count_read in bytes",
        ),
        (
            "uncore_imc_1/events/cas_count_read.scale",
            "1.0",
            "counts in another unit",
        ),
    ] {
        let copy = Copy::of(INTEL);
        copy.write(&format!("{DEVICES}/{path}"), text);
        let plan = uncore::plan(&copy.root());
        assert_eq!(lines(&plan), [""; 0], "{path}");
        let missing = missing(&plan);
        assert!(
            missing.contains(expected) && missing.contains("too small"),
            "{missing}"
        );
        assert!(
            missing.contains("dram/read") && missing.contains("dram/write"),
            "{missing}"
        );
    }
}

#[test]
fn absent_controllers_name_the_fix_of_this_machine() {
    let guest = missing(&uncore::plan(&root(EMPTY)));
    assert!(guest.contains("bare metal"), "{guest}");

    let metal = Copy::of(EMPTY);
    metal.write("proc/cpuinfo", "vendor_id : GenuineIntel\nflags : fpu\n");
    assert!(missing(&uncore::plan(&metal.root())).contains("sudo modprobe intel_uncore"));

    let amd = Copy::of(AMD);
    amd.remove(&format!("{DEVICES}/amd_umc_0"))
        .remove(&format!("{DEVICES}/amd_umc_1"));
    assert!(missing(&uncore::plan(&amd.root())).contains("6.9"));

    let hidden = Copy::of(EMPTY);
    hidden.remove(DEVICES);
    assert!(missing(&uncore::plan(&hidden.root())).contains("CONFIG_PERF_EVENTS"));
}

#[test]
fn cxl_devices_are_told_apart_and_say_what_they_do_not_count() {
    let plan = cxl::plan(&root(INTEL));
    assert_eq!(
        lines(&plan),
        [
            "cxl_pmu_mem0.0/read x64 120:0x1e98002500000001@0 120:0x1e98002500000002@0",
            "cxl_pmu_mem0.0/write x64 120:0x1e98002100000002@0 120:0x1e98002100000004@0",
            "cxl_pmu_mem0.0/clock_ticks x1 120:0x1e98000000000001@0",
            "cxl_pmu_mem0.0/m2s_req_memrd x1 120:0x1e98002000000002@0",
            "cxl_pmu_mem1.0/write x64 121:0x1e98002100000002@24",
            "cxl_pmu_mem1.0/clock_ticks x1 121:0x1e98000000000001@24",
        ]
    );
    assert_eq!(
        missing(&plan),
        "cxl_pmu_mem1.0/read: this device does not count s2m_drs_memdata or s2m_drs_memdatanxm"
    );
}

#[test]
fn a_garbled_cxl_device_does_not_take_the_other_away() {
    let copy = Copy::of(INTEL);
    copy.write(
        &format!("{DEVICES}/cxl_pmu_mem0.0/events/clock_ticks"),
        "vid=",
    );
    let plan = cxl::plan(&copy.root());
    assert!(
        lines(&plan)
            .iter()
            .all(|line| line.starts_with("cxl_pmu_mem1.0/"))
    );
    assert!(
        missing(&plan).contains("cxl_pmu_mem0.0/read: /sys/bus"),
        "{}",
        missing(&plan)
    );
}

#[test]
fn without_a_cxl_pmu_it_is_said_whether_a_device_is_there() {
    let copy = Copy::of(AMD);
    assert!(missing(&cxl::plan(&copy.root())).contains("no CXL memory device"));
    copy.write("sys/bus/cxl/devices/mem0/serial", "0x1");
    assert!(missing(&cxl::plan(&copy.root())).contains("modprobe cxl_pmu"));
}

#[test]
fn core_events_are_of_threads_and_have_the_kernels_numbers() {
    let plan = core::plan(&root(AMD));
    assert_eq!(
        lines(&plan),
        [
            "instructions x1 0:0x1",
            "cycles x1 0:0x0",
            "cache_references x1 0:0x2",
            "cache_misses x1 0:0x3",
            "stalled_cycles_backend x1 0:0x8",
            "dtlb_load_misses x1 3:0x10003",
        ]
    );
    assert!(
        plan.readings
            .iter()
            .all(|reading| reading.unit == Unit::Events)
    );
}
