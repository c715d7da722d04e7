//! Which events tell the stalls of a processor family.
//!
//! Encodings and formulas are those of Linux's `tools/perf/pmu-events/arch/x86` (files
//! `sapphirerapids`, `emeraldrapids`, `graniterapids`, `amdzen4` and `amdzen5`, from Intel's
//! perfmon repository and AMD's Processor Programming References), and the names of Intel's
//! top-down metrics those of Yasin, "A Top-Down Method for Performance Analysis and Counters
//! Architecture", 2014.

use std::fmt;

use tierloom_topology::SysRoot;

use crate::files;

/// The kernel's generalised hardware events (`PERF_TYPE_HARDWARE`).
const GENERAL: u32 = 0;

/// Events in the numbering of the processor (`PERF_TYPE_RAW`).
const RAW: u32 = 4;

/// A processor family whose events are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Intel Xeon of the fourth generation.
    SapphireRapids,
    /// Intel Xeon of the fifth generation.
    EmeraldRapids,
    /// Intel Xeon 6 with performance cores.
    GraniteRapids,
    /// AMD EPYC 9004 and Ryzen 7000.
    Zen4,
    /// AMD EPYC 9005 and Ryzen 9000.
    Zen5,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::SapphireRapids => "Sapphire Rapids",
            Family::EmeraldRapids => "Emerald Rapids",
            Family::GraniteRapids => "Granite Rapids",
            Family::Zen4 => "Zen 4",
            Family::Zen5 => "Zen 5",
        })
    }
}

impl Family {
    /// The family by vendor, family and model of `/proc/cpuinfo`.
    #[must_use]
    pub fn of(cpuinfo: &str) -> Option<Family> {
        let field = |name: &str| files::cpuinfo_field(cpuinfo, name);
        let number = |name: &str| field(name)?.parse::<u32>().ok();
        match (field("vendor_id")?, number("cpu family")?, number("model")?) {
            ("GenuineIntel", 6, 0x8f) => Some(Family::SapphireRapids),
            ("GenuineIntel", 6, 0xcf) => Some(Family::EmeraldRapids),
            ("GenuineIntel", 6, 0xad | 0xae) => Some(Family::GraniteRapids),
            ("AuthenticAMD", 0x19, 0x10..=0x1f | 0x60..=0xaf) => Some(Family::Zen4),
            ("AuthenticAMD", 0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => Some(Family::Zen5),
            _ => None,
        }
    }

    /// Operations that AMD's cores can dispatch in a cycle; Intel's count their slots.
    pub(super) fn dispatch_width(self) -> Option<f64> {
        match self {
            Family::Zen4 => Some(6.0),
            Family::Zen5 => Some(8.0),
            _ => None,
        }
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StallEvent {
    /// Name of this crate.
    pub name: &'static str,
    /// PMU type, the field `type` of `perf_event_attr`.
    pub pmu_type: u32,
    /// The field `config` of `perf_event_attr`.
    pub config: u64,
}

/// Events that are on the hardware together; the first one leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventGroup {
    /// Its events.
    pub events: Vec<StallEvent>,
}

/// The events of a machine's processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StallPlan {
    /// The family; `None` if it is none of those that are known.
    pub family: Option<Family>,
    /// The events.
    pub groups: Vec<EventGroup>,
}

impl StallPlan {
    /// The events of the machine below `root`; only opening them shows whether it has them.
    #[must_use]
    pub fn of(root: &SysRoot) -> Self {
        let cpuinfo = files::read(root, "proc/cpuinfo").unwrap_or_default();
        Self::for_family(Family::of(&cpuinfo))
    }

    /// The events of a family; those that every processor has if it is not known.
    #[must_use]
    pub fn for_family(family: Option<Family>) -> Self {
        let groups = match family {
            Some(Family::SapphireRapids | Family::EmeraldRapids) => vec![intel(4)],
            Some(Family::GraniteRapids) => vec![intel(12)],
            Some(Family::Zen4 | Family::Zen5) => vec![zen_backend(), zen_memory()],
            None => vec![group(&[
                general("cycles", 0),
                general("instructions", 1),
                general("cache_misses", 3),
            ])],
        };
        StallPlan { family, groups }
    }

    /// Group and number of an event.
    pub(super) fn find(&self, name: &str) -> Option<(usize, usize)> {
        let mut number = 0;
        for (at, group) in self.groups.iter().enumerate() {
            for event in &group.events {
                if event.name == name {
                    return Some((at, number));
                }
                number += 1;
            }
        }
        None
    }
}

fn group(events: &[StallEvent]) -> EventGroup {
    EventGroup {
        events: events.to_vec(),
    }
}

const fn general(name: &'static str, config: u64) -> StallEvent {
    StallEvent {
        name,
        pmu_type: GENERAL,
        config,
    }
}

const fn raw(name: &'static str, config: u64) -> StallEvent {
    StallEvent {
        name,
        pmu_type: RAW,
        config,
    }
}

/// Event, unit mask and counter mask as Intel's PMU takes them.
const fn intel_event(name: &'static str, event: u64, umask: u64, counter_mask: u64) -> StallEvent {
    raw(name, event | umask << 8 | counter_mask << 24)
}

/// Event (12 bits) and unit mask as AMD's PMU takes them.
const fn amd_event(name: &'static str, event: u64, umask: u64) -> StallEvent {
    raw(name, (event & 0xff) | umask << 8 | (event >> 8) << 32)
}

/// One group: the slots and their metrics, cycles and instructions have counters of their own, and
/// four of the eight general ones are used. `busy_reads` outstanding at once are a busy memory.
fn intel(busy_reads: u64) -> EventGroup {
    group(&[
        // The kernel reads the metrics only in a group that the slots lead.
        raw("slots", 0x0400),
        raw("retiring_slots", 0x8000),
        raw("bad_speculation_slots", 0x8100),
        raw("frontend_slots", 0x8200),
        raw("backend_slots", 0x8300),
        raw("memory_slots", 0x8700),
        general("cycles", 0),
        general("instructions", 1),
        // OFFCORE_REQUESTS_OUTSTANDING: cycles with at least one read, and with many.
        intel_event("reading_cycles", 0x20, 0x08, 1),
        intel_event("busy_reading_cycles", 0x20, 0x08, busy_reads),
        // MEMORY_ACTIVITY.STALLS_L3_MISS and EXE_ACTIVITY.BOUND_ON_STORES.
        intel_event("l3_miss_stall_cycles", 0x47, 0x09, 9),
        intel_event("store_stall_cycles", 0xa6, 0x40, 2),
    ])
}

/// All six counters of a Zen core: where the backend waits.
fn zen_backend() -> EventGroup {
    group(&[
        general("cycles", 0),
        general("instructions", 1),
        // de_no_dispatch_per_slot: no operations from the frontend, stalls of the backend.
        amd_event("frontend_slots", 0x1a0, 0x01),
        amd_event("backend_slots", 0x1a0, 0x1e),
        // ex_no_retire: nothing retired as a load, or as anything, was not complete.
        amd_event("load_wait_cycles", 0xd6, 0xa2),
        amd_event("wait_cycles", 0xd6, 0x02),
    ])
}

/// Speculation, stores, and what came from memory; the cycles are their own to relate them to.
fn zen_memory() -> EventGroup {
    group(&[
        general("memory_group_cycles", 0),
        // de_src_op_disp.all and ex_ret_ops.
        amd_event("dispatched_ops", 0xaa, 0x07),
        amd_event("retired_ops", 0xc1, 0x00),
        // Cycles in which operations wait for the store queue: dispatch tokens, part 1.
        amd_event("store_stall_cycles", 0xae, 0x04),
        // ls_any_fills_from_sys: lines from memory of this and other sockets, and from CXL.
        amd_event("dram_lines", 0x44, 0x48),
        amd_event("cxl_lines", 0x44, 0x80),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stalls::{MAX_EVENTS, MAX_GROUPS};

    const FAMILIES: [Option<Family>; 6] = [
        None,
        Some(Family::SapphireRapids),
        Some(Family::EmeraldRapids),
        Some(Family::GraniteRapids),
        Some(Family::Zen4),
        Some(Family::Zen5),
    ];

    #[test]
    fn families_are_known_by_vendor_family_and_model() {
        let info = |vendor: &str, family: u32, model: u32| {
            Family::of(&format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
                 model name\t: some processor\n"
            ))
        };
        assert_eq!(info("GenuineIntel", 6, 143), Some(Family::SapphireRapids));
        assert_eq!(info("GenuineIntel", 6, 207), Some(Family::EmeraldRapids));
        assert_eq!(info("GenuineIntel", 6, 173), Some(Family::GraniteRapids));
        assert_eq!(info("AuthenticAMD", 25, 17), Some(Family::Zen4));
        assert_eq!(info("AuthenticAMD", 25, 1), None, "Zen 3");
        assert_eq!(info("AuthenticAMD", 26, 2), Some(Family::Zen5));
        assert_eq!(info("AuthenticAMD", 26, 80), None, "a later one");
        assert_eq!(info("GenuineIntel", 6, 106), None, "Ice Lake");
        assert_eq!(Family::of(""), None);
    }

    #[test]
    fn a_plan_fits_what_is_read_and_the_counters_of_a_core() {
        for family in FAMILIES {
            let plan = StallPlan::for_family(family);
            let events: Vec<StallEvent> =
                plan.groups.iter().flat_map(|g| g.events.clone()).collect();
            assert!(events.len() <= MAX_EVENTS && plan.groups.len() <= MAX_GROUPS);
            for (at, event) in events.iter().enumerate() {
                assert_eq!(plan.find(event.name).unwrap().1, at, "{}", event.name);
            }
            // Six general counters on Zen. On Intel's, slots, metrics, cycles and instructions have
            // their own.
            let general = |group: &EventGroup| {
                let own = ["slots", "cycles", "instructions"];
                let is_own = |event: &&StallEvent| {
                    let metric = event.pmu_type == RAW && event.config & 0xff == 0;
                    family.is_some_and(|f| f.dispatch_width().is_none())
                        && (own.contains(&event.name) || metric)
                };
                group.events.iter().filter(|event| !is_own(event)).count()
            };
            assert!(plan.groups.iter().all(|g| general(g) <= 6), "{family:?}");
        }
    }

    #[test]
    fn events_are_encoded_as_the_processors_take_them() {
        let config = |family, name| {
            let plan = StallPlan::for_family(Some(family));
            let (_, number) = plan.find(name).unwrap();
            let events = plan.groups.iter().flat_map(|g| g.events.clone());
            events.clone().nth(number).unwrap().config
        };
        // As `perf stat -e cpu/event=0x20,umask=0x8,cmask=4/` and `-e cpu/event=0x1a0,umask=0x1e/`.
        let busy = config(Family::SapphireRapids, "busy_reading_cycles");
        assert_eq!(busy, 0x0400_0820);
        let busy = config(Family::GraniteRapids, "busy_reading_cycles");
        assert_eq!(busy, 0x0c00_0820);
        assert_eq!(config(Family::Zen5, "backend_slots"), 0x1_0000_1ea0);
    }
}
