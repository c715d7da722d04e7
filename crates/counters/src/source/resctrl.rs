//! Monitors of resctrl: L3 occupancy and memory traffic per L3 domain, as files of the kernel.
//!
//! The monitors are only read, never configured. Files of the root group count all tasks that are
//! in no other group, which are all tasks of an unconfigured machine. The layout is documented in
//! the kernel's `Documentation/filesystems/resctrl.rst`.

use std::time::{Duration, Instant};

use tierloom_topology::SysRoot;

use super::{CounterSource, OpenCounters};
use crate::plan::Unit;
use crate::{Reading, files};

const MOUNT: &str = "sys/fs/resctrl";
const MONITORS: &str = "sys/fs/resctrl/mon_data";

/// Files with running totals, as opposed to `llc_occupancy`, which is a present value.
const COUNTERS: [&str; 2] = ["mbm_total_bytes", "mbm_local_bytes"];
const LEVEL: &str = "llc_occupancy";

const GROUP_NOTE: &str = "tasks of the default resctrl group, other programs' too";

/// The monitors of a machine.
#[derive(Debug, Clone)]
pub struct ResctrlSource {
    root: SysRoot,
    /// Name of the reading, and path, of each running total.
    counters: Vec<(String, String)>,
    /// Name of the reading, and path, of each present value.
    levels: Vec<(String, String)>,
    /// Why there are no monitors at all; `None` if there are any.
    missing: Option<String>,
}

impl ResctrlSource {
    /// Lists the monitors of the machine below `root`.
    pub fn probe(root: &SysRoot) -> Self {
        let mut source = Self {
            root: root.clone(),
            counters: Vec::new(),
            levels: Vec::new(),
            missing: None,
        };
        let domains = files::list(root, MONITORS);
        for domain in domains.iter().filter(|name| name.starts_with("mon_L3_")) {
            for file in files::list(root, &format!("{MONITORS}/{domain}")) {
                let named = (
                    format!("resctrl/{domain}/{file}"),
                    format!("{MONITORS}/{domain}/{file}"),
                );
                if COUNTERS.contains(&file.as_str()) {
                    source.counters.push(named);
                } else if file == LEVEL {
                    source.levels.push(named);
                }
            }
        }
        if source.counters.is_empty() && source.levels.is_empty() {
            source.missing = Some(absence(root));
        }
        source
    }
}

/// Why there are no monitors, with a remedy.
fn absence(root: &SysRoot) -> String {
    let has_flag = |flag: &str| {
        files::read(root, "proc/cpuinfo")
            .is_ok_and(|text| text.split_whitespace().any(|word| word == flag))
    };
    if root.exists(MONITORS) {
        return format!("/{MONITORS} has no L3 monitors: the processor offers none to this kernel");
    }
    if root.exists(&format!("{MOUNT}/schemata")) {
        return format!("there is no /{MONITORS}: this processor allocates but does not monitor");
    }
    if has_flag("cqm_mbm_total") || has_flag("cqm_occup_llc") {
        return format!(
            "resctrl is not mounted (sudo mount -t resctrl resctrl /{MOUNT}; the kernel needs CONFIG_X86_CPU_RESCTRL)"
        );
    }
    "this processor, or its hypervisor, offers no monitors of cache and memory traffic (Intel RDT, AMD QoS)"
        .to_owned()
}

impl CounterSource for ResctrlSource {
    fn open(&self) -> Box<dyn OpenCounters> {
        let totals = vec![Ok(0.0); self.counters.len()];
        Box::new(OpenResctrl {
            source: self.clone(),
            totals,
            running: None,
            elapsed: Duration::ZERO,
        })
    }
}

#[derive(Debug)]
struct OpenResctrl {
    source: ResctrlSource,
    /// Bytes counted by each running total while switched on, or why they are unknown.
    totals: Vec<Result<f64, String>>,
    /// When counting was last switched on, with the value of each running total at that time.
    running: Option<(Instant, Vec<Result<u64, String>>)>,
    elapsed: Duration,
}

impl OpenResctrl {
    fn sample(&self) -> Vec<Result<u64, String>> {
        let files = self.source.counters.iter();
        files
            .map(|(_, path)| number(&self.source.root, path))
            .collect()
    }
}

/// Number in a monitor's file.
///
/// Without a value the hardware has a word there ("Unavailable", "Error").
fn number(root: &SysRoot, path: &str) -> Result<u64, String> {
    let text = files::read(root, path).map_err(|e| format!("/{path} cannot be read: {e}"))?;
    text.parse().map_err(|_| match text.as_str() {
        "Unavailable" => format!(
            "/{path} says Unavailable: the hardware has lost the count (it recycles its monitor numbers; measure again)"
        ),
        _ => format!("/{path} holds `{}`, no number", text.chars().take(60).collect::<String>()),
    })
}

fn difference(
    path: &str,
    before: Result<u64, String>,
    after: Result<u64, String>,
) -> Result<f64, String> {
    let (before, after) = (before?, after?);
    match after.checked_sub(before) {
        Some(bytes) => Ok(bytes as f64),
        None => Err(format!(
            "/{path} went back from {before} to {after}: somebody reset it"
        )),
    }
}

impl OpenCounters for OpenResctrl {
    fn resume(&mut self) {
        if self.running.is_none() && !self.source.counters.is_empty() {
            let before = self.sample();
            self.running = Some((Instant::now(), before));
        }
    }

    fn pause(&mut self) {
        let Some((since, before)) = self.running.take() else {
            return;
        };
        // Time is taken before the files are read, as `resume` reads them before it starts the
        // clock.
        self.elapsed += since.elapsed();
        let after = self.sample();
        let paths = self.source.counters.iter().map(|(_, path)| path);
        for (((total, before), after), path) in
            self.totals.iter_mut().zip(before).zip(after).zip(paths)
        {
            let window = difference(path, before, after);
            *total = match (total.clone(), window) {
                (Ok(total), Ok(window)) => Ok(total + window),
                // A window that is lost makes the total unknown for good.
                (Err(why), _) | (_, Err(why)) => Err(why),
            };
        }
    }

    fn readings(&mut self) -> Vec<Reading> {
        let note = || Some(GROUP_NOTE.to_owned());
        let mut all = Vec::new();
        if let Some(why) = &self.source.missing {
            all.push(Reading::unavailable("resctrl", Unit::Bytes, why.clone()));
        }
        let seconds = self.elapsed.as_secs_f64();
        for ((name, _), total) in self.source.counters.iter().zip(&self.totals) {
            let bandwidth = format!("{name}_bandwidth");
            match total {
                Ok(bytes) if seconds > 0.0 => {
                    all.push(Reading::known(name, *bytes, Unit::Bytes).with_note(note()));
                    all.push(
                        Reading::known(bandwidth, bytes / seconds / 1e9, Unit::Gbps)
                            .with_note(note()),
                    );
                }
                Ok(_) => all.push(Reading::unavailable(
                    name,
                    Unit::Bytes,
                    "it was never switched on",
                )),
                Err(why) => {
                    all.push(Reading::unavailable(name, Unit::Bytes, why.clone()));
                    all.push(Reading::unavailable(bandwidth, Unit::Gbps, why.clone()));
                }
            }
        }
        // A present value has no difference over time; it is read once, at the end.
        for (name, path) in &self.source.levels {
            all.push(match number(&self.source.root, path) {
                Ok(bytes) => Reading::known(name, bytes as f64, Unit::Bytes)
                    .with_note(Some(format!("at the end; {GROUP_NOTE}"))),
                Err(why) => Reading::unavailable(name, Unit::Bytes, why),
            });
        }
        all
    }
}
