//! What this process may use of the machine: cpuset and cgroup limits.

use serde::Serialize;

use crate::root::Reader;
use crate::{IdSet, SysRoot};

/// Version 1 of cgroups says "no limit" with the largest page-aligned number; anything from 1 EiB up means the same.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// Limits of the process that read the topology (of the recording shell, in a recorded tree).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Online CPUs that it may run on.
    pub cpus_allowed: IdSet,
    /// Existing nodes that it may allocate on.
    pub mems_allowed: IdSet,
    /// Smallest memory limit of its cgroup and the cgroups above; `None` where there is no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Which files say so.
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
            // Kernels list CPUs and nodes that could be plugged in later as allowed.
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

/// The smallest limit and the file that holds it.
fn memory_limit(reader: &Reader<'_>) -> Option<(u64, String)> {
    let limits = cgroup_files(reader.root).into_iter().filter_map(|path| {
        let limit = reader.parsed(&path, "a number of bytes or `max`", |text| match text {
            "max" => Some(u64::MAX),
            number => number.parse().ok(),
        })?;
        (limit < NO_LIMIT_BYTES).then_some((limit, path))
    });
    limits.min()
}

/// Files that may hold a memory limit of this process: its cgroup and all above it, version 1 and 2, mounted at the usual places.
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

/// `file` in `mount/path` and in each directory above up to `mount`. Paths that leave the mount (other namespaces) stop at it.
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
