//! The whole machine.

use serde::Serialize;

use crate::cxl::Cxl;
use crate::root::Reader;
use crate::tiers::{classify, override_tiers};
use crate::{
    CpuId, CpuInfo, HugePages, IdSet, Limits, Node, NodeId, NumaBalancing, SysRoot, Tier, TierKind,
    TopologyError, WeightedInterleave, cpu, kernel, node,
};

/// What a machine has, read at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Topology {
    /// Where it was read.
    pub root: SysRoot,
    /// Release of the kernel, as `uname -r` prints it; `unknown` where no file tells.
    pub kernel_release: String,
    /// Name of the host, where a file tells.
    pub hostname: Option<String>,
    /// Name of the processor; `unknown` where no file tells.
    pub cpu_model: String,
    /// Online NUMA nodes, ascending.
    pub nodes: Vec<Node>,
    /// Tiers, in the order dram, hbm, cxl, remote; each has a node.
    pub tiers: Vec<Tier>,
    /// CPUs and caches.
    pub cpus: CpuInfo,
    /// Huge pages.
    pub huge_pages: HugePages,
    /// The kernel's weighted interleave policy.
    pub weighted_interleave: WeightedInterleave,
    /// The kernel's own page migration; `None` for kernels without it.
    pub numa_balancing: Option<NumaBalancing>,
    /// CXL and DAX devices.
    pub cxl: Cxl,
    /// What this process may use.
    pub limits: Limits,
    /// What could not be read, and why; what the user changed.
    pub notes: Vec<String>,
}

impl Topology {
    /// Reads the machine below `root`.
    ///
    /// # Errors
    /// [`TopologyError::NotASystemTree`] if nothing of a machine is there; [`TopologyError::Unreadable`] or [`TopologyError::Garbled`] if a
    /// node's list of CPUs or its memory cannot be read. Everything else that is missing becomes a note.
    pub fn read(root: &SysRoot) -> Result<Self, TopologyError> {
        let reader = Reader::new(root);
        let cpus = CpuInfo::read(&reader);
        let nodes = node::read_all(&reader, &cpus)?;
        let node_ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
        let cxl = Cxl::read(&reader, &nodes);
        let existing = node_ids.iter().copied().collect();
        let limits = Limits::read(&reader, &cpus.online, &existing);
        let kernel_release = kernel::release(&reader);
        Ok(Self {
            root: root.clone(),
            hostname: kernel::hostname(&reader),
            cpu_model: cpu::model(&reader),
            tiers: classify(&nodes, &cxl, &limits.cpus_allowed),
            huge_pages: HugePages::read(&reader, &node_ids),
            weighted_interleave: WeightedInterleave::read(&reader, &kernel_release),
            numa_balancing: NumaBalancing::read(&reader),
            kernel_release,
            nodes,
            cpus,
            cxl,
            limits,
            notes: reader.into_notes(),
        })
    }

    /// The node with this number.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node that a CPU belongs to.
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        self.nodes
            .iter()
            .find(|node| node.cpus.contains(cpu.0))
            .map(|node| node.id)
    }

    /// The tier of this kind, if the machine has one.
    pub fn tier(&self, kind: TierKind) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.kind == kind)
    }

    /// The tier that a node is in; `None` for nodes without memory.
    pub fn tier_of(&self, id: NodeId) -> Option<TierKind> {
        self.tiers
            .iter()
            .find(|tier| tier.nodes.contains(&id))
            .map(|tier| tier.kind)
    }

    /// Nodes with memory, ascending.
    pub fn memory_nodes(&self) -> Vec<NodeId> {
        self.nodes
            .iter()
            .filter(|node| node.has_memory)
            .map(|node| node.id)
            .collect()
    }

    /// Names tiers by hand, as in `dram=0,1;cxl=2-5` (spaces separate as well as `;`).
    ///
    /// A tier that is named holds exactly the nodes given. Tiers not named keep the nodes that nobody took from them. Nodes that are in no
    /// tier afterwards are mentioned in [`Topology::notes`].
    ///
    /// # Errors
    /// [`TopologyError::Tiers`] and [`TopologyError::TierNodes`]: an unknown tier or node, a node without memory, a node or a tier given
    /// twice, a malformed list. The tiers stay as they were.
    pub fn override_tiers(&mut self, text: &str) -> Result<(), TopologyError> {
        let existing: IdSet = self.nodes.iter().map(|node| node.id).collect();
        let with_memory: IdSet = self.memory_nodes().into_iter().collect();
        let dropped = override_tiers(&mut self.tiers, text, &existing, &with_memory)?;
        let note = |node: NodeId| {
            format!("node {node} is in no tier: the tiers {text:?} set by the user leave it out")
        };
        self.notes.extend(dropped.into_iter().map(note));
        Ok(())
    }
}
