//! Assignment of nodes to tiers, with the evidence for it.
//!
//! In order of precedence: CPUs and their socket, CXL regions that back the node, numbers from
//! firmware, node distances. A node about which nothing is known counts as DRAM.

use std::collections::BTreeMap;

use super::overrides::named;
use super::{MemoryTier, TierKind};
use crate::cxl::{Cxl, Region};
use crate::node::Node;
use crate::{IdSet, NodeId};

/// Bandwidth relative to DRAM above which memory counts as HBM.
///
/// HBM2e has two to three times the bandwidth of DDR5 in the same machine; another DDR generation
/// or an additional channel stays below the limit.
const HBM_BANDWIDTH_RATIO: f64 = 1.5;
/// Ratio below which numbers from firmware count as equal, as small differences are no evidence.
const SLOWER_RATIO: f64 = 1.2;

/// Groups the nodes with memory into tiers, from the point of view of the CPUs in `cpus_allowed`.
pub(crate) fn classify(nodes: &[Node], cxl: &Cxl, cpus_allowed: &IdSet) -> Vec<MemoryTier> {
    let view = View::new(nodes, cxl, cpus_allowed);
    let with_memory = nodes.iter().filter(|node| node.has_memory);
    let found: Vec<(NodeId, TierKind, Evidence)> = with_memory
        .map(|node| {
            let (kind, evidence) = view.kind_and_evidence(node);
            (node.id, kind, evidence)
        })
        .collect();
    TierKind::ALL
        .into_iter()
        .filter_map(|kind| {
            let own: Vec<(NodeId, &Evidence)> = found
                .iter()
                .filter(|(_, other, _)| *other == kind)
                .map(|(node, _, evidence)| (*node, evidence))
                .collect();
            let nodes: Vec<NodeId> = own.iter().map(|(node, _)| *node).collect();
            (!nodes.is_empty()).then(|| MemoryTier {
                kind,
                nodes,
                reason: reason(&own),
            })
        })
        .collect()
}

/// Why a node belongs to its tier.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// The node has no CPUs, and these CXL regions back it, such as `region0 on mem0`.
    Backed(String),
    /// Any other evidence, as text.
    Words(String),
}

impl Evidence {
    fn words(&self) -> String {
        match self {
            Self::Backed(regions) => format!("no CPUs; backed by {regions} (CXL)"),
            Self::Words(words) => words.clone(),
        }
    }
}

/// Reason of a tier, per group of nodes if their evidence differs.
fn reason(own: &[(NodeId, &Evidence)]) -> String {
    let backed: Option<Vec<&str>> = own
        .iter()
        .map(|(_, evidence)| match evidence {
            Evidence::Backed(regions) => Some(regions.as_str()),
            Evidence::Words(_) => None,
        })
        .collect();
    if let Some(regions) = backed {
        return Evidence::Backed(regions.join(", ")).words();
    }
    let mut grouped: BTreeMap<&Evidence, Vec<NodeId>> = BTreeMap::new();
    for (node, evidence) in own {
        grouped.entry(evidence).or_default().push(*node);
    }
    let mut groups: Vec<(&Evidence, Vec<NodeId>)> = grouped.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| nodes.first().copied());
    match groups.as_slice() {
        [(evidence, _)] => evidence.words(),
        several => {
            let one = |(evidence, nodes): &(&Evidence, Vec<NodeId>)| {
                format!("{}: {}", named(nodes), evidence.words())
            };
            several.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    }
}

/// The machine from the point of view of the CPUs that may be used.
struct View<'a> {
    cxl: &'a Cxl,
    /// Nodes of these CPUs.
    initiators: Vec<NodeId>,
    /// Sockets of these nodes.
    sockets: IdSet,
    /// One of these nodes as the reference, preferably one with numbers from firmware.
    reference: Option<&'a Node>,
}

impl<'a> View<'a> {
    fn new(nodes: &'a [Node], cxl: &'a Cxl, cpus_allowed: &IdSet) -> Self {
        let allowed = |node: &&Node| !node.cpus.intersection(cpus_allowed).is_empty();
        let initiators: Vec<&Node> = nodes.iter().filter(allowed).collect();
        let mut with_memory = initiators.iter().copied().filter(|node| node.has_memory);
        // Preferably with numbers, which a comparison needs on both sides.
        let with_figures = with_memory
            .clone()
            .find(|node| node.best_access().is_some());
        Self {
            cxl,
            sockets: initiators.iter().filter_map(|node| node.socket).collect(),
            reference: with_figures.or_else(|| with_memory.next()),
            initiators: initiators.iter().map(|node| node.id).collect(),
        }
    }

    fn kind_and_evidence(&self, node: &Node) -> (TierKind, Evidence) {
        if !node.cpus.is_empty() {
            let (kind, words) = self.with_cpus(node);
            return (kind, Evidence::Words(words));
        }
        let regions: Vec<&Region> = self.cxl.regions_of_node(node.id).collect();
        if !regions.is_empty() {
            return (TierKind::Cxl, Evidence::Backed(backing(&regions)));
        }
        let (kind, evidence) = self
            .by_figures(node)
            .or_else(|| self.by_distance(node))
            .unwrap_or_else(|| {
                let evidence = match self.reference {
                    Some(reference) => {
                        format!("nothing says that it is slower than node {}", reference.id)
                    }
                    None => "nothing says how fast it is".to_owned(),
                };
                (TierKind::Dram, evidence)
            });
        (kind, Evidence::Words(format!("no CPUs; {evidence}")))
    }

    fn with_cpus(&self, node: &Node) -> (TierKind, String) {
        match node.socket {
            Some(socket) if self.sockets.contains(socket) => (
                TierKind::Dram,
                format!(
                    "on {}, whose CPUs this process may use",
                    self.sockets_named()
                ),
            ),
            Some(socket) => (
                TierKind::Remote,
                format!("on socket {socket}, whose CPUs this process may not use"),
            ),
            None if self.initiators.contains(&node.id) => (
                TierKind::Dram,
                "has CPUs that this process may use (sockets unknown)".to_owned(),
            ),
            None => (
                TierKind::Remote,
                "has CPUs, but none that this process may use (sockets unknown)".to_owned(),
            ),
        }
    }

    fn sockets_named(&self) -> String {
        match self.sockets.len() {
            1 => format!("socket {}", self.sockets),
            _ => format!("sockets {}", self.sockets),
        }
    }

    /// Compares numbers from firmware with those of the reference node.
    ///
    /// `None` if either node lacks them, or if they show no clear difference.
    fn by_figures(&self, node: &Node) -> Option<(TierKind, String)> {
        let reference = self.reference?;
        let (own, base) = (node.best_access()?, reference.best_access()?);
        let bandwidths = own.read_bandwidth_gbps.zip(base.read_bandwidth_gbps);
        let latencies = own.read_latency_ns.zip(base.read_latency_ns);
        let bandwidth_words = |(own, base): (f64, f64)| {
            format!(
                "HMAT read bandwidth {own:.1} GB/s against {base:.1} GB/s on node {}",
                reference.id
            )
        };
        // Bandwidth first: HBM may well have a higher idle latency than DRAM, and would count as
        // CXL otherwise.
        if let Some(pair) = bandwidths.filter(|(own, base)| *own > base * HBM_BANDWIDTH_RATIO) {
            return Some((TierKind::Hbm, bandwidth_words(pair)));
        }
        if let Some((own, base)) = latencies.filter(|(own, base)| *own > base * SLOWER_RATIO) {
            let words = format!(
                "HMAT read latency {own:.0} ns against {base:.0} ns on node {}",
                reference.id
            );
            return Some((TierKind::Cxl, words));
        }
        let slower = bandwidths.filter(|(own, base)| own * SLOWER_RATIO < *base)?;
        Some((TierKind::Cxl, bandwidth_words(slower)))
    }

    fn by_distance(&self, node: &Node) -> Option<(TierKind, String)> {
        let reference = self.reference?;
        let (distance, local) = (
            *reference.distances.get(&node.id)?,
            reference.local_distance(),
        );
        // An equal distance is no evidence of either kind.
        (distance > local).then(|| {
            let words = format!(
                "distance {distance} from node {} against {local} of its own memory",
                reference.id
            );
            (TierKind::Cxl, words)
        })
    }
}

/// Regions with their memory devices, such as `region0 on mem0`.
fn backing(regions: &[&Region]) -> String {
    let one = |region: &&Region| match region.memdevs().as_slice() {
        [] => region.name.clone(),
        memdevs => format!("{} on {}", region.name, memdevs.join("+")),
    };
    let all: Vec<String> = regions.iter().map(one).collect();
    all.join(", ")
}
