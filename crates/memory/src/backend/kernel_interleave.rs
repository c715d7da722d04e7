//! Backend for anonymous memory that is interleaved by a policy of the kernel.

use std::path::PathBuf;

use tierloom_topology::{NodeId, Topology, WeightedInterleave};

use super::{MemoryBackend, NodeCapacity, Placing, capacity};
use crate::placement::{check_node, list};
use crate::sys;
use crate::sys::policy::{self, MPOL_WEIGHTED_INTERLEAVE, NodeMask, Policy};
use crate::{Mapping, MemoryError, PageSize, Placement};

/// Private anonymous memory under `MPOL_INTERLEAVE` or `MPOL_WEIGHTED_INTERLEAVE`, set with
/// `mbind`.
///
/// `MPOL_INTERLEAVE` gives one page to each node in turn. `MPOL_WEIGHTED_INTERLEAVE` (Linux 6.9)
/// uses the system's weights in `/sys/kernel/mm/mempolicy/weighted_interleave`. These are the
/// policies of `numactl --interleave` and `--weighted-interleave`;
/// [`AnonymousNuma`](super::AnonymousNuma) has weights per region to compare them with.
///
/// Regions must have the placement `default`. The requested shares of their audits are the
/// kernel's, with the weights at the time the backend was created. A full node is not an error: the
/// kernel continues on the others, and the audit shows it.
#[derive(Debug, Clone)]
pub struct KernelInterleave {
    sys_root: PathBuf,
    nodes: Vec<NodeId>,
    weighted: bool,
    shares: Vec<(NodeId, f64)>,
}

impl KernelInterleave {
    /// Interleaves over `nodes`, by the system's weights or evenly.
    ///
    /// # Errors
    /// [`MemoryError::Placement`] for nodes that are repeated or cannot be used;
    /// [`MemoryError::KernelPolicy`] if no node is named, or if the kernel of `topology` has no
    /// weights.
    pub fn new(
        topology: &Topology,
        nodes: impl Into<Vec<NodeId>>,
        weighted: bool,
    ) -> Result<Self, MemoryError> {
        let mut nodes = nodes.into();
        // The kernel takes a set of nodes and goes through it in ascending order.
        nodes.sort_unstable();
        let mut backend = Self {
            sys_root: topology.root.path().to_path_buf(),
            nodes,
            weighted,
            shares: Vec::new(),
        };
        if backend.nodes.is_empty() {
            return Err(backend.unavailable("no node was named; name at least one".to_owned()));
        }
        for node in &backend.nodes {
            check_node(topology, *node)?;
        }
        backend.shares = backend.expected_shares(topology)?;
        Ok(backend)
    }

    /// The nodes, in ascending order.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Share of each node by the weights in `topology`, as fractions of 1, nodes ascending.
    ///
    /// Weights that have changed show in a topology that is read again.
    ///
    /// # Errors
    /// [`MemoryError::KernelPolicy`] if `topology` has no weights, or not one for each node.
    pub fn expected_shares(&self, topology: &Topology) -> Result<Vec<(NodeId, f64)>, MemoryError> {
        let weights = match (&topology.weighted_interleave, self.weighted) {
            (_, false) => self.nodes.iter().map(|node| (*node, 1)).collect(),
            (WeightedInterleave::Absent { reason }, true) => {
                return Err(self.unavailable(format!(
                    "{reason}; boot Linux 6.9 or newer, or give the weights as a placement (`0:3,2:2`), which needs no kernel support"
                )));
            }
            (WeightedInterleave::Present { weights, .. }, true) => {
                let weight = |node: &NodeId| {
                    let weight = weights.get(node).filter(|weight| **weight > 0);
                    weight.map(|weight| (*node, *weight)).ok_or_else(|| {
                        self.unavailable(format!(
                            "the kernel tells no weight of node {node}; \
                             write one to /sys/kernel/mm/mempolicy/weighted_interleave/node{node}"
                        ))
                    })
                };
                self.nodes.iter().map(weight).collect::<Result<_, _>>()?
            }
        };
        Ok(Placement::weighted(weights)?.shares())
    }

    fn policy_name(&self) -> &'static str {
        if self.weighted {
            "MPOL_WEIGHTED_INTERLEAVE"
        } else {
            "MPOL_INTERLEAVE"
        }
    }

    fn unavailable(&self, reason: String) -> MemoryError {
        MemoryError::KernelPolicy {
            policy: self.policy_name(),
            nodes: list(&self.nodes),
            reason,
        }
    }

    fn set_policy(&self, mapping: &Mapping) -> Result<(), MemoryError> {
        let mode = if self.weighted {
            MPOL_WEIGHTED_INTERLEAVE
        } else {
            libc::MPOL_INTERLEAVE
        };
        let nodes = NodeMask::of(&self.nodes).ok_or_else(|| {
            self.unavailable("a node number is past the kernel's limit".to_owned())
        })?;
        policy::set_on(mapping, &Policy { mode, nodes }).map_err(|errno| match errno {
            libc::EINVAL if self.weighted => self.unavailable(
                "mbind answers EINVAL: the kernel is older than 6.9, or the nodes are outside the cpuset; see `tierloom doctor`, or give the weights as a placement (`0:3,2:2`)"
                    .to_owned(),
            ),
            errno => MemoryError::syscall(
                "mbind",
                format!("policy {} on nodes {}", self.policy_name(), list(&self.nodes)),
                errno,
            ),
        })
    }
}

impl MemoryBackend for KernelInterleave {
    fn describe(&self) -> String {
        let how = if self.weighted {
            "weighted by the system's weights"
        } else {
            "evenly"
        };
        let nodes = list(&self.nodes);
        format!("anonymous memory interleaved by the kernel over nodes {nodes} ({how})")
    }

    fn placing(&self) -> Placing {
        Placing::Kernel {
            shares: self.shares.clone(),
        }
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
        let mapping = Mapping::anonymous(size_bytes, page_size).map_err(|errno| {
            MemoryError::syscall(
                "mmap",
                format!("region `{name}` of {size_bytes} bytes ({page_size} pages)"),
                errno,
            )
        })?;
        // Before any page is touched: without flags `mbind` does not move pages that are present.
        self.set_policy(&mapping)?;
        Ok(mapping)
    }

    fn huge_bytes(&self, mapping: &Mapping) -> Option<u64> {
        sys::huge::huge_bytes(mapping)
    }
}
