//! Latencies of memory: which events are opened on which machine, and what their counts mean.

mod common;

use common::{AMD, Copy, DEVICES, EMPTY, INTEL, root};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tierloom_counters::latencies::{LatencyPlan, LatencySource, MemoryReads, Others};
use tierloom_counters::plan::{PlannedEvent, Scope};
use tierloom_counters::{Count, OpenCounter, PerfOpener};

const SAPPHIRE: u32 = 143;
const EMERALD: u32 = 207;

/// The two sockets with CXL, with six caching agents whose mask has the bits of a new kernel.
fn intel(model: u32) -> Copy {
    let copy = Copy::of(INTEL);
    let cpu = format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n");
    copy.write("proc/cpuinfo", &cpu);
    for agent in 0..6 {
        let pmu = format!("{DEVICES}/uncore_cha_{agent}");
        copy.write(&format!("{pmu}/type"), &format!("{}", 90 + agent))
            .write(&format!("{pmu}/cpumask"), "0,24")
            .write(&format!("{pmu}/format/event"), "config:0-7")
            .write(&format!("{pmu}/format/umask"), "config:8-15,32-63");
    }
    copy
}

fn amd() -> Copy {
    let copy = Copy::of(AMD);
    let pmu = format!("{DEVICES}/amd_l3");
    copy.write(
        "proc/cpuinfo",
        "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n",
    );
    for (file, text) in [
        ("type", "14"),
        ("cpumask", "0,8"),
        ("format/event", "config:0-7"),
        ("format/umask", "config:8-15"),
        ("format/enallslices", "config:46"),
        ("format/enallcores", "config:47"),
        ("format/sliceid", "config:48-50"),
        ("format/threadmask", "config:56-57"),
    ] {
        copy.write(&format!("{pmu}/{file}"), text);
    }
    copy
}

fn shown(event: &PlannedEvent) -> String {
    let Scope::Cpu(cpu) = event.scope else {
        panic!("{event} counts threads")
    };
    format!("{}:{:#x}@{cpu}", event.pmu_type, event.config[0])
}

/// Units as lines: memory, then type:config@CPU of what waits, of reads, and of the clock.
fn lines(plan: &LatencyPlan) -> Vec<String> {
    let unit = |unit: &tierloom_counters::latencies::LatencyUnit| {
        let clock = unit.clock.as_ref().map(shown).unwrap_or_default();
        let (waiting, requests) = (shown(&unit.waiting), shown(&unit.requests));
        format!("{} {waiting} {requests} {clock}", unit.memory)
    };
    plan.units.iter().map(unit).collect()
}

#[test]
fn intel_agents_take_turns_at_the_kinds_of_memory_on_each_socket() {
    let plan = |model, others| LatencyPlan::of(&intel(model).root(), others).unwrap();
    // Bits 32 to 63 of the configuration are those of the extended mask.
    let sapphire = lines(&plan(SAPPHIRE, Others::Cxl));
    assert_eq!(sapphire.len(), 12, "six agents of two sockets");
    assert_eq!(
        sapphire[..3],
        [
            "0 90:0xc8178600000136@0 90:0xc8178600000135@0 90:0x1@0",
            "0 90:0xc8178600000136@24 90:0xc8178600000135@24 90:0x1@24",
            "1 91:0x10c8178200000136@0 91:0x10c8178200000135@0 91:0x1@0",
        ]
    );
    let emerald = lines(&plan(EMERALD, Others::Cxl));
    assert!(emerald[2].starts_with("1 91:0x20c8168200000136@0"));
    assert!(emerald[4].starts_with("1 92:0x10c8178200000136@0"));
    let sockets = lines(&plan(EMERALD, Others::RemoteDram));
    assert!(sockets[0].starts_with("0 90:0xc8168600000136@0"));
    assert!(sockets[2].starts_with("1 91:0xc8170600000136@0"));
}

#[test]
fn amd_caches_sample_both_memories() {
    let plan = LatencyPlan::of(&amd().root(), Others::Cxl).unwrap();
    assert_eq!(
        lines(&plan),
        [
            "0 14:0x303c000000003ac@0 14:0x303c000000003ad@0 ",
            "1 14:0x303c000000030ac@0 14:0x303c000000030ad@0 ",
            "0 14:0x303c000000003ac@8 14:0x303c000000003ad@8 ",
            "1 14:0x303c000000030ac@8 14:0x303c000000030ad@8 ",
        ]
    );
    let plan = LatencyPlan::of(&amd().root(), Others::RemoteDram).unwrap();
    assert!(lines(&plan)[1].contains("2ac"));
}

#[test]
fn what_is_missing_is_named_with_its_fix() {
    let why = |root: &tierloom_topology::SysRoot| {
        LatencyPlan::of(root, Others::Cxl).unwrap_err().to_string()
    };
    assert!(why(&root(EMPTY)).contains("Granite Rapids"));
    let copy = intel(EMERALD);
    copy.write(
        &format!("{DEVICES}/uncore_cha_1/format/umask"),
        "config:8-15,32-55",
    );
    assert!(
        why(&copy.root()).contains("Linux 6.11"),
        "{}",
        why(&copy.root())
    );
    let copy = intel(SAPPHIRE);
    for agent in 0..6 {
        copy.remove(&format!("{DEVICES}/uncore_cha_{agent}"));
    }
    assert!(why(&copy.root()).contains("modprobe intel_uncore"));
    let copy = amd();
    copy.write(&format!("{DEVICES}/amd_l3/cpumask"), "");
    assert!(why(&copy.root()).contains("cpumask"));
    let refused = LatencySource::probe(&amd().root(), Others::Cxl).open();
    assert!(refused.unwrap_err().contains("recorded tree"));
}

/// Counters that grow with each read of any of them: by `growth` of their configuration.
#[derive(Debug)]
struct Growing(fn(&PlannedEvent) -> u64);

#[derive(Debug)]
struct Grows {
    by: u64,
    reads: AtomicU64,
    share: u64,
}

impl PerfOpener for Growing {
    fn open(&self, event: &PlannedEvent) -> io::Result<Box<dyn OpenCounter>> {
        Ok(Box::new(Grows {
            by: self.0(event),
            reads: AtomicU64::new(0),
            // The second socket's counters are on the hardware half of the time.
            share: if event.scope == Scope::Cpu(24) { 2 } else { 1 },
        }))
    }
}

impl OpenCounter for Grows {
    fn resume(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn read(&mut self) -> io::Result<Count> {
        let reads = 1 + self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(Count {
            count: reads * self.by / self.share,
            enabled_ns: reads * 1_000_000,
            running_ns: reads * 1_000_000 / self.share,
        })
    }
}

fn opened(copy: &Copy, growth: fn(&PlannedEvent) -> u64) -> [MemoryReads; 2] {
    let opener = Arc::new(Growing(growth));
    let source = LatencySource::with_opener(&copy.root(), Others::Cxl, opener);
    let mut reader = source.open().unwrap();
    let first = reader.read().unwrap();
    assert_eq!(reader.read().unwrap(), first, "each read has what is new");
    first
}

#[test]
fn waiting_cycles_become_latencies_at_the_clock_of_the_agent() {
    // 2 GHz: 400 cycles of DDR and 700 of CXL.
    let growth = |event: &PlannedEvent| match (event.config[0] & 0xff, event.config[0] >> 60) {
        (0x36, 0) => 400 * 1000,
        (0x36, _) => 700 * 1000,
        (0x35, _) => 1000,
        _ => 2_000_000,
    };
    let [dram, cxl] = opened(&intel(SAPPHIRE), growth);
    assert!(
        (dram.latency_ns().unwrap() - 200.0).abs() < 1e-6,
        "{dram:?}"
    );
    assert!((cxl.latency_ns().unwrap() - 350.0).abs() < 1e-6, "{cxl:?}");
    // Three agents of two sockets, those that took turns extrapolated.
    assert!((dram.requests - 6000.0).abs() < 1e-6, "{dram:?}");
}

#[test]
fn sampled_latencies_are_in_units_of_ten_ns_and_nothing_read_has_none() {
    let growth = |event: &PlannedEvent| match (event.config[0] & 0xff, event.config[0] >> 8 & 0xff)
    {
        (0xac, 0x03) => 12 * 500,
        (0xad, 0x03) => 500,
        _ => 0,
    };
    let [dram, cxl] = opened(&amd(), growth);
    assert_eq!(dram.latency_ns(), Some(120.0));
    assert_eq!(cxl.latency_ns(), None);
}
