//! Backend for anonymous memory of NUMA nodes, CPU-less CXL nodes included.

use std::path::PathBuf;

use tierloom_topology::NodeId;

use super::{MemoryBackend, NodeCapacity, PageState, capacity};
use crate::placement::Run;
use crate::sys::policy::ThreadPolicy;
use crate::sys::{self, pages};
use crate::{Mapping, MemoryError, PageSize};

/// Private anonymous memory, placed by the policy of the populating threads.
///
/// Each run is populated under the worker thread's own policy (`set_mempolicy(MPOL_BIND)`), so the
/// mapping stays one VMA whatever the weights. The kernel sets two limits. A bind does not fall
/// back to another node: if other programs fill the node *while* the region is populated, the
/// out-of-memory killer may run (free memory is checked before, with a margin). And pages that were
/// swapped out come back under the policy of the thread that touches them (the audit reports absent
/// pages).
#[derive(Debug, Clone)]
pub struct AnonymousNuma {
    sys_root: PathBuf,
}

impl AnonymousNuma {
    /// A backend for the memory of this machine.
    pub fn new() -> Self {
        Self {
            sys_root: PathBuf::from("/"),
        }
    }
}

impl Default for AnonymousNuma {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryBackend for AnonymousNuma {
    fn describe(&self) -> String {
        "anonymous memory".to_owned()
    }

    fn capacity(
        &self,
        node: NodeId,
        page_size: PageSize,
    ) -> Result<Option<NodeCapacity>, MemoryError> {
        capacity::read(&self.sys_root, node, page_size).map(Some)
    }

    fn reserve(
        &self,
        name: &str,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<Mapping, MemoryError> {
        Mapping::anonymous(size_bytes, page_size).map_err(|errno| {
            MemoryError::syscall(
                "mmap",
                format!("region `{name}` of {size_bytes} bytes ({page_size} pages)"),
                errno,
            )
        })
    }

    fn huge_bytes(&self, mapping: &Mapping) -> Option<u64> {
        sys::huge::huge_bytes(mapping)
    }
}

/// Populates each run under a bind to its node; runs without a node keep the thread's policy.
///
/// `populate` is called with the run's offset and length in bytes.
pub(crate) fn populate_under_policy(
    page_size: PageSize,
    runs: &mut dyn Iterator<Item = Run>,
    populate: &mut dyn FnMut(usize, usize) -> Result<(), i32>,
) -> Result<(), MemoryError> {
    let page_bytes = page_size.bytes();
    // Saved when the first run names a node: a process that may not call `get_mempolicy` can still
    // populate runs without one. On an error return the guard's drop restores the policy.
    let mut policy: Option<ThreadPolicy> = None;
    for run in runs {
        if let Some(node) = run.node {
            let guard = match policy.take() {
                Some(guard) => guard,
                None => ThreadPolicy::save()
                    .map_err(|errno| MemoryError::syscall("get_mempolicy", "this thread", errno))?,
            };
            policy.insert(guard).bind(node).map_err(|errno| {
                MemoryError::syscall("set_mempolicy(MPOL_BIND)", format!("node {node}"), errno)
            })?;
        } else if let Some(guard) = &mut policy {
            guard.restore().map_err(|errno| {
                MemoryError::syscall("set_mempolicy", "the thread's old policy", errno)
            })?;
        }
        // What does not fit `usize` becomes a range that `populate` refuses.
        let bytes = |pages: u64| {
            usize::try_from(pages)
                .ok()
                .and_then(|pages| pages.checked_mul(page_bytes))
                .unwrap_or(usize::MAX)
        };
        let (offset, len) = (bytes(run.first_page), bytes(run.pages));
        populate(offset, len).map_err(|errno| {
            let node = run
                .node
                .map_or_else(|| "any node".to_owned(), |node| format!("node {node}"));
            let what = format!(
                "{} pages ({page_size}) from page {} on {node}",
                run.pages, run.first_page
            );
            MemoryError::syscall("madvise(MADV_POPULATE_WRITE)", what, errno)
        })?;
    }
    match &mut policy {
        Some(guard) => guard.restore().map_err(|errno| {
            MemoryError::syscall("set_mempolicy", "the thread's old policy", errno)
        }),
        None => Ok(()),
    }
}

pub(super) fn locate(mapping: &Mapping, offsets: &[usize]) -> Result<Vec<PageState>, MemoryError> {
    let status = pages::query(mapping, offsets).map_err(|errno| {
        MemoryError::syscall(
            "move_pages (query)",
            format!("{} pages", offsets.len()),
            errno,
        )
    })?;
    Ok(status.into_iter().map(PageState::from_status).collect())
}

pub(super) fn relocate(
    mapping: &Mapping,
    page_size: PageSize,
    moves: &[(usize, NodeId)],
) -> Result<Vec<PageState>, MemoryError> {
    let mut states = move_heads(mapping, moves)?;
    if page_size == PageSize::Thp {
        for (state, (offset, node)) in states.iter_mut().zip(moves) {
            *state = move_rest_of_granule(mapping, *offset, *node, *state)?;
        }
    }
    Ok(states)
}

fn move_heads(mapping: &Mapping, moves: &[(usize, NodeId)]) -> Result<Vec<PageState>, MemoryError> {
    let offsets: Vec<usize> = moves.iter().map(|(offset, _)| *offset).collect();
    let nodes = moves
        .iter()
        .map(|(_, node)| i32::try_from(node.0))
        .collect::<Result<Vec<i32>, _>>()
        .map_err(|_| {
            MemoryError::syscall(
                "move_pages",
                "a node number past the kernel's limit",
                libc::EINVAL,
            )
        })?;
    let status = pages::relocate(mapping, &offsets, &nodes).map_err(|errno| {
        MemoryError::syscall("move_pages", format!("{} pages", offsets.len()), errno)
    })?;
    Ok(status.into_iter().map(PageState::from_status).collect())
}

/// Moves the base pages of a huge page that did not move with the first one.
///
/// Moving the first base page moves a whole huge page. Where the kernel fell back to base pages,
/// the others are moved one by one.
fn move_rest_of_granule(
    mapping: &Mapping,
    start: usize,
    node: NodeId,
    head: PageState,
) -> Result<PageState, MemoryError> {
    let end = (start + PageSize::Thp.bytes()).min(mapping.size_bytes());
    let offsets: Vec<usize> = (start..end).step_by(sys::base_page_bytes()).collect();
    let away = |states: Vec<PageState>| {
        offsets
            .iter()
            .zip(states)
            .filter(|(_, state)| {
                !matches!(state, PageState::Absent) && *state != PageState::On(node)
            })
            .map(|(offset, _)| (*offset, node))
            .collect::<Vec<_>>()
    };
    let left = away(locate(mapping, &offsets)?);
    // Nothing is left on another node.
    if left.is_empty() {
        return Ok(PageState::On(node));
    }
    // No page moved, so the huge page as a whole failed: the errno of its first page says why.
    if left.len() == offsets.len() {
        return Ok(head);
    }
    let failed = move_heads(mapping, &left)?
        .into_iter()
        .find(|state| *state != PageState::On(node));
    Ok(failed.unwrap_or(PageState::On(node)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::policy;

    const PAGES: u64 = 5000;

    /// Runs of 3 and 2 pages, the first on node 0: the policy is set for each of them.
    fn runs(node_of_second: u32) -> impl Iterator<Item = Run> {
        (0..PAGES).step_by(5).flat_map(move |first_page| {
            let run = |first_page, pages, node| Run {
                first_page,
                pages,
                node: Some(NodeId(node)),
            };
            [
                run(first_page, 3, 0),
                run(
                    first_page + 3,
                    2,
                    if first_page > 2500 { node_of_second } else { 0 },
                ),
            ]
        })
    }

    /// Whether policies may be set: a container may forbid them, and then there is nothing to test.
    fn policies_work() -> bool {
        policy::current()
            .and_then(|policy| policy::set(&policy))
            .is_ok()
    }

    #[test]
    fn thousands_of_runs_under_policies_stay_one_mapping_and_restore_the_thread() {
        if !policies_work() {
            return;
        }
        let backend = AnonymousNuma::new();
        let before = policy::current();
        let mapping = backend
            .reserve("runs", PAGES as usize * 4096, PageSize::Base)
            .unwrap();
        backend
            .populate(&mapping, PageSize::Base, &mut runs(0))
            .unwrap();
        assert_eq!(policy::current(), before);
        let inside = std::fs::read_to_string("/proc/self/maps").unwrap();
        let starts = inside
            .lines()
            .filter_map(|line| usize::from_str_radix(line.split('-').next()?, 16).ok());
        let (start, end) = (mapping.address(), mapping.address() + mapping.size_bytes());
        assert_eq!(
            starts
                .filter(|address| *address > start && *address < end)
                .count(),
            0
        );
        let offsets: Vec<usize> = (0..PAGES as usize).map(|page| page * 4096).collect();
        if let Ok(states) = backend.locate(&mapping, &offsets) {
            assert!(
                states
                    .iter()
                    .all(|state| *state == PageState::On(NodeId(0)))
            );
        }
    }

    #[test]
    fn a_run_that_fails_half_way_restores_the_thread_and_names_the_node() {
        if !policies_work() {
            return;
        }
        let before = policy::current();
        let backend = AnonymousNuma::new();
        let mapping = backend
            .reserve("runs", PAGES as usize * 4096, PageSize::Base)
            .unwrap();
        let error = backend
            .populate(&mapping, PageSize::Base, &mut runs(1000))
            .unwrap_err();
        assert_eq!(policy::current(), before);
        assert!(error.to_string().contains("node 1000"), "{error}");
        let offsets = [0, (PAGES as usize - 1) * 4096];
        if let Ok(states) = backend.locate(&mapping, &offsets) {
            assert_eq!(states, [PageState::On(NodeId(0)), PageState::Absent]);
        }
    }

    #[test]
    fn populating_keeps_the_bytes_that_are_there() {
        let backend = AnonymousNuma::new();
        let mut mapping = backend.reserve("bytes", 16 * 4096, PageSize::Base).unwrap();
        mapping.as_mut_slice()[4096] = 77;
        let mut all = std::iter::once(Run {
            first_page: 0,
            pages: 16,
            node: None,
        });
        backend
            .populate(&mapping, PageSize::Base, &mut all)
            .unwrap();
        assert_eq!(mapping.as_slice()[4096], 77);
        let mut past_the_end = std::iter::once(Run {
            first_page: 15,
            pages: 2,
            node: None,
        });
        assert!(
            backend
                .populate(&mapping, PageSize::Base, &mut past_the_end)
                .is_err()
        );
    }
}
