//! From scripted counts to readings.

mod common;

use std::sync::Arc;

use common::{AMD, Copy, DEVICES, EMPTY, INTEL, counted, find, measure, note, root};
use tierloom_counters::{Count, CountStep, Counters, FakeOpener, Reading, Selection};

const TOTAL: &str = "sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes";

#[test]
fn lines_become_bytes_and_gigabytes_per_second() {
    let opener = FakeOpener::all(counted(1000));
    let readings = measure(&root(INTEL), &opener);
    let read = find(&readings, "dram/socket0/read");
    assert_eq!((read.value, read.unit.as_str()), (Some(128_000.0), "bytes"));
    // 128,000 bytes in a millisecond.
    let rate = find(&readings, "dram/socket0/read_bandwidth");
    assert_eq!((rate.value, rate.unit.as_str()), (Some(0.128), "GB/s"));
    assert_eq!(
        find(&readings, "cxl_pmu_mem1.0/write").value,
        Some(64_000.0)
    );
    assert_eq!(find(&readings, "instructions").value, Some(1000.0));
    assert!(note(read).contains("other programs"), "{read:?}");
}

#[test]
fn counters_that_took_turns_are_extrapolated_and_say_so() {
    let turns = |running_ns| {
        CountStep::Adds(Count {
            count: 500,
            enabled_ns: 1000,
            running_ns,
        })
    };
    let opener = FakeOpener::all(counted(1))
        .with("cycles", turns(500))
        .with("instructions", turns(100));
    let readings = measure(&root(AMD), &opener);
    let cycles = find(&readings, "cycles");
    assert_eq!(cycles.value, Some(1000.0));
    assert!(
        note(cycles).contains("extrapolated from 50.0%"),
        "{cycles:?}"
    );
    assert!(note(find(&readings, "instructions")).contains("rough"));
    assert!(!note(find(&readings, "cache_misses")).contains("extrapolated"));
}

#[test]
fn a_counter_without_hardware_is_unavailable_and_not_zero() {
    let never = CountStep::Adds(Count {
        count: 0,
        enabled_ns: 1000,
        running_ns: 0,
    });
    let asleep = CountStep::Adds(Count::default());
    let opener = FakeOpener::all(counted(0))
        .with("cache_misses", never)
        .with("dtlb_load_misses", asleep)
        .with("stalled_cycles_backend", CountStep::Unreadable(5));
    let readings = measure(&root(AMD), &opener);
    for (name, expected) in [
        ("cache_misses", "never got a hardware counter"),
        ("dtlb_load_misses", "never switched on"),
        ("stalled_cycles_backend", "could not be read"),
        ("instructions", "stood still"),
        ("cycles", "stood still"),
    ] {
        let reading = find(&readings, name);
        assert_eq!(reading.value, None, "{name}");
        assert!(note(reading).contains(expected), "{reading:?}");
    }
    let references = find(&readings, "cache_references");
    assert_eq!(
        references.value,
        Some(0.0),
        "a program may have no cache reference"
    );
}

#[test]
fn one_refused_controller_makes_the_socket_unavailable_and_leaves_the_rest() {
    let refused = CountStep::Refused(13);
    let opener = FakeOpener::all(counted(10)).with("uncore_imc_1/cas_count_read", refused);
    let readings = measure(&root(INTEL), &opener);
    for name in [
        "dram/socket0/read",
        "dram/socket0/read_bandwidth",
        "dram/socket1/read",
    ] {
        let reading = find(&readings, name);
        assert_eq!(reading.value, None, "{name}");
        assert!(
            note(reading).contains("sudo sysctl kernel.perf_event_paranoid=0"),
            "{reading:?}"
        );
    }
    assert_eq!(find(&readings, "dram/socket0/write").value, Some(1280.0));
}

#[test]
fn nothing_anywhere_gives_notes_for_everything_and_no_value() {
    for opener in [
        FakeOpener::default(),
        FakeOpener::all(CountStep::Refused(1)),
    ] {
        let readings = measure(&root(EMPTY), &opener);
        for name in [
            "instructions",
            "dram/read",
            "dram/write",
            "cxl/read",
            "resctrl",
        ] {
            find(&readings, name);
        }
        for reading in &readings {
            assert_eq!(reading.value, None, "{reading:?}");
            assert!(!note(reading).is_empty(), "{reading:?}");
        }
    }
}

#[test]
fn a_recorded_tree_is_never_counted_on_the_machine_that_reads_it() {
    let readings = Counters::probe(&root(EMPTY)).start().stop();
    let cycles = find(&readings, "cycles");
    assert_eq!(cycles.value, None);
    assert!(note(cycles).contains("recorded tree"), "{cycles:?}");
}

#[test]
fn only_the_time_between_resume_and_pause_counts() {
    let opener = FakeOpener::all(counted(10));
    let counters = Counters::with_opener(&root(AMD), Arc::new(opener.clone()));
    let mut running = counters.open(Selection::CORE);
    for _ in 0..3 {
        running.resume();
        running.pause();
    }
    let readings = running.stop();
    assert_eq!(find(&readings, "cycles").value, Some(30.0));
    assert!(
        readings
            .iter()
            .all(|reading| !reading.name.starts_with("dram/"))
    );
    let log = opener.log();
    let of = |verb: &str| {
        log.iter()
            .filter(|line| *line == &format!("{verb} cycles"))
            .count()
    };
    assert_eq!((of("resume"), of("close")), (3, 1), "{log:?}");
}

#[test]
fn counters_of_cores_run_inside_those_of_the_machine() {
    let opener = FakeOpener::all(counted(1));
    measure(&root(AMD), &opener);
    let log = opener.log();
    let at = |line: &str| log.iter().position(|l| l == line).unwrap();
    let umc = "amd_umc_0/event=0xa,rdwrmask=0x1";
    assert!(at(&format!("resume {umc}")) < at("resume cycles"));
    assert!(at("pause cycles") < at(&format!("pause {umc}")));
}

#[test]
fn a_selection_leaves_the_others_closed() {
    let opener = FakeOpener::all(counted(1));
    let counters = Counters::with_opener(&root(AMD), Arc::new(opener.clone()));
    drop(counters.open(Selection::MACHINE));
    assert!(
        opener.log().iter().all(|line| line.contains("amd_umc_")),
        "{:?}",
        opener.log()
    );
}

/// Readings of resctrl around a change of its files.
fn monitored(copy: &Copy, change: impl FnOnce(&Copy)) -> Vec<Reading> {
    let opener = FakeOpener::all(counted(1));
    let running = Counters::with_opener(&copy.root(), Arc::new(opener)).start();
    change(copy);
    running.stop()
}

#[test]
fn resctrl_traffic_is_a_difference_and_occupancy_a_level() {
    let copy = Copy::of(INTEL);
    let readings = monitored(&copy, |copy| {
        copy.write(TOTAL, "1500000\n");
    });
    let total = find(&readings, "resctrl/mon_L3_00/mbm_total_bytes");
    assert_eq!(total.value, Some(500_000.0));
    assert!(
        find(&readings, "resctrl/mon_L3_00/mbm_total_bytes_bandwidth")
            .value
            .unwrap()
            > 0.0
    );
    assert_eq!(
        find(&readings, "resctrl/mon_L3_01/llc_occupancy").value,
        Some(2_097_152.0)
    );
}

#[test]
fn resctrl_files_that_tell_nothing_are_unavailable() {
    for (text, expected) in [
        ("Unavailable\n", "measure again"),
        ("Error\n", "no number"),
        ("5\n", "went back from 1000000 to 5"),
    ] {
        let copy = Copy::of(INTEL);
        let readings = monitored(&copy, |copy| {
            copy.write(TOTAL, text);
        });
        let total = find(&readings, "resctrl/mon_L3_00/mbm_total_bytes");
        assert_eq!(total.value, None);
        assert!(note(total).contains(expected), "{total:?}");
        let local = find(&readings, "resctrl/mon_L3_00/mbm_local_bytes");
        assert_eq!(
            local.value,
            Some(0.0),
            "nothing was moved, and the monitor says so"
        );
    }
}

#[test]
fn absent_resctrl_says_whether_mounting_it_would_help() {
    let opener = FakeOpener::all(counted(1));
    let amd = measure(&root(AMD), &opener);
    assert!(note(find(&amd, "resctrl")).contains("sudo mount -t resctrl"));
    let guest = measure(&root(EMPTY), &opener);
    assert!(note(find(&guest, "resctrl")).contains("offers no monitors"));
}

#[test]
fn broken_trees_never_panic() {
    for path in [
        "uncore_imc_0/format/event",
        "uncore_imc_0/cpumask",
        "cxl_pmu_mem0.0/type",
    ] {
        for text in ["", "\u{0}", "config:", ",,,", "18446744073709551616"] {
            let copy = Copy::of(INTEL);
            copy.write(&format!("{DEVICES}/{path}"), text);
            let readings = measure(&copy.root(), &FakeOpener::all(counted(1)));
            assert!(readings.len() > 10, "{path} {text:?}");
        }
    }
}
