//! NUMA policies of threads (`set_mempolicy(2)`) and ranges (`mbind(2)`), with save and restore.

use std::marker::PhantomData;

use tierloom_topology::NodeId;

use super::{Mapping, last_errno};

/// Nodes that a mask has room for: the kernel's limit on 64-bit machines.
pub(crate) const MAX_NODES: usize = 1024;
const MASK_WORDS: usize = MAX_NODES / 64;
/// The kernel reads one bit less than the number it is given.
const MASK_BITS: usize = MAX_NODES + 1;
/// From Linux 6.9; not in libc yet.
pub(crate) const MPOL_WEIGHTED_INTERLEAVE: i32 = 6;

/// A set of nodes as the kernel's bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeMask([u64; MASK_WORDS]);

impl NodeMask {
    pub(crate) const EMPTY: Self = Self([0; MASK_WORDS]);

    /// The set of one node; `None` if its number is beyond the kernel's limit.
    pub(crate) fn only(node: NodeId) -> Option<Self> {
        Self::of(&[node])
    }

    /// The set of these nodes; `None` if a number is beyond the kernel's limit.
    pub(crate) fn of(nodes: &[NodeId]) -> Option<Self> {
        let mut mask = Self::EMPTY;
        for node in nodes {
            let index = usize::try_from(node.0)
                .ok()
                .filter(|index| *index < MAX_NODES)?;
            mask.0[index / 64] |= 1 << (index % 64);
        }
        Some(mask)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// A memory policy: mode (with flags) and nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) mode: i32,
    pub(crate) nodes: NodeMask,
}

/// The calling thread's policy, or the errno.
pub(crate) fn current() -> Result<Policy, i32> {
    read_policy(0)
}

/// The nodes that the calling thread may use (its cpuset), or the errno.
pub(crate) fn mems_allowed() -> Result<NodeMask, i32> {
    const MPOL_F_MEMS_ALLOWED: libc::c_long = 1 << 2;
    read_policy(MPOL_F_MEMS_ALLOWED).map(|policy| policy.nodes)
}

fn read_policy(flags: libc::c_long) -> Result<Policy, i32> {
    let mut mode: libc::c_int = 0;
    let mut nodes = NodeMask::EMPTY;
    // SAFETY: `mode` and the mask are valid for writes, and the mask has MASK_BITS - 1 bits, as
    // many as the kernel writes.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            nodes.0.as_mut_ptr(),
            MASK_BITS as libc::c_long,
            0_usize,
            flags,
        )
    };
    if answer == 0 {
        Ok(Policy { mode, nodes })
    } else {
        Err(last_errno())
    }
}

/// Sets the calling thread's policy; the errno on failure.
pub(crate) fn set(policy: &Policy) -> Result<(), i32> {
    let (mask, bits) = if policy.nodes.is_empty() {
        (std::ptr::null(), 0)
    } else {
        (policy.nodes.0.as_ptr(), MASK_BITS as libc::c_long)
    };
    // SAFETY: the mask is null with 0 bits, or readable for MASK_BITS - 1 bits.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::c_long::from(policy.mode),
            mask,
            bits,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// Sets a mapping's own policy, for pages that are not present yet. It takes precedence over the
/// policies of threads.
pub(crate) fn set_on(mapping: &Mapping, policy: &Policy) -> Result<(), i32> {
    set_range(mapping.address(), mapping.size_bytes(), policy)
}

/// Same as [`set_on`] for whole pages at an address. A range with unmapped holes is refused.
pub(crate) fn set_range(address: usize, size_bytes: usize, policy: &Policy) -> Result<(), i32> {
    // SAFETY: a policy changes no contents, whatever the range, and without flags no page moves.
    // The mask is readable for MASK_BITS - 1 bits.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            address,
            size_bytes,
            libc::c_long::from(policy.mode),
            policy.nodes.0.as_ptr(),
            MASK_BITS as libc::c_long,
            0_usize,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// Changes the calling thread's policy, and restores the previous one when dropped.
#[derive(Debug)]
pub(crate) struct ThreadPolicy {
    saved: Policy,
    bound: Option<NodeId>,
    // A policy is the thread's, so the guard must be dropped on the thread that created it.
    _not_send: PhantomData<*const ()>,
}

impl ThreadPolicy {
    /// Saves the current policy; the errno if it cannot be read.
    pub(crate) fn save() -> Result<Self, i32> {
        Ok(Self {
            saved: current()?,
            bound: None,
            _not_send: PhantomData,
        })
    }

    /// Binds new pages of this thread to `node`, with no fallback. Does nothing if it is bound
    /// there already, which saves a system call per run.
    pub(crate) fn bind(&mut self, node: NodeId) -> Result<(), i32> {
        if self.bound == Some(node) {
            return Ok(());
        }
        let nodes = NodeMask::only(node).ok_or(libc::EINVAL)?;
        set(&Policy {
            mode: libc::MPOL_BIND,
            nodes,
        })?;
        self.bound = Some(node);
        Ok(())
    }

    /// Restores the saved policy, and reports a failure (which a drop cannot).
    pub(crate) fn restore(&mut self) -> Result<(), i32> {
        if self.bound.take().is_some() {
            set(&self.saved)
        } else {
            Ok(())
        }
    }
}

impl Drop for ThreadPolicy {
    fn drop(&mut self) {
        // The error that led here is the one to report. The kernel refuses a policy that it
        // returned before only if the cpuset has changed since.
        let _ = self.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_is_restored_after_use_and_after_an_error_path() {
        let Ok(before) = current() else { return };
        let mut guard = ThreadPolicy::save().unwrap();
        guard.bind(NodeId(0)).unwrap();
        assert_eq!(
            current().unwrap(),
            Policy {
                mode: libc::MPOL_BIND,
                nodes: NodeMask::only(NodeId(0)).unwrap()
            }
        );
        guard.restore().unwrap();
        assert_eq!(current().unwrap(), before);

        let failing = || -> Result<(), i32> {
            let mut guard = ThreadPolicy::save()?;
            guard.bind(NodeId(0))?;
            guard.bind(NodeId(MAX_NODES as u32))
        };
        assert_eq!(failing(), Err(libc::EINVAL));
        assert_eq!(current().unwrap(), before);
    }

    #[test]
    fn a_policy_set_by_the_caller_survives() {
        let Ok(before) = current() else { return };
        let interleave = Policy {
            mode: libc::MPOL_INTERLEAVE,
            nodes: NodeMask::only(NodeId(0)).unwrap(),
        };
        set(&interleave).unwrap();
        {
            let mut guard = ThreadPolicy::save().unwrap();
            guard.bind(NodeId(0)).unwrap();
        }
        assert_eq!(current().unwrap(), interleave);
        set(&before).unwrap();
    }
}
