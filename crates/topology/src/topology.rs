//! The topology of a whole machine.

use serde::Serialize;

use crate::cxl::Cxl;
use crate::root::Reader;
use crate::tiers::{classify, override_tiers};
use crate::{
    CpuId, CpuInfo, HugePages, IdSet, Limits, MemoryTier, Node, NodeId, NumaBalancing, SysRoot,
    TierKind, TopologyError, WeightedInterleave, cpu, kernel, node,
};

/// Configuration of a machine, read at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Topology {
    /// Root that the files were read from.
    pub root: SysRoot,
    /// Kernel release as `uname -r` prints it; `unknown` if no file has it.
    pub kernel_release: String,
    /// Host name; `None` if no file has it.
    pub hostname: Option<String>,
    /// Name of the processor; `unknown` if no file has it.
    pub cpu_model: String,
    /// Online NUMA nodes in ascending order.
    pub nodes: Vec<Node>,
    /// Tiers with at least one node, in the order dram, hbm, cxl, remote.
    pub tiers: Vec<MemoryTier>,
    /// CPUs, sockets and caches.
    pub cpus: CpuInfo,
    /// Pools and modes of huge pages.
    pub huge_pages: HugePages,
    /// The kernel's interleave weights, or why it has none.
    pub weighted_interleave: WeightedInterleave,
    /// Mode of the kernel's page migration; `None` for kernels without it.
    pub numa_balancing: Option<NumaBalancing>,
    /// CXL and DAX devices.
    pub cxl: Cxl,
    /// CPUs, nodes and memory that this process may use.
    pub limits: Limits,
    /// Values that could not be read, with the reason, and changes made by the user.
    pub notes: Vec<String>,
}

impl Topology {
    /// Reads the topology from the files below `root`.
    ///
    /// # Errors
    /// [`TopologyError::NotASystemTree`] if there is neither a list of nodes nor a `meminfo`;
    /// [`TopologyError::Unreadable`] or [`TopologyError::Garbled`] if the list of nodes, a node's
    /// list of CPUs or its memory size cannot be read. Anything else that is missing becomes a
    /// note.
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

    /// The node with this number, if it is online.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node that a CPU belongs to; `None` if no online node has the CPU.
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        self.nodes
            .iter()
            .find(|node| node.cpus.contains(cpu.0))
            .map(|node| node.id)
    }

    /// The tier of this kind, if the machine has one.
    pub fn tier(&self, kind: TierKind) -> Option<&MemoryTier> {
        self.tiers.iter().find(|tier| tier.kind == kind)
    }

    /// Kind of the tier that a node is in; `None` for nodes without memory or left out by the user.
    pub fn tier_of(&self, id: NodeId) -> Option<TierKind> {
        self.tiers
            .iter()
            .find(|tier| tier.nodes.contains(&id))
            .map(|tier| tier.kind)
    }

    /// Free memory of a node now, in bytes; `None` if it cannot be read.
    ///
    /// [`Node::mem_free_bytes`] is that of the time when the topology was read.
    pub fn free_now(&self, id: NodeId) -> Option<u64> {
        let reader = Reader::new(&self.root);
        node::memory_of(&reader, id).ok().map(|(_, free)| free)
    }

    /// Nodes with memory, in ascending order.
    pub fn memory_nodes(&self) -> Vec<NodeId> {
        self.nodes
            .iter()
            .filter(|node| node.has_memory)
            .map(|node| node.id)
            .collect()
    }

    /// Replaces tiers by those that the user specifies, as in `dram=0,1;cxl=2-5`.
    ///
    /// Spaces can replace the semicolons. A specified tier consists of exactly the nodes given; all
    /// other tiers keep their remaining nodes. Nodes that end up in no tier are mentioned in
    /// [`Topology::notes`].
    ///
    /// # Errors
    /// [`TopologyError::Tiers`] for an unknown tier or node, a node without memory, or a node or
    /// tier given twice; [`TopologyError::TierNodes`] for a malformed list of nodes. The tiers are
    /// then unchanged.
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
