//! CXL performance monitoring units: events counted by the memory devices themselves.
//!
//! Event names are those of the kernel's driver `cxl_pmu`, after the CXL 3.0 specification, section
//! 13.2. A device lists only the events that it can count. Data that it sends (`s2m_drs_memdata`)
//! is read by the host; requests with data that it receives (`m2s_rwd_memwr`) are writes of the
//! host. Each message transfers a line of 64 bytes on the link, including partial writes
//! (`m2s_rwd_memwrptl`).

use tierloom_topology::SysRoot;

use super::pmu::{self, Pmu, PmuError};
use super::{LINE_BYTES, Plan, PlannedEvent, PlannedReading, Scope, Unit};

/// Quantities in bytes, each the sum of those events that the device has; the first is required.
const BYTES: [(&str, &[&str]); 2] = [
    ("read", &["s2m_drs_memdata", "s2m_drs_memdatanxm"]),
    ("write", &["m2s_rwd_memwr", "m2s_rwd_memwrptl"]),
];

/// Events that are reported individually if the device has them.
const EVENTS: [&str; 7] = [
    "clock_ticks",
    "m2s_req_memrd",
    "m2s_req_memrddata",
    "m2s_req_memspecrd",
    "m2s_req_meminv",
    "h2d_req_snpinv",
    "d2h_req_rdshared",
];

/// Plans the CXL PMUs of the machine below `root`.
pub fn plan(root: &SysRoot) -> Plan {
    let mut plan = Plan::default();
    let names = pmu::names(root);
    let cxl: Vec<&String> = names.iter().filter(|n| n.starts_with("cxl_pmu_")).collect();
    if cxl.is_empty() {
        let why = absence(root);
        for (direction, _) in BYTES {
            plan.miss(format!("cxl/{direction}"), Unit::Bytes, why.clone());
        }
    }
    for name in cxl {
        if let Err(error) = add(root, name, &mut plan) {
            // A PMU that fails halfway must not leave some of its readings in the plan.
            plan.readings
                .retain(|reading| !reading.name.starts_with(&format!("{name}/")));
            for (direction, _) in BYTES {
                plan.miss(
                    format!("{name}/{direction}"),
                    Unit::Bytes,
                    error.to_string(),
                );
            }
        }
    }
    plan
}

fn absence(root: &SysRoot) -> String {
    match root.exists("sys/bus/cxl/devices/mem0") {
        true => format!(
            "no CXL PMU in /{} (sudo modprobe cxl_pmu, Linux 6.5 or later; few devices have one)",
            pmu::DEVICES
        ),
        false => format!(
            "no CXL PMU in /{}: no CXL memory device is seen",
            pmu::DEVICES
        ),
    }
}

fn add(root: &SysRoot, name: &str, plan: &mut Plan) -> Result<(), PmuError> {
    let pmu = Pmu::read(root, name)?;
    // Any CPU can read the device; the driver names one. Kernels without that file accept the
    // first.
    let cpu = pmu.cpus.first().unwrap_or(0);
    let planned = |event: &str| {
        Ok::<_, PmuError>(PlannedEvent {
            label: format!("{name}/{event}"),
            pmu_type: pmu.pmu_type,
            config: pmu.event(root, event)?,
            scope: Scope::Cpu(cpu),
        })
    };
    for (direction, events) in BYTES {
        let reading = format!("{name}/{direction}");
        let Some(first) = events.first().filter(|first| pmu.has(first)) else {
            let why = format!("this device does not count {}", events.join(" or "));
            plan.miss(reading, Unit::Bytes, why);
            continue;
        };
        let offered: Vec<&str> = events
            .iter()
            .copied()
            .filter(|event| pmu.has(event))
            .collect();
        plan.readings.push(PlannedReading {
            name: reading,
            unit: Unit::Bytes,
            per_count: LINE_BYTES,
            events: offered
                .iter()
                .map(|e| planned(e))
                .collect::<Result<_, _>>()?,
            note: Some(match offered.len() {
                1 => format!("{first} x 64 B, all hosts and programs"),
                _ => format!("({}) x 64 B, all hosts and programs", offered.join(" + ")),
            }),
        });
    }
    for event in EVENTS.into_iter().filter(|event| pmu.has(event)) {
        plan.readings.push(PlannedReading {
            name: format!("{name}/{event}"),
            unit: Unit::Events,
            per_count: 1.0,
            events: vec![planned(event)?],
            note: None,
        });
    }
    Ok(())
}
