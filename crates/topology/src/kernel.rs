//! Kernel settings that affect page placement: weighted interleave and NUMA balancing.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::NodeId;
use crate::root::Reader;

const WEIGHTS_DIR: &str = "sys/kernel/mm/mempolicy/weighted_interleave";

/// File names of the automatic mode.
///
/// Linux 6.18 has it as `__auto_type`: its headers define `auto` as a macro for that compiler
/// keyword, and the file name is made from the expanded macro.
const AUTO_FILES: [&str; 2] = ["auto", "__auto_type"];

/// Weighted interleave of the kernel: one system-wide weight per node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum WeightedInterleave {
    /// The kernel does not offer weighted interleave.
    Absent {
        /// Explanation for users, with the kernel release if it is known.
        reason: String,
    },
    /// The kernel offers weighted interleave.
    Present {
        /// Pages per round on each node; changes affect new allocations only.
        weights: BTreeMap<NodeId, u32>,
        /// Whether the kernel derives the weights from the bandwidths that firmware reports.
        ///
        /// `None` for kernels without the automatic mode.
        auto: Option<bool>,
    },
}

impl WeightedInterleave {
    pub(crate) fn read(reader: &Reader<'_>, kernel_release: &str) -> Self {
        let files = reader.root.numbered(WEIGHTS_DIR, "node");
        if files.is_empty() {
            return Self::Absent {
                reason: absence(kernel_release),
            };
        }
        let weight = |(id, name): &(u32, String)| {
            let weight = reader.number(&format!("{WEIGHTS_DIR}/{name}"))?;
            Some((NodeId(*id), u32::try_from(weight).ok()?))
        };
        Self::Present {
            weights: files.iter().filter_map(weight).collect(),
            auto: AUTO_FILES.iter().find_map(|name| {
                reader.parsed(
                    &format!("{WEIGHTS_DIR}/{name}"),
                    "true or false",
                    parse_bool,
                )
            }),
        }
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "true" | "1" | "Y" => Some(true),
        "false" | "0" | "N" => Some(false),
        _ => None,
    }
}

fn absence(kernel_release: &str) -> String {
    match version(kernel_release) {
        // Weighted interleave and its weights in sysfs were added in Linux 6.9.
        Some(version) if version < (6, 9) => {
            format!("kernel {kernel_release} is older than 6.9, which brought it")
        }
        Some(_) => format!(
            "kernel {kernel_release} has no /{WEIGHTS_DIR}: built without CONFIG_NUMA, or /sys is hidden"
        ),
        None => format!("there is no /{WEIGHTS_DIR}"),
    }
}

/// Major and minor number of a kernel release such as `6.12.95+deb12-cloud-amd64`.
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Mode of the kernel's page migration by access sampling, `kernel.numa_balancing`.
///
/// Bit 0 is NUMA balancing, bit 1 is memory tiering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NumaBalancing(pub u32);

impl NumaBalancing {
    /// Whether the kernel migrates pages on its own.
    pub fn is_on(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn read(reader: &Reader<'_>) -> Option<Self> {
        let mode = reader.number("proc/sys/kernel/numa_balancing")?;
        Some(Self(u32::try_from(mode).unwrap_or(u32::MAX)))
    }
}

impl fmt::Display for NumaBalancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("off"),
            1 => f.write_str("on"),
            2 => f.write_str("on (memory tiering)"),
            3 => f.write_str("on (balancing and memory tiering)"),
            other => write!(f, "mode {other}"),
        }
    }
}

/// Release of the kernel, from `osrelease` or the first line of `/proc/version`.
pub(crate) fn release(reader: &Reader<'_>) -> String {
    let from_version = || {
        let text = reader.text("proc/version")?;
        text.strip_prefix("Linux version ")?
            .split_whitespace()
            .next()
            .map(str::to_owned)
    };
    reader.text("proc/sys/kernel/osrelease").or_else(from_version).unwrap_or_else(|| {
        reader.note("the kernel release is unknown: neither /proc/sys/kernel/osrelease nor /proc/version tells it");
        "unknown".to_owned()
    })
}

/// Host name; a kernel without one prints `(none)`.
pub(crate) fn hostname(reader: &Reader<'_>) -> Option<String> {
    let name = reader.text("proc/sys/kernel/hostname")?;
    (!name.is_empty() && name != "(none)").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_are_compared_by_number() {
        assert_eq!(version("6.12.95+deb12-cloud-amd64"), Some((6, 12)));
        assert_eq!(version("6.9-rc1"), Some((6, 9)));
        assert_eq!(version("unknown"), None);
        assert!(absence("6.1.0-18-amd64").contains("older than 6.9"));
        assert!(absence("6.10.1").contains("CONFIG_NUMA"));
    }
}
