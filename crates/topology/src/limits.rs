//! Limits of this process: affinity, cpuset and cgroup memory limits.

use serde::Serialize;

use crate::root::Reader;
use crate::{IdSet, SysRoot};

/// Memory limits from 1 EiB up mean "no limit".
///
/// Cgroup version 1 has the largest page-aligned number there.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// Limits of the process that read the topology, or that recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Online CPUs that the process may run on.
    pub cpus_allowed: IdSet,
    /// Existing nodes that the process may allocate on.
    pub mems_allowed: IdSet,
    /// Smallest memory limit of the process's cgroup and its ancestors; `None` if there is none.
    pub memory_limit_bytes: Option<u64>,
    /// Files that the limits were read from.
    pub source: String,
}

impl Limits {
    pub(crate) fn read(reader: &Reader<'_>, online: &IdSet, nodes: &IdSet) -> Self {
        const STATUS: &str = "proc/self/status";
        let status = reader.text(STATUS).unwrap_or_default();
        let list = |field: &str, all: &IdSet| {
            let value = status
                .lines()
                .find_map(|line| line.strip_prefix(field))
                .map(str::trim);
            let found: Option<IdSet> = value.and_then(|text| text.parse().ok());
            // Kernels also list CPUs and nodes that could be hot-plugged later.
            let usable = found
                .map(|ids| ids.intersection(all))
                .filter(|ids| !ids.is_empty());
            usable.unwrap_or_else(|| {
                reader.note(format!("/{STATUS} should have a line `{field} 0-3` with ids that exist: all are taken as allowed"));
                all.clone()
            })
        };
        let memory = memory_limit(reader);
        let cgroup = memory
            .as_ref()
            .map(|(_, path)| format!("; /{path}"))
            .unwrap_or_default();
        Self {
            cpus_allowed: list("Cpus_allowed_list:", online),
            mems_allowed: list("Mems_allowed_list:", nodes),
            memory_limit_bytes: memory.map(|(limit, _)| limit),
            source: format!("/{STATUS}{cgroup}"),
        }
    }
}

/// The smallest memory limit, with its file.
fn memory_limit(reader: &Reader<'_>) -> Option<(u64, String)> {
    let limits = cgroup_files(reader.root).into_iter().filter_map(|path| {
        let limit = reader.parsed(&path, "a number of bytes or `max`", |text| match text {
            "max" => Some(u64::MAX),
            number => number.parse().ok(),
        })?;
        (limit < NO_LIMIT_BYTES).then_some((limit, path))
    });
    // A limit applies to all descendants, so the smallest one is effective.
    limits.min()
}

/// Files that may limit the memory of this process.
///
/// They belong to its cgroup and all ancestors, in version 1 and 2, at the usual mount points.
pub(crate) fn cgroup_files(root: &SysRoot) -> Vec<String> {
    let membership = root.text("proc/self/cgroup").unwrap_or_default();
    let mut files = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        if controllers.is_empty() {
            for mount in ["sys/fs/cgroup", "sys/fs/cgroup/unified"] {
                files.extend(upwards(mount, path, "memory.max"));
            }
        } else if controllers.split(',').any(|name| name == "memory") {
            files.extend(upwards(
                "sys/fs/cgroup/memory",
                path,
                "memory.limit_in_bytes",
            ));
        }
    }
    files.retain(|path| root.exists(path));
    files
}

/// `file` in `mount/path` and in each ancestor up to `mount`.
///
/// In a cgroup namespace the path may contain `..`; such components are dropped, so the result
/// never leaves the mount.
fn upwards(mount: &str, path: &str, file: &str) -> Vec<String> {
    let components: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != "." && *part != "..")
        .collect();
    let at = |depth: usize| {
        let directories = std::iter::once(mount).chain(components[..depth].iter().copied());
        directories
            .chain(std::iter::once(file))
            .collect::<Vec<_>>()
            .join("/")
    };
    (0..=components.len()).rev().map(at).collect()
}
