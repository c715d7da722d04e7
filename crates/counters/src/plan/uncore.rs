//! Memory controllers: bytes read and written per socket.
//!
//! Drivers for Intel describe their events in sysfs (`cas_count_read`, with a scale). For
//! `amd_umc_*` the event is taken from AMD's Processor Programming Reference for family 19h model
//! 11h: CAS command count is event 0x0a, `rdwrmask` selects reads or writes, and one command
//! transfers a line of 64 bytes.

use std::collections::BTreeMap;

use tierloom_topology::SysRoot;

use super::pmu::{self, Pmu, PmuError};
use super::{LINE_BYTES, Plan, PlannedEvent, PlannedReading, Scope, Unit};
use crate::files;

/// CAS commands of an AMD memory controller.
const AMD_CAS: u64 = 0x0a;

/// Intel's event names for one direction: servers, then two generations of client processors.
///
/// The first may have a suffix that names a scheduler.
type IntelNames = [&'static str; 3];

/// Directions: name in the reading, Intel's event names, value of AMD's `rdwrmask`.
const DIRECTIONS: [(&str, IntelNames, u64); 2] = [
    ("read", ["cas_count_read", "data_read", "data_reads"], 1),
    ("write", ["cas_count_write", "data_write", "data_writes"], 2),
];

/// Readings by place (a socket, or a CPU if its socket is unknown) and direction.
type Sums = BTreeMap<((&'static str, u32), &'static str), PlannedReading>;

/// Plans the memory controllers of the machine below `root`.
pub fn plan(root: &SysRoot) -> Plan {
    let mut plan = Plan::default();
    let names = pmu::names(root);
    let controllers = controllers(&names);
    if controllers.is_empty() {
        miss_all(&mut plan, &absence(root, &names));
        return plan;
    }
    let mut sums = Sums::new();
    for name in controllers {
        if let Err(error) = add(root, name, &mut sums) {
            // A sum without one controller would be plausible but too small.
            sums.clear();
            miss_all(
                &mut plan,
                &format!("{error}; without this controller a sum would be too small"),
            );
            return plan;
        }
    }
    plan.readings = sums.into_values().map(describe).collect();
    plan
}

fn miss_all(plan: &mut Plan, why: &str) {
    for (direction, ..) in DIRECTIONS {
        plan.miss(format!("dram/{direction}"), Unit::Bytes, why);
    }
}

/// PMUs to use, from the first group that exists.
///
/// In order: `uncore_imc_*`, its free-running variant of client processors, `amd_umc_*`.
fn controllers(names: &[String]) -> Vec<&str> {
    let with = |prefix: &str| -> Vec<&str> {
        // Not every PMU with this prefix: `uncore_imc_free_running_0` is a different kind.
        let is_numbered = |name: &&str| {
            name.strip_prefix(prefix).is_some_and(|rest| {
                rest.is_empty() || rest.trim_start_matches('_').parse::<u32>().is_ok()
            })
        };
        names
            .iter()
            .map(String::as_str)
            .filter(is_numbered)
            .collect()
    };
    ["uncore_imc", "uncore_imc_free_running", "amd_umc"]
        .into_iter()
        .map(with)
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// Adds the events of one controller to the sums of its sockets.
fn add(root: &SysRoot, name: &str, sums: &mut Sums) -> Result<(), AddError> {
    let pmu = Pmu::read(root, name)?;
    if pmu.cpus.is_empty() {
        return Err(AddError::NoCpus(name.to_owned()));
    }
    for (direction, names, amd_mask) in DIRECTIONS {
        for (event, config, per_count) in events(root, &pmu, names, amd_mask)? {
            for cpu in pmu.cpus.iter() {
                let socket = socket_of(root, cpu);
                let place = match socket {
                    Some(socket) => ("socket", socket),
                    None => ("cpu", cpu),
                };
                let reading = sums.entry((place, direction)).or_insert_with(|| {
                    let place = format!("{}{}", place.0, place.1);
                    PlannedReading {
                        name: format!("dram/{place}/{direction}"),
                        unit: Unit::Bytes,
                        per_count,
                        events: Vec::new(),
                        note: None,
                    }
                });
                // Counts are added up before they are scaled, so all of them need the same scale.
                if reading.per_count != per_count {
                    return Err(AddError::MixedScales(name.to_owned()));
                }
                reading.events.push(PlannedEvent {
                    label: format!("{name}/{event}"),
                    pmu_type: pmu.pmu_type,
                    config,
                    scope: Scope::Cpu(cpu),
                });
            }
        }
    }
    Ok(())
}

/// Why a controller cannot be part of the sums.
#[derive(Debug, thiserror::Error)]
enum AddError {
    #[error(transparent)]
    Pmu(#[from] PmuError),
    #[error("/{devices}/{0}/cpumask names no CPU", devices = pmu::DEVICES)]
    NoCpus(String),
    #[error(
        "{0} describes no event {1} in bytes (a kernel from 6.4 on describes them for Sapphire Rapids and its successors)"
    )]
    NoEvent(String, &'static str),
    #[error("{0} counts in another unit than the controllers before it")]
    MixedScales(String),
}

/// Events of one direction: name, configuration, bytes per count.
///
/// A controller with two schedulers has two events.
fn events(
    root: &SysRoot,
    pmu: &Pmu,
    names: IntelNames,
    amd_mask: u64,
) -> Result<Vec<(String, [u64; 3], f64)>, AddError> {
    if pmu.name.starts_with("amd_umc") {
        let config = pmu.encode(
            "CAS commands",
            &[("event", AMD_CAS), ("rdwrmask", amd_mask)],
        )?;
        let label = format!("event={AMD_CAS:#x},rdwrmask={amd_mask:#x}");
        return Ok(vec![(label, config, LINE_BYTES)]);
    }
    let matching = pmu.events.iter().filter(|event| {
        names.iter().any(|name| {
            // Accepts `cas_count_read` and `cas_count_read_sch0`, but no other event that starts
            // alike.
            event
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("_sch"))
        })
    });
    let mut found = Vec::new();
    for event in matching {
        let bytes = pmu.scale(root, event).and_then(|scale| scale.bytes());
        let bytes = bytes.ok_or_else(|| AddError::NoEvent(pmu.name.clone(), names[0]))?;
        found.push((event.clone(), pmu.event(root, event)?, bytes));
    }
    match found.is_empty() {
        true => Err(AddError::NoEvent(pmu.name.clone(), names[0])),
        false => Ok(found),
    }
}

fn socket_of(root: &SysRoot, cpu: u32) -> Option<u32> {
    let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    files::read(root, &path).ok()?.parse().ok()
}

fn describe(mut reading: PlannedReading) -> PlannedReading {
    let count = reading.events.len();
    let first = reading
        .events
        .first()
        .map_or("", |event| event.label.as_str());
    reading.note = Some(format!(
        "all memory traffic of the socket, other programs' too; sum of {count} events such as {first}"
    ));
    reading
}

/// Why no controller can be counted, with a remedy.
fn absence(root: &SysRoot, names: &[String]) -> String {
    if names.is_empty() {
        return format!(
            "there is no PMU in /{}: the kernel is built without CONFIG_PERF_EVENTS, or /sys is hidden",
            pmu::DEVICES
        );
    }
    let cpuinfo = files::read(root, "proc/cpuinfo").unwrap_or_default();
    let fix = if files::is_guest(root) {
        "virtual machines are not given memory controllers; measure on bare metal"
    } else if cpuinfo.contains("GenuineIntel") {
        "sudo modprobe intel_uncore"
    } else if names.iter().any(|name| name == "amd_df") {
        "Zen 4 or later with a kernel from 6.9 on shows amd_umc_*; events of amd_df differ by model and are not used"
    } else if cpuinfo.contains("AuthenticAMD") {
        "sudo modprobe amd_uncore; Zen 4 or later with a kernel from 6.9 on shows amd_umc_*"
    } else {
        "Tierloom knows those of Intel and AMD only"
    };
    format!("no memory controller PMU in /{} ({fix})", pmu::DEVICES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        controllers(&names).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn free_running_counters_are_not_added_to_the_same_traffic() {
        let both = ["uncore_imc_0", "uncore_imc_free_running_0", "uncore_cha_0"];
        assert_eq!(chosen(&both), ["uncore_imc_0"]);
        assert_eq!(
            chosen(&["uncore_imc_free_running_1", "cpu"]),
            ["uncore_imc_free_running_1"]
        );
        assert_eq!(chosen(&["uncore_imc"]), ["uncore_imc"]);
        assert_eq!(chosen(&["cpu", "msr", "uncore_imcx"]), [""; 0]);
    }
}
