//! The seam to system calls: what `doctor` has to try because no file tells it.

/// Result of one system-call probe: Ok, or the errno.
pub type ProbeResult = Result<(), i32>;

/// System calls that [`examine`](super::examine) tries on the running kernel.
///
/// Purpose: files under `/sys` say what a kernel offers, but only a call says what *this process* may use (capabilities, seccomp filters of
/// containers, cpusets). Each probe is harmless: it restores what it changes and touches memory of its own only.
///
/// What it is not for: reading state (that goes through [`SysRoot`](crate::SysRoot), so that it can be recorded) and measuring anything.
///
/// ```text
///   doctor::examine ──▶ Probes ──▶ LinuxProbes (crate tierloom-memory, real calls)
///                          └─────▶ FakeProbes  (here, answers chosen by a test)
/// ```
pub trait Probes {
    /// Whether NUMA policies may be queried and set at all (`ENOSYS`: kernel without NUMA; `EPERM`: seccomp).
    fn get_mempolicy(&self) -> ProbeResult;
    /// `set_mempolicy(MPOL_WEIGHTED_INTERLEAVE)` over the allowed nodes, restored afterwards.
    fn weighted_interleave(&self) -> ProbeResult;
    /// `move_pages` without a target: asks where a page is.
    fn page_query(&self) -> ProbeResult;
    /// `move_pages` of a page of our own to the node it is on.
    fn page_move(&self) -> ProbeResult;
    /// Opens and closes a counter of CPU cycles with `perf_event_open`.
    fn perf_event(&self) -> ProbeResult;
    /// The effective user id; 0 is root.
    fn effective_uid(&self) -> u32;
}

/// Answers fixed in advance: the fake for tests of [`examine`](super::examine).
#[derive(Debug, Clone, Copy)]
pub struct FakeProbes {
    /// Answer of [`Probes::get_mempolicy`].
    pub get_mempolicy: ProbeResult,
    /// Answer of [`Probes::weighted_interleave`].
    pub weighted_interleave: ProbeResult,
    /// Answer of [`Probes::page_query`].
    pub page_query: ProbeResult,
    /// Answer of [`Probes::page_move`].
    pub page_move: ProbeResult,
    /// Answer of [`Probes::perf_event`].
    pub perf_event: ProbeResult,
    /// Answer of [`Probes::effective_uid`].
    pub effective_uid: u32,
}

impl FakeProbes {
    /// A process for which every call succeeds, running as `effective_uid`.
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

    /// A process for which every call fails with `errno`, running as `effective_uid`.
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
