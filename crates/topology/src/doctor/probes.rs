//! System calls of the diagnosis, as a trait so that tests can substitute them.

/// Result of one probe; the error is the errno.
pub type ProbeResult = Result<(), i32>;

/// System calls that [`examine`](super::examine) tries on the running kernel.
///
/// Files under `/sys` show what a kernel offers, but only a call shows what this process may use,
/// given its capabilities, cpusets and seccomp filters. Each probe is harmless: it restores what it
/// changes and accesses only its own memory.
///
/// Probes do not read state, which goes through [`SysRoot`](crate::SysRoot) and can be recorded,
/// and they measure nothing.
/// ```text
///   doctor::examine ──▶ Probes ──▶ LinuxProbes (crate tierloom-memory, real calls)
///                          └─────▶ FakeProbes  (here, answers chosen by a test)
/// ```
pub trait Probes {
    /// `get_mempolicy`: whether NUMA policies are available (`ENOSYS`: no NUMA; `EPERM`: seccomp).
    fn get_mempolicy(&self) -> ProbeResult;
    /// `set_mempolicy(MPOL_WEIGHTED_INTERLEAVE)` over the allowed nodes; restored afterwards.
    fn weighted_interleave(&self) -> ProbeResult;
    /// `move_pages` without target nodes, which queries the node of a page.
    fn page_query(&self) -> ProbeResult;
    /// `move_pages` of one of this process's pages to the node that it is on.
    fn page_move(&self) -> ProbeResult;
    /// `perf_event_open` of a counter of CPU cycles, closed afterwards.
    fn perf_event(&self) -> ProbeResult;
    /// Effective user id of this process; 0 is root.
    fn effective_uid(&self) -> u32;
}

/// Probes with fixed results, for tests of [`examine`](super::examine).
#[derive(Debug, Clone, Copy)]
pub struct FakeProbes {
    /// Result of [`Probes::get_mempolicy`].
    pub get_mempolicy: ProbeResult,
    /// Result of [`Probes::weighted_interleave`].
    pub weighted_interleave: ProbeResult,
    /// Result of [`Probes::page_query`].
    pub page_query: ProbeResult,
    /// Result of [`Probes::page_move`].
    pub page_move: ProbeResult,
    /// Result of [`Probes::perf_event`].
    pub perf_event: ProbeResult,
    /// Result of [`Probes::effective_uid`].
    pub effective_uid: u32,
}

impl FakeProbes {
    /// All calls succeed, for a process running as `effective_uid`.
    pub fn all_succeed(effective_uid: u32) -> Self {
        Self {
            get_mempolicy: Ok(()),
            weighted_interleave: Ok(()),
            page_query: Ok(()),
            page_move: Ok(()),
            perf_event: Ok(()),
            effective_uid,
        }
    }

    /// All calls fail with `errno`, for a process running as `effective_uid`.
    pub fn all_fail(errno: i32, effective_uid: u32) -> Self {
        Self {
            get_mempolicy: Err(errno),
            weighted_interleave: Err(errno),
            page_query: Err(errno),
            page_move: Err(errno),
            perf_event: Err(errno),
            effective_uid,
        }
    }
}

impl Probes for FakeProbes {
    fn get_mempolicy(&self) -> ProbeResult {
        self.get_mempolicy
    }

    fn weighted_interleave(&self) -> ProbeResult {
        self.weighted_interleave
    }

    fn page_query(&self) -> ProbeResult {
        self.page_query
    }

    fn page_move(&self) -> ProbeResult {
        self.page_move
    }

    fn perf_event(&self) -> ProbeResult {
        self.perf_event
    }

    fn effective_uid(&self) -> u32 {
        self.effective_uid
    }
}
