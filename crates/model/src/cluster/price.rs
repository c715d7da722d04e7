//! The parts of a statement in time on one kind of machine.

use super::setup::{ClusterSetup, DIRECT_BYTES, ModelledBackend, ShuffleOn};
use super::spread::SpreadQuery;
use crate::error::ModelError;
use crate::machine::Machine;
use crate::solve::{Options, solve_all};
use crate::work::{
    Access, LINE_BYTES, Op, Phase, PhaseKind, Placement, StructureClass, TierShares,
};

/// Name of the files of the shuffle as a structure.
const SHUFFLE: &str = "shuffle";

/// What some nodes do alike of a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePart {
    /// Number of these nodes.
    pub nodes: u32,
    /// Shards that each of them reads, each of which gives a result of its own; 0 if no table is in
    /// shards.
    pub shards: u32,
    /// Time of the node plan, ns.
    pub work_ns: f64,
    /// Bytes that each sends to the node of the final plan.
    pub sent_bytes: f64,
    /// Time to write them where they are passed on from, ns.
    pub write_ns: f64,
    /// Time to read them there, ns.
    pub read_ns: f64,
}

/// Who does a final plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastOn {
    /// The client, with one thread.
    Client,
    /// A node, with all of its workers.
    OneNode,
    /// Every node for its share of the keys.
    AllNodes,
}

/// A statement on a cluster, in times and bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementWork {
    /// Name of the query.
    pub name: String,
    /// Statements that the query takes; all but one of them are taken to do no work of their own.
    pub statements: u32,
    /// What nodes do, the longest part first.
    pub parts: Vec<NodePart>,
    /// Who does the final plan; `None` if there is none.
    pub last_on: Option<LastOn>,
    /// Time of the final plan there, ns; of its part on each node, if all do it.
    pub last_ns: f64,
    /// Time of the query in one process on one node, ns.
    pub alone_ns: f64,
}

/// A machine as all nodes are, and how they use it.
#[derive(Debug, Clone, Copy)]
pub struct PricedOn<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Where structures lie on each node.
    pub placement: &'a Placement,
    /// Workers of each node.
    pub workers: u32,
    /// Terms of the model, and load of other programs.
    pub options: &'a Options,
}

impl PricedOn<'_> {
    /// Prices the parts of `query`.
    ///
    /// One node is one process: nothing is sent, and no plan is cut.
    ///
    /// # Errors
    /// Those of [`ClusterSetup::check`] and [`solve_all`].
    pub fn work(
        &self,
        query: &SpreadQuery,
        setup: &ClusterSetup,
    ) -> Result<StatementWork, ModelError> {
        setup.check()?;
        let alone_ns = self.time_ns(&query.whole, self.workers)?;
        let is_asked = setup.backend == ModelledBackend::Distributed;
        let one = |work_ns| StatementWork {
            name: query.name.clone(),
            statements: query.statements,
            parts: vec![NodePart {
                nodes: 1,
                shards: if query.is_spread() { setup.shards } else { 0 },
                work_ns,
                sent_bytes: 0.0,
                write_ns: 0.0,
                read_ns: 0.0,
            }],
            last_on: query.is_spread().then_some(match is_asked {
                true => LastOn::Client,
                false => LastOn::OneNode,
            }),
            last_ns: 0.0,
            alone_ns,
        };
        let held = setup.shards_of_nodes();
        let nodes: u32 = held.iter().map(|(_, nodes)| nodes).sum();
        if nodes == 1 || !query.is_spread() {
            return Ok(one(alone_ns));
        }
        let files = match is_asked {
            true => &ShuffleOn::Free,
            false => &setup.shuffle,
        };
        let share_of = |shards| f64::from(shards) / f64::from(setup.shards);
        let (mut parts, mut states, mut sent) = (Vec::new(), 0.0, 0.0);
        for (shards, nodes) in held {
            let share = share_of(shards);
            let sent_bytes = query.sent_bytes(share);
            parts.push(NodePart {
                nodes,
                shards,
                work_ns: self.time_ns(&query.node_phases(share), self.workers)?,
                sent_bytes,
                write_ns: self.passing_on_ns(files, sent_bytes, shards, Op::Write)?,
                read_ns: self.passing_on_ns(files, sent_bytes, shards, Op::Read)?,
            });
            states += f64::from(nodes) * query.states(share);
            sent += f64::from(nodes) * sent_bytes;
        }
        let last_on = match setup.backend {
            ModelledBackend::Ballista => LastOn::OneNode,
            _ if query.has_small_results() && sent <= DIRECT_BYTES => LastOn::Client,
            ModelledBackend::Distributed => LastOn::AllNodes,
        };
        let each = 1.0 / f64::from(nodes);
        let last_ns = match last_on {
            LastOn::Client => self.time_ns(&query.last_phases(states, 1.0), 1)?,
            // The node of the final plan, one of the first, has its own states already.
            LastOn::OneNode => {
                let own = query.states(share_of(parts[0].shards));
                let phases = query.last_phases(states - own, 1.0);
                self.time_ns(&phases, self.workers)?
            }
            LastOn::AllNodes => {
                let phases = query.last_phases(states * each, each);
                self.time_ns(&phases, self.workers)?
            }
        };
        Ok(StatementWork {
            parts,
            last_on: Some(last_on),
            last_ns,
            ..one(alone_ns)
        })
    }

    /// Time to write or read `bytes` of the shuffle on one node.
    ///
    /// Each shard's result is a file, written and read by one thread, so that few shards do not
    /// use all workers.
    fn passing_on_ns(
        &self,
        shuffle: &ShuffleOn,
        bytes: f64,
        shards: u32,
        op: Op,
    ) -> Result<f64, ModelError> {
        let tier = match shuffle {
            _ if bytes <= 0.0 => return Ok(0.0),
            ShuffleOn::Free => return Ok(0.0),
            ShuffleOn::Given { write_gbps, .. } if op == Op::Write => return Ok(bytes / write_gbps),
            ShuffleOn::Given { read_gbps, .. } => return Ok(bytes / read_gbps),
            ShuffleOn::Tier(tier) => tier,
        };
        let lines = bytes / LINE_BYTES;
        let files = Access::sequential_read(SHUFFLE, LINE_BYTES, bytes as u64);
        let files = files.with_class(StructureClass::SortRun).with_op(op);
        let phase = Phase::new("pass rows on", PhaseKind::Scan, lines).access(files.vectorised());
        let there = self.placement.clone();
        let there = there.with_structure(SHUFFLE, TierShares::all(tier.as_str()));
        let workers = self.workers.min(shards.max(1));
        Ok(solve_all(self.machine, &[phase], &there, workers, self.options)?.time_ns)
    }

    fn time_ns(&self, phases: &[Phase], workers: u32) -> Result<f64, ModelError> {
        if phases.iter().all(Phase::is_idle) {
            return Ok(0.0);
        }
        Ok(solve_all(self.machine, phases, self.placement, workers, self.options)?.time_ns)
    }
}
