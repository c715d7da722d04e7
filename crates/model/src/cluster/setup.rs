//! A cluster: its nodes, the network between them, and what a statement costs beside its work.

use crate::error::ModelError;

/// The network between any two nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkLink {
    /// Bandwidth of a node's link in each direction, GB/s; a link of 100 Gbit/s has 12.5.
    pub gbps: f64,
    /// Time from a request to the first byte of its answer, microseconds.
    pub round_trip_us: f64,
}

/// What a statement costs beside the work of its operators: see [`ModelledBackend::costs`].
///
/// With the backend `distributed`, what is said of the scheduler here is done by the client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatementCosts {
    /// Planning, handing over and answering one statement, whatever the number of nodes, ms.
    pub statement_ms: f64,
    /// Time of the scheduler for one task, microseconds; half of it to give it out, half when it
    /// has ended. The scheduler does this for one task after the other.
    pub task_us: f64,
    /// The same for each shard of the table, microseconds: every task says who holds which shard.
    pub task_shard_us: f64,
    /// Time of the scheduler for one shard of a statement, microseconds, in the task that reads it.
    pub shard_us: f64,
    /// Time of the node of the final plan for the result of one shard, microseconds, beside the
    /// transfer of its bytes; results are read one after the other. With `distributed`: time of a
    /// node for the rows of another one.
    pub fetch_us: f64,
    /// Time of the client for the task of one node in a final plan that all nodes do, microseconds.
    pub stage_task_us: f64,
    /// Time of each of these nodes beside its work and what it reads of others, ms.
    pub stage_node_ms: f64,
    /// Bytes of a task that do not depend on the number of shards: operators and settings.
    pub plan_bytes: f64,
    /// Bytes of a task for each shard of the table.
    pub plan_bytes_per_shard: f64,
    /// Results that the node of the final plan asks for at the same time.
    pub fetches_at_once: u32,
}

impl StatementCosts {
    /// Those of statements that Ballista's scheduler gives out, measured on processes of one
    /// machine; docs/cluster-model.md says how.
    fn of_scheduler() -> Self {
        StatementCosts {
            statement_ms: 60.0,
            task_us: 900.0,
            task_shard_us: 10.5,
            shard_us: 31.0,
            fetch_us: 600.0,
            stage_task_us: 0.0,
            stage_node_ms: 0.0,
            plan_bytes: 5000.0,
            plan_bytes_per_shard: 160.0,
            // `ballista.shuffle.max_concurrent_read_requests` of Ballista 55.
            fetches_at_once: 64,
        }
    }

    /// Those of statements for which a client asks nodes, measured likewise.
    fn of_client() -> Self {
        StatementCosts {
            statement_ms: 0.3,
            task_us: 100.0,
            task_shard_us: 0.0,
            shard_us: 0.5,
            fetch_us: 500.0,
            stage_task_us: 650.0,
            stage_node_ms: 3.0,
            plan_bytes: 3000.0,
            plan_bytes_per_shard: 10.0,
            fetches_at_once: u32::MAX,
        }
    }

    /// A scheduler that costs nothing, to see the work alone.
    pub fn free() -> Self {
        StatementCosts {
            statement_ms: 0.0,
            task_us: 0.0,
            task_shard_us: 0.0,
            shard_us: 0.0,
            fetch_us: 0.0,
            stage_task_us: 0.0,
            stage_node_ms: 0.0,
            plan_bytes: 0.0,
            plan_bytes_per_shard: 0.0,
            fetches_at_once: u32::MAX,
        }
    }
}

/// Who gives out the work of a statement, and who ends it: `--backend` of `cluster sql`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelledBackend {
    /// The scheduler gives out tasks, nodes write results to files, and one node does the final
    /// plan.
    Ballista,
    /// The client asks the nodes and does the final plan if it gets little for it. Otherwise all
    /// nodes do it, each for its share of the keys.
    #[default]
    Distributed,
}

impl ModelledBackend {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ModelledBackend::Ballista => "ballista",
            ModelledBackend::Distributed => "distributed",
        }
    }

    /// What statements cost with it, as measured.
    pub fn costs(self) -> StatementCosts {
        match self {
            ModelledBackend::Ballista => StatementCosts::of_scheduler(),
            ModelledBackend::Distributed => StatementCosts::of_client(),
        }
    }
}

impl std::str::FromStr for ModelledBackend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [ModelledBackend::Ballista, ModelledBackend::Distributed];
        let found = all.into_iter().find(|backend| backend.name() == text);
        found.ok_or_else(|| format!("{text:?} is no backend; expected ballista or distributed"))
    }
}

/// Where nodes write the rows that they pass on, for others to read them.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ShuffleOn {
    /// Somewhere that takes no time beside what [`StatementCosts`] has.
    #[default]
    Free,
    /// Files in memory of this tier: each byte is written there once and read once.
    Tier(String),
    /// Files that every node writes and reads with bandwidths that are given, as on a disk.
    Given {
        /// GB/s of a node that writes.
        write_gbps: f64,
        /// GB/s of a node whose files are read.
        read_gbps: f64,
    },
}

impl std::fmt::Display for ShuffleOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ShuffleOn::Free => f.write_str("free"),
            ShuffleOn::Tier(tier) => write!(f, "in {tier} memory"),
            ShuffleOn::Given {
                write_gbps,
                read_gbps,
            } => write!(f, "written at {write_gbps} GB/s, read at {read_gbps} GB/s"),
        }
    }
}

/// Nodes of one kind, their shards and what is between them.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterSetup {
    /// Number of nodes.
    pub nodes: u32,
    /// Number of shards of each fact table.
    pub shards: u32,
    /// The network.
    pub network: NetworkLink,
    /// What a statement costs beside its work.
    pub costs: StatementCosts,
    /// Where nodes write what they pass on; [`ModelledBackend::Distributed`] writes nothing.
    pub shuffle: ShuffleOn,
    /// Who gives out work and ends statements.
    pub backend: ModelledBackend,
}

/// Most bytes that nodes send to the client for a final plan: `--direct` of `cluster sql`.
pub(super) const DIRECT_BYTES: f64 = (64u64 << 20) as f64;

impl ClusterSetup {
    /// A cluster in which every node has the same number of shards, at least 16 in all.
    pub fn new(nodes: u32, network: NetworkLink, backend: ModelledBackend) -> Self {
        ClusterSetup {
            nodes,
            shards: Self::even_shards(nodes),
            network,
            costs: backend.costs(),
            shuffle: ShuffleOn::default(),
            backend,
        }
    }

    /// The smallest number of shards that nodes can share evenly, at least the 16 that `tierloom
    /// cluster load` makes.
    pub fn even_shards(nodes: u32) -> u32 {
        let nodes = nodes.max(1);
        nodes.saturating_mul(16u32.div_ceil(nodes))
    }

    /// Checks that there are nodes and shards and that all numbers make sense.
    ///
    /// # Errors
    /// [`ModelError::Cluster`] names the first number that cannot be.
    pub fn check(&self) -> Result<(), ModelError> {
        let (network, costs) = (&self.network, &self.costs);
        let counts = [
            ("nodes", self.nodes),
            ("shards", self.shards),
            ("fetches at once", costs.fetches_at_once),
        ];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ModelError::Cluster {
                field,
                found: 0.0,
                expected: "at least 1",
            });
        }
        let mut rates = vec![("network bandwidth in GB/s", network.gbps)];
        if let ShuffleOn::Given {
            write_gbps,
            read_gbps,
        } = self.shuffle
        {
            let field = "bandwidth of the shuffle in GB/s";
            rates.extend([(field, write_gbps), (field, read_gbps)]);
        }
        // What costs nothing has a bandwidth without end.
        let wrong = rates.into_iter().find(|(_, x)| x.is_nan() || *x <= 0.0);
        if let Some((field, found)) = wrong {
            return Err(ModelError::Cluster {
                field,
                found,
                expected: "a number above 0",
            });
        }
        let times = [
            ("network round trip in us", network.round_trip_us),
            ("time of a statement in ms", costs.statement_ms),
            ("time of a task in us", costs.task_us),
            ("time of a task per shard in us", costs.task_shard_us),
            ("time of a shard in us", costs.shard_us),
            ("time of a result in us", costs.fetch_us),
            ("time of a task of a stage in us", costs.stage_task_us),
            ("time of a node for a stage in ms", costs.stage_node_ms),
            ("bytes of a plan", costs.plan_bytes),
            ("bytes of a plan per shard", costs.plan_bytes_per_shard),
        ];
        let wrong = times
            .into_iter()
            .find(|(_, x)| !(x.is_finite() && *x >= 0.0));
        match wrong {
            Some((field, found)) => Err(ModelError::Cluster {
                field,
                found,
                expected: "a finite number of at least 0",
            }),
            None => Ok(()),
        }
    }

    /// Numbers of shards that nodes hold, each with the number of these nodes; most shards first.
    ///
    /// Nodes without a shard get no task and are left out.
    pub fn shards_of_nodes(&self) -> Vec<(u32, u32)> {
        let (least, more) = (self.shards / self.nodes, self.shards % self.nodes);
        let all = [(least + 1, more), (least, self.nodes - more)];
        let held = all.into_iter().filter(|(s, nodes)| *s > 0 && *nodes > 0);
        held.collect()
    }

    /// Time of the scheduler for a task that reads this number of shards, ns.
    pub(super) fn task_ns(&self, shards: u32) -> f64 {
        let of_all = f64::from(self.shards) * self.costs.task_shard_us;
        1e3 * (self.costs.task_us + of_all + f64::from(shards) * self.costs.shard_us)
    }

    /// Time of a transfer of `bytes` over one link, ns.
    pub(super) fn transfer_ns(&self, bytes: f64) -> f64 {
        bytes / self.network.gbps
    }

    /// Bytes of one task as it is sent to a node.
    pub fn task_bytes(&self) -> f64 {
        self.costs.plan_bytes + f64::from(self.shards) * self.costs.plan_bytes_per_shard
    }
}
