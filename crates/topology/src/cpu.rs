//! CPUs: sockets, hardware threads and caches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::root::{Reader, parse_size};
use crate::{CpuId, IdSet};

/// The kernel's directory of CPU descriptions.
const CPU_DIR: &str = "sys/devices/system/cpu";

/// The online CPUs of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuInfo {
    /// Logical CPUs that were online at the time of reading.
    pub online: IdSet,
    /// Hardware threads per core; 1 if SMT is off, the maximum if cores differ.
    pub threads_per_core: u32,
    /// Number of physical packages with an online CPU; 0 if the kernel reports none.
    pub sockets: u32,
    /// Caches by level and kind; instances of the same size are one entry.
    pub caches: Vec<CacheLevel>,
    /// Physical package of each CPU that reports one. Not in the JSON, where nodes have it already.
    #[serde(skip)]
    pub(crate) socket_of: BTreeMap<CpuId, u32>,
}

/// Caches of one level, kind and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheLevel {
    /// Cache level; 1 is closest to the core.
    pub level: u32,
    /// Whether it caches data, instructions or both.
    pub kind: CacheKind,
    /// Size of one instance in bytes.
    pub size_bytes: u64,
    /// CPUs that share the first instance.
    pub shared_cpus: IdSet,
    /// Number of instances in the machine.
    pub count: u32,
}

/// Contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data but no instructions.
    Data,
    /// Instructions but no data.
    Instruction,
    /// Both data and instructions.
    Unified,
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Data => "data",
            Self::Instruction => "instruction",
            Self::Unified => "unified",
        })
    }
}

impl CpuInfo {
    /// Physical package of a CPU; `None` if the kernel does not report it.
    pub fn socket_of(&self, cpu: CpuId) -> Option<u32> {
        self.socket_of.get(&cpu).copied()
    }

    pub(crate) fn read(reader: &Reader<'_>) -> Self {
        let online = online(reader);
        let mut socket_of = BTreeMap::new();
        let mut threads_per_core = 1;
        for cpu in online.iter() {
            let topology = format!("{CPU_DIR}/cpu{cpu}/topology");
            // The kernel writes -1 where firmware does not report the package.
            if let Some(socket) = reader
                .text(&format!("{topology}/physical_package_id"))
                .and_then(|text| text.parse().ok())
            {
                socket_of.insert(CpuId(cpu), socket);
            }
            if let Some(siblings) = reader.ids(&format!("{topology}/thread_siblings_list")) {
                threads_per_core = threads_per_core.max(siblings.intersection(&online).len());
            }
        }
        if socket_of.is_empty() {
            reader.note(format!(
                "sockets are unknown: no /{CPU_DIR}/cpu*/topology/physical_package_id holds a number"
            ));
        }
        let sockets: BTreeSet<u32> = socket_of.values().copied().collect();
        Self {
            caches: caches(reader, &online),
            threads_per_core: count(threads_per_core),
            sockets: count(sockets.len()),
            online,
            socket_of,
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Online CPUs, from `/proc/cpuinfo` if sysfs does not list them.
fn online(reader: &Reader<'_>) -> IdSet {
    let path = format!("{CPU_DIR}/online");
    if let Some(online) = reader.ids(&path) {
        return online;
    }
    reader.note(format!(
        "/{path} is missing: CPUs are taken from /proc/cpuinfo"
    ));
    let cpuinfo = reader.text("proc/cpuinfo").unwrap_or_default();
    let processors = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    processors
        .filter(|(key, _)| key.trim() == "processor")
        .filter_map(|(_, id)| id.trim().parse::<u32>().ok())
        .collect()
}

/// All caches of the online CPUs, each instance counted once.
fn caches(reader: &Reader<'_>, online: &IdSet) -> Vec<CacheLevel> {
    // Every CPU lists the caches it uses, so a shared cache appears once per CPU; the set of
    // sharing CPUs identifies it.
    let mut instances: BTreeMap<(u32, CacheKind, u64), BTreeSet<Vec<u32>>> = BTreeMap::new();
    for cpu in online.iter() {
        let directory = format!("{CPU_DIR}/cpu{cpu}/cache");
        for (_, index) in reader.root.numbered(&directory, "index") {
            if let Some((key, shared)) = cache(reader, &format!("{directory}/{index}"), cpu) {
                instances
                    .entry(key)
                    .or_default()
                    .insert(shared.iter().collect());
            }
        }
    }
    if instances.is_empty() {
        reader.note(format!(
            "cache sizes are unknown: /{CPU_DIR}/cpu*/cache is missing"
        ));
    }
    let describe = |((level, kind, size_bytes), shared): (_, BTreeSet<Vec<u32>>)| CacheLevel {
        level,
        kind,
        size_bytes,
        count: count(shared.len()),
        shared_cpus: shared
            .into_iter()
            .next()
            .unwrap_or_default()
            .into_iter()
            .collect(),
    };
    instances.into_iter().map(describe).collect()
}

type CacheKey = (u32, CacheKind, u64);

fn cache(reader: &Reader<'_>, directory: &str, cpu: u32) -> Option<(CacheKey, IdSet)> {
    let level = reader.parsed(&format!("{directory}/level"), "1, 2, 3 or 4", |text| {
        text.parse().ok()
    })?;
    let kind = reader.parsed(
        &format!("{directory}/type"),
        "Data, Instruction or Unified",
        |text| match text {
            "Data" => Some(CacheKind::Data),
            "Instruction" => Some(CacheKind::Instruction),
            "Unified" => Some(CacheKind::Unified),
            _ => None,
        },
    )?;
    let size_bytes = reader.parsed(
        &format!("{directory}/size"),
        "a size such as 48K",
        parse_size,
    )?;
    let shared = reader
        .ids(&format!("{directory}/shared_cpu_list"))
        .unwrap_or_else(|| std::iter::once(cpu).collect());
    Some(((level, kind, size_bytes), shared))
}

/// Name of the processor, from `/proc/cpuinfo`.
pub(crate) fn model(reader: &Reader<'_>) -> String {
    let cpuinfo = reader.text("proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    // Arm kernels report an implementer and a part number instead of a name.
    let arm = || {
        Some(format!(
            "Arm implementer {} part {}",
            field("CPU implementer")?,
            field("CPU part")?
        ))
    };
    field("model name").or_else(arm).unwrap_or_else(|| {
        reader.note("the CPU model is unknown: /proc/cpuinfo has no line `model name`");
        "unknown".to_owned()
    })
}
