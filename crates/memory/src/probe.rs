//! System-call probes for `tierloom doctor`: what this process is permitted to do with memory
//! policies, pages and performance counters.

use tierloom_topology::doctor::{ProbeResult, Probes};

use crate::sys::policy::{self, MPOL_WEIGHTED_INTERLEAVE, Policy};
use crate::sys::{base_page_bytes, counters, pages};
use crate::{Mapping, PageSize};

/// Probes of the running kernel.
///
/// Containers filter system calls in ways that cannot be looked up, so each probe makes the real
/// call, on a page of its own, and undoes what it changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinuxProbes;

impl LinuxProbes {
    /// One populated page to try calls on.
    fn page() -> Result<Mapping, i32> {
        let mapping = Mapping::anonymous(base_page_bytes(), PageSize::Base)?;
        mapping.populate(0, base_page_bytes())?;
        Ok(mapping)
    }
}

fn status(statuses: &[i32]) -> Result<i32, i32> {
    match statuses.first() {
        Some(status) if *status >= 0 => Ok(*status),
        Some(status) => Err(-status),
        None => Err(libc::EIO),
    }
}

impl Probes for LinuxProbes {
    /// Reads this thread's policy and sets it again: seccomp profiles often allow the first only.
    fn get_mempolicy(&self) -> ProbeResult {
        policy::current().and_then(|policy| policy::set(&policy))
    }

    fn weighted_interleave(&self) -> ProbeResult {
        let before = policy::current()?;
        let nodes = policy::mems_allowed()?;
        let outcome = policy::set(&Policy {
            mode: MPOL_WEIGHTED_INTERLEAVE,
            nodes,
        });
        policy::set(&before)?;
        outcome
    }

    fn page_query(&self) -> ProbeResult {
        status(&pages::query(&Self::page()?, &[0])?).map(drop)
    }

    fn page_move(&self) -> ProbeResult {
        let page = Self::page()?;
        let node = status(&pages::query(&page, &[0])?)?;
        status(&pages::relocate(&page, &[0], &[node])?).map(drop)
    }

    fn perf_event(&self) -> ProbeResult {
        counters::open_and_close_cycles()
    }

    fn effective_uid(&self) -> u32 {
        counters::effective_uid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_leave_the_thread_policy_as_it_was() {
        let before = policy::current();
        let probes = LinuxProbes;
        let _ = probes.get_mempolicy();
        let _ = probes.weighted_interleave();
        assert_eq!(policy::current(), before);
    }

    #[test]
    fn page_probes_agree_with_each_other() {
        // A page that can be moved to its own node can also be queried.
        if LinuxProbes.page_move().is_ok() {
            assert_eq!(LinuxProbes.page_query(), Ok(()));
        }
        assert!(
            LinuxProbes.perf_event().err() != Some(libc::EFAULT),
            "the attribute block is malformed"
        );
        assert!(
            LinuxProbes.perf_event().err() != Some(libc::E2BIG),
            "the attribute block is malformed"
        );
    }
}
