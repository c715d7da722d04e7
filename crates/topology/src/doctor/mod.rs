//! Diagnosis of a machine: which of its abilities Tierloom can use, and how to enable the others.
//!
//! Most findings come from files, as in a [`Topology`]; [`Probes`] covers what only a system call
//! shows. Nothing is changed: a fix is a command for the user.

mod cxl;
mod pages;
mod probes;
mod process;
mod syscalls;

use std::fmt;

use serde::Serialize;

use crate::{SysRoot, Topology};

pub use probes::{FakeProbes, ProbeResult, Probes};
use process::Process;

/// Availability of an ability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    /// Available without any restriction.
    Yes,
    /// Not available; [`Ability::cause`] has the reason.
    No,
    /// Available with a restriction.
    Limited,
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Limited => "limited",
        })
    }
}

/// One ability of the machine that Tierloom can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ability {
    /// Name of the ability, unique within a diagnosis.
    pub name: String,
    /// Whether it is available.
    pub state: Availability,
    /// What was found, for users.
    pub finding: String,
    /// Why it is missing or limited; `None` only for [`Availability::Yes`].
    pub cause: Option<String>,
    /// Command or setting that changes it; present whenever `cause` is.
    pub fix: Option<String>,
}

impl Ability {
    pub(crate) fn yes(name: &str, finding: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: Availability::Yes,
            finding: finding.into(),
            cause: None,
            fix: None,
        }
    }

    pub(crate) fn no(
        name: &str,
        finding: impl Into<String>,
        cause: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            state: Availability::No,
            finding: finding.into(),
            cause: Some(cause.into()),
            fix: Some(fix.into()),
        }
    }

    pub(crate) fn limited(
        name: &str,
        finding: impl Into<String>,
        cause: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            state: Availability::Limited,
            ..Self::no(name, finding, cause, fix)
        }
    }
}

/// Examines a machine.
///
/// Files are read below `root` and from `topology`, so a recorded tree can be examined too;
/// `probes` always calls the running kernel. If several abilities share a cause, such as a seccomp
/// filter, only the first one has it in full; the others refer to it.
pub fn examine(topology: &Topology, root: &SysRoot, probes: &dyn Probes) -> Vec<Ability> {
    let process = Process::read(root, probes);
    let mut abilities = vec![
        syscalls::policies(topology, probes, &process),
        syscalls::weighted_interleave(topology, probes, &process),
        syscalls::page_query(probes, &process),
        syscalls::page_move(probes, &process),
        pages::transparent(topology),
        pages::hugetlb_2_mib(topology),
        pages::hugetlb_1_gib(topology),
        cxl::memory_devices(topology),
        cxl::devdax(topology),
        pages::hot_plug(topology, root),
        syscalls::perf_events(root, probes, &process),
        process::msr(topology, root, &process),
        process::privileges(&process),
        process::numa_balancing(topology),
        process::limits(topology),
    ];
    tell_once(&mut abilities);
    abilities
}

/// Replaces each cause and fix that an earlier ability already has by a reference to it.
fn tell_once(abilities: &mut [Ability]) {
    for index in 1..abilities.len() {
        let (earlier, rest) = abilities.split_at_mut(index);
        let ability = &mut rest[0];
        let same = |other: &&Ability| {
            other.cause.is_some() && other.cause == ability.cause && other.fix == ability.fix
        };
        if let Some(first) = earlier.iter().find(same) {
            ability.cause = Some(format!("the same as for \"{}\"", first.name));
            ability.fix = Some(format!("the same as for \"{}\"", first.name));
        }
    }
}
