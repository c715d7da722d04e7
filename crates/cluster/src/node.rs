//! What a node holds: the tables of its shards in placed memory, and the engine that plans on them.

use crate::error::{ClusterError, While};
use crate::kept::KeptPlans;
use crate::map::{HeldTable, Layout, TableEntry};
use crate::shard::Sharding;
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::physical_plan::ExecutionPlan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use tierloom_engine::load::{ColumnPlacer, LoadOptions, load_batches, merged_audit};
use tierloom_engine::{Engine, EngineError, EngineOptions, PlacedTable};
use tierloom_memory::{AuditMode, MemoryBackend, PageSize, Placement};
use tierloom_topology::Topology;
use tierloom_workloads::Silent;

/// Where the columns of a node's shards go.
pub(crate) struct ShardHome {
    /// The machine.
    pub topology: Topology,
    /// Gives memory.
    pub backend: Arc<dyn MemoryBackend>,
    /// Page size of columns.
    pub page_size: PageSize,
    /// Which nodes of the machine it is on.
    pub placement: Placement,
}

/// One process that holds shards.
pub(crate) struct Node {
    name: String,
    threads: usize,
    engine: Engine,
    home: ShardHome,
    tables: RwLock<BTreeMap<String, Arc<Holding>>>,
    /// The operators of node plans, until tables change. They need fresh state for each run.
    pub plans: KeptPlans<PlanKey, Arc<dyn ExecutionPlan>>,
}

/// A node plan as it was sent, and the shards that it is to read. It names the loads of its tables,
/// so that its operators are the same each time.
pub(crate) type PlanKey = (Arc<Vec<u8>>, BTreeSet<u32>);

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish()
    }
}

/// What is held of one load of a table.
struct Holding {
    /// By the shards of a group, see [`Layout::groups_of`].
    groups: BTreeMap<BTreeSet<u32>, Arc<PlacedTable>>,
    held: HeldTable,
}

impl Node {
    /// A node without tables.
    ///
    /// # Errors
    /// The engine's, if its threads cannot be started.
    pub fn new(name: &str, threads: usize, home: ShardHome) -> Result<Self, ClusterError> {
        let engine = Engine::new(EngineOptions {
            routing: None,
            ..EngineOptions::tuned(threads)
        });
        Ok(Node {
            name: name.into(),
            threads,
            engine: engine.attempting("starting the engine")?,
            home,
            tables: RwLock::default(),
            plans: KeptPlans::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Threads of its operators.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The engine that plans on its tables.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn holding(&self, table: &str) -> Option<Arc<Holding>> {
        // Tables are replaced as a whole, so a panic elsewhere leaves them consistent.
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(table).cloned()
    }

    /// The rows of a group of shards of a load; no shards for a table that is everywhere.
    ///
    /// # Errors
    /// One text that names table, shard and node: the node holds another load of the table, not all
    /// of these shards, or only as part of other groups.
    pub fn group(
        &self,
        table: &str,
        generation: u64,
        shards: &BTreeSet<u32>,
    ) -> DataFusionResult<Arc<PlacedTable>> {
        let failed = |text: String| Err(DataFusionError::Execution(text));
        let what = match shards.first() {
            Some(shard) => format!("shard {shard} of {table}"),
            None => format!("table {table}"),
        };
        let Some(holding) = self.holding(table) else {
            return failed(format!("{what} is not on node {}", self.name));
        };
        if let Some(error) = &holding.held.error {
            return failed(format!(
                "{what} is not on node {}, which could not load it: {error}",
                self.name
            ));
        }
        if holding.held.generation != generation {
            return failed(format!(
                "{what} is on node {} from another load than the statement was planned for; try \
                 again",
                self.name
            ));
        }
        if let Some(missing) = shards.iter().find(|s| !holding.held.rows.contains_key(s)) {
            return failed(format!(
                "shard {missing} of {table} is not on node {}, and no other node that holds it \
                 answers",
                self.name
            ));
        }
        match holding.groups.get(shards) {
            Some(table) => Ok(Arc::clone(table)),
            None => failed(format!(
                "the shards {shards:?} of {table} are no group of node {}",
                self.name
            )),
        }
    }

    /// What it holds of each table.
    pub fn held(&self) -> BTreeMap<String, HeldTable> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let held = tables.iter();
        held.map(|(name, holding)| (name.clone(), holding.held.clone()))
            .collect()
    }

    /// Forgets tables that are not in `wanted`; returns the names of those that have to be loaded.
    pub fn to_load(&self, wanted: &BTreeMap<String, TableEntry>) -> Vec<String> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let before = tables.len();
        tables.retain(|name, _| wanted.contains_key(name));
        if tables.len() < before {
            // They would keep the tables' memory.
            self.plans.clear();
        }
        let missing = wanted.iter().filter(|(name, entry)| {
            let held = tables.get(*name);
            held.is_none_or(|h| h.held.generation != entry.generation)
        });
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// Loads the node's part of a table; a failure is kept as what it reports of the table.
    pub fn load(&self, name: &str, entry: &TableEntry) {
        let holding = self.loaded(name, entry).unwrap_or_else(|error| Holding {
            groups: BTreeMap::new(),
            held: HeldTable {
                generation: entry.generation,
                error: Some(error.to_string()),
                ..HeldTable::default()
            },
        });
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.insert(name.into(), Arc::new(holding));
        self.plans.clear();
    }

    fn loaded(&self, name: &str, entry: &TableEntry) -> Result<Holding, ClusterError> {
        let mut placer = ColumnPlacer::new(
            Arc::clone(&self.home.backend),
            &self.home.topology,
            self.home.page_size,
            self.threads,
        );
        let mut holding = Holding {
            groups: BTreeMap::new(),
            held: HeldTable {
                generation: entry.generation,
                ..HeldTable::default()
            },
        };
        let mut groups = entry.layout.groups_of(&self.name);
        if groups.is_empty() {
            // A node without shards still knows the columns: plans name them.
            groups.push(BTreeSet::new());
        }
        for group in groups {
            let table = self.group_of(name, entry, &group, &mut placer, &mut holding.held)?;
            holding.held.size_bytes += table.size_bytes();
            holding.held.columns = HeldTable::columns_of(table.schema());
            holding.groups.insert(group, Arc::new(table));
        }
        let tables: Vec<_> = holding.groups.values().cloned().collect();
        let audit = merged_audit(&tables, AuditMode::Full).attempting("looking up pages")?;
        let shares = audit.into_iter().flat_map(|audit| audit.actual);
        let shares = shares.map(|s| {
            let tier = self.home.topology.tier_of(s.node);
            let tier = tier.map_or(String::new(), |tier| format!(" ({tier})"));
            format!("node {}{tier}: {:.0}%", s.node, 100.0 * s.share)
        });
        holding.held.pages = shares.collect::<Vec<_>>().join(", ");
        Ok(holding)
    }

    /// Loads a group of shards, and adds their rows to `held`.
    fn group_of(
        &self,
        name: &str,
        entry: &TableEntry,
        group: &BTreeSet<u32>,
        placer: &mut ColumnPlacer<'_>,
        held: &mut HeldTable,
    ) -> Result<PlacedTable, ClusterError> {
        let (schema, batches) = entry.source.batches()?;
        let mut sharding = match &entry.layout {
            Layout::Everywhere => None,
            Layout::Sharded { by, holders } => Some(Sharding::new(by, holders.len() as u32, group)),
        };
        let failed = |e: &dyn std::fmt::Display| EngineError::Table {
            table: name.into(),
            problem: e.to_string(),
        };
        let kept = batches.map(|batch| {
            let batch = batch.map_err(|e| failed(&e))?;
            match &mut sharding {
                None => Ok(batch),
                Some(sharding) => sharding.keep(&batch).map_err(|e| failed(&e)),
            }
        });
        let placement_of = |_: &str| self.home.placement.clone();
        let options = LoadOptions::default();
        let table = load_batches(name, schema, kept, placer, &placement_of, &Silent, &options);
        let table = table.attempting(format!("loading {name}"))?;
        match sharding {
            None => held.rows.extend([(0, table.rows() as u64)]),
            Some(sharding) => held.rows.extend(sharding.rows),
        }
        Ok(table)
    }
}
