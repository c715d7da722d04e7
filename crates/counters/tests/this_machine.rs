//! Counters on the machine that runs the tests, whatever it supports.

use tierloom_counters::plan::pmu::Pmu;
use tierloom_counters::plan::{PlannedEvent, Scope};
use tierloom_counters::{Counters, LinuxOpener, PerfOpener};
use tierloom_testing::checked_nothing;
use tierloom_topology::SysRoot;

#[test]
fn every_reading_here_has_a_plausible_value_or_a_reason() {
    let counters = Counters::probe(&SysRoot::host());
    let running = counters.start();
    let steps = 5_000_000_u64;
    let worker = std::thread::spawn(move || {
        (0..steps).fold(1_u64, |x, i| {
            std::hint::black_box(x.wrapping_mul(31).wrapping_add(i))
        })
    });
    std::hint::black_box(worker.join().unwrap());
    let readings = running.stop();
    for reading in &readings {
        println!("{reading:?}");
        match reading.value {
            Some(value) => assert!(value.is_finite() && value >= 0.0, "{reading:?}"),
            None => assert!(
                reading.note.as_deref().is_some_and(|n| n.len() > 20),
                "{reading:?}"
            ),
        }
    }
    let instructions = readings.iter().find(|r| r.name == "instructions").unwrap();
    if let Some(counted) = instructions.value {
        // The loop is on a thread created after the start: without inheritance it would not be
        // counted.
        assert!(counted > steps as f64, "{counted} instructions");
    }
}

/// The `msr` PMU is described in sysfs like those of memory controllers, and many virtual machines
/// have it.
#[test]
fn an_event_described_in_sysfs_counts_a_whole_cpu() {
    let root = SysRoot::host();
    let Ok(pmu) = Pmu::read(&root, "msr") else {
        return checked_nothing("no PMU `msr`");
    };
    let event = PlannedEvent {
        label: "msr/tsc".to_owned(),
        pmu_type: pmu.pmu_type,
        config: pmu.event(&root, "tsc").unwrap(),
        scope: Scope::Cpu(0),
    };
    let mut counter = match LinuxOpener.open(&event) {
        Ok(counter) => counter,
        Err(error) => return checked_nothing(error),
    };
    assert_eq!(counter.read().unwrap().count, 0, "it opens switched off");
    counter.resume().unwrap();
    std::hint::black_box((0..100_000_u64).fold(0, |x: u64, i| std::hint::black_box(x ^ i)));
    counter.pause().unwrap();
    let counted = counter.read().unwrap();
    println!("{counted:?}");
    assert!(counted.count > 0 && counted.enabled_ns > 0, "{counted:?}");
    assert_eq!(counter.read().unwrap(), counted, "it is switched off");
}
