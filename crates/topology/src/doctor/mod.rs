//! What this machine can do for Tierloom, what it cannot, why, and the command that fixes it.

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

/// Whether an ability is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// It is, with a restriction.
    Limited,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Limited => "limited",
        })
    }
}

/// One thing that Tierloom can make use of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ability {
    /// What it is.
    pub name: String,
    /// Whether it is there.
    pub state: State,
    /// What was found.
    pub finding: String,
    /// Why it is missing or limited; always given then.
    pub cause: Option<String>,
    /// The command or setting that changes it; always given where `cause` is.
    pub fix: Option<String>,
}

impl Ability {
    pub(crate) fn yes(name: &str, finding: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Yes,
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
            state: State::No,
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
            state: State::Limited,
            ..Self::no(name, finding, cause, fix)
        }
    }
}

/// Examines a machine.
///
/// Files are read below `root` (so a recorded tree can be examined) and from `topology`; `probes` tries system calls, always on the running
/// kernel. A cause that several abilities share, such as a seccomp filter, is told in full once and referred to afterwards.
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

/// Replaces a cause and fix that an earlier ability has told already by a reference to it.
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
