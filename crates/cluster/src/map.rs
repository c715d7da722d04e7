//! What the scheduler tells about tables, shards and nodes, and what nodes report: plain data that
//! travels as JSON.

use crate::source::RowSource;
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What all processes of a cluster must have in common: the version of this program and of the
/// messages. Requests with another one are refused.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/4");

/// For each shard the nodes that hold it, the preferred one first.
pub type Holders = Vec<Vec<String>>;

/// Where the rows of a table are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Every node has all rows.
    Everywhere,
    /// Rows are in the shard that the hash of a column says.
    Sharded {
        /// The column.
        by: String,
        /// Who holds each shard.
        holders: Holders,
    },
}

impl Layout {
    /// The shards of `node` in groups with the same holders; one empty group for a table that is
    /// everywhere.
    ///
    /// A node stores each group as one table, and a task reads one group.
    pub fn groups_of(&self, node: &str) -> Vec<BTreeSet<u32>> {
        let Layout::Sharded { holders, .. } = self else {
            return vec![BTreeSet::new()];
        };
        let mut groups: BTreeMap<&[String], BTreeSet<u32>> = BTreeMap::new();
        for (shard, nodes) in holders.iter().enumerate() {
            if nodes.iter().any(|holder| holder == node) {
                groups.entry(nodes).or_default().insert(shard as u32);
            }
        }
        groups.into_values().collect()
    }
}

/// A table of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Number of the load that made it; a later load of the same name has a larger one.
    pub generation: u64,
    /// Where its rows come from.
    pub source: RowSource,
    /// Where its rows are.
    pub layout: Layout,
}

/// What a node holds of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HeldTable {
    /// Of the load that its rows are from.
    pub generation: u64,
    /// The columns, see [`HeldTable::schema`].
    pub columns: Vec<u8>,
    /// Rows of each shard; the whole table is shard 0 if it is everywhere.
    pub rows: BTreeMap<u32, u64>,
    /// Bytes of the columns in memory.
    pub size_bytes: u64,
    /// Where their pages are, as text.
    pub pages: String,
    /// Why it holds nothing.
    pub error: Option<String>,
}

impl HeldTable {
    /// The columns as bytes, to be sent.
    pub fn columns_of(schema: &Schema) -> Vec<u8> {
        let mut bytes = Vec::new();
        let writer = arrow::ipc::writer::StreamWriter::try_new(&mut bytes, schema);
        // Writing a schema to memory does not fail; a reader would refuse the empty bytes.
        if let Ok(mut writer) = writer {
            let _ = writer.finish();
        }
        bytes
    }

    /// The columns.
    ///
    /// # Errors
    /// Arrow's, for bytes that are no schema.
    pub fn schema(&self) -> Result<SchemaRef, arrow::error::ArrowError> {
        schema_of(&self.columns)
    }
}

/// The schema that [`HeldTable::columns_of`] has written.
///
/// # Errors
/// Arrow's, for bytes that are no schema.
pub fn schema_of(bytes: &[u8]) -> Result<SchemaRef, arrow::error::ArrowError> {
    Ok(arrow::ipc::reader::StreamReader::try_new(bytes, None)?.schema())
}

/// Where a node writes the rows that tasks pass on, and what it has written since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShuffleReport {
    /// The file system of its files, with the memory policy if it has one: "tmpfs (bind:1)".
    pub file_system: String,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Of these, bytes of files in memory of which the kernel was asked where their pages are, all
    /// of them or a sample.
    pub checked_bytes: u64,
    /// Of these, bytes on each memory node of the machine.
    pub on_nodes: BTreeMap<u32, u64>,
    /// Of these, bytes on other nodes than the policy of the file system says.
    pub misplaced_bytes: u64,
    /// Why the kernel did not tell of a file.
    pub error: Option<String>,
}

/// What a node reports, about twice per second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// See [`VERSION`].
    pub version: String,
    /// The node's name.
    pub node: String,
    /// Number of the process; two processes may not use one name at a time.
    pub process: u64,
    /// Threads that run its operators.
    pub threads: usize,
    /// Host and port where it answers node plans; empty from a process of an earlier version, which
    /// is refused for that version.
    #[serde(default)]
    pub address: String,
    /// What it holds, by table.
    pub tables: BTreeMap<String, HeldTable>,
    /// What it passes on; `None` if it gives out rows in no other way than to clients.
    #[serde(default)]
    pub shuffle: Option<ShuffleReport>,
}

impl Report {
    /// Whether a statement would run alike after this report and after that one.
    pub fn is_like(&self, other: &Report) -> bool {
        let Report {
            version,
            node,
            process,
            threads,
            address,
            tables,
            // It changes with every statement.
            shuffle: _,
        } = self;
        (version, node, process) == (&other.version, &other.node, &other.process)
            && (threads, address, tables) == (&other.threads, &other.address, &other.tables)
    }
}

/// What the scheduler knows of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Whether it has reported within the last seconds.
    pub alive: bool,
    /// Milliseconds since it has reported last.
    pub silent_ms: u64,
    /// Number of the process: another one follows if the node starts again.
    pub process: u64,
    /// Threads that run its operators.
    pub threads: usize,
    /// Host and port where it answers node plans.
    pub address: String,
    /// What it holds, by table.
    pub tables: BTreeMap<String, HeldTable>,
    /// What it passes on between tasks.
    pub shuffle: Option<ShuffleReport>,
}

/// A number that tells this process from others.
pub fn process_number() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |time| time.as_nanos() as u64);
    now ^ u64::from(std::process::id())
}

/// The name of a node's process for Ballista. A process that follows another one on a node has
/// another name: tasks of the first one are lost, however soon the next one comes.
pub fn executor_id(node: &str, process: u64) -> String {
    format!("{node}~{process}")
}

/// All tables and nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClusterMap {
    /// Increases with every change of the tables.
    pub generation: u64,
    /// By name.
    pub tables: BTreeMap<String, TableEntry>,
    /// By name.
    pub nodes: BTreeMap<String, NodeState>,
    /// Jobs of the scheduler that have failed or were cancelled within the last minute: nobody will
    /// read what their tasks have passed on.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub failed_jobs: BTreeSet<String>,
}

impl ClusterMap {
    /// What live nodes hold of this load of a table.
    fn holding<'a>(
        &'a self,
        table: &'a str,
        generation: u64,
    ) -> impl Iterator<Item = (&'a String, &'a HeldTable)> {
        let alive = self.nodes.iter().filter(|(_, state)| state.alive);
        alive.filter_map(move |(name, state)| {
            let held = state.tables.get(table)?;
            (held.generation == generation && held.error.is_none()).then_some((name, held))
        })
    }

    /// The process of a node for Ballista; `None` for a node that has never reported.
    pub fn executor_of(&self, node: &str) -> Option<String> {
        let state = self.nodes.get(node)?;
        Some(executor_id(node, state.process))
    }

    /// The live nodes that hold all shards of `shards` of this load; all shards if it is empty.
    pub fn holders_of(&self, table: &str, generation: u64, shards: &BTreeSet<u32>) -> Vec<String> {
        let all = self.holding(table, generation);
        let fitting = all.filter(|(_, held)| shards.iter().all(|s| held.rows.contains_key(s)));
        fitting.map(|(name, _)| name.clone()).collect()
    }

    /// The columns of a table, of which all holders must have the same, and its number of rows.
    ///
    /// # Errors
    /// One text that names the table, and the shard or node at fault: a shard that no live node
    /// holds, nodes with different columns or numbers of rows.
    pub fn usable(&self, name: &str) -> Result<(SchemaRef, u64), String> {
        let Some(entry) = self.tables.get(name) else {
            return Err(format!("there is no table {name}"));
        };
        let mut columns: Option<(&String, &HeldTable)> = None;
        let mut rows: BTreeMap<u32, (u64, &String)> = BTreeMap::new();
        for (node, held) in self.holding(name, entry.generation) {
            let (first, other) = *columns.get_or_insert((node, held));
            if other.columns != held.columns {
                return Err(format!(
                    "table {name} has other columns on {node} than on {first}"
                ));
            }
            for (&shard, &count) in &held.rows {
                let (before, first) = *rows.entry(shard).or_insert((count, node));
                if before != count {
                    return Err(format!(
                        "shard {shard} of {name} has {count} rows on {node} and {before} on {first}"
                    ));
                }
            }
        }
        let shards = match &entry.layout {
            Layout::Everywhere => 0..1,
            Layout::Sharded { holders, .. } => 0..holders.len() as u32,
        };
        if let Some(lost) = shards.clone().find(|shard| !rows.contains_key(shard)) {
            return Err(self.lost(name, entry, lost));
        }
        let schema = columns.map(|(_, held)| held.schema());
        let schema = schema.and_then(Result::ok);
        let schema = schema.ok_or_else(|| format!("table {name} has no columns"))?;
        Ok((schema, rows.values().map(|(count, _)| count).sum()))
    }

    /// Why a shard cannot be read.
    fn lost(&self, name: &str, entry: &TableEntry, shard: u32) -> String {
        let Layout::Sharded { holders, .. } = &entry.layout else {
            let failed = self.nodes.iter().find_map(|(node, state)| {
                let error = state.tables.get(name)?.error.as_ref()?;
                Some(format!("node {node} could not load table {name}: {error}"))
            });
            return failed.unwrap_or_else(|| format!("no live node holds table {name}"));
        };
        let nodes = holders.get(shard as usize).cloned().unwrap_or_default();
        let states = nodes.iter().map(|node| match self.nodes.get(node) {
            Some(state) if state.alive => match state.tables.get(name).map(|held| &held.error) {
                Some(Some(error)) => format!("{node} (could not load it: {error})"),
                _ => format!("{node} (is still loading)"),
            },
            _ => format!("{node} (does not answer)"),
        });
        let states: Vec<String> = states.collect();
        format!(
            "shard {shard} of {name} cannot be read: it is on {}",
            states.join(" and ")
        )
    }
}

/// One table to be loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRequest {
    /// Its name in SQL.
    pub name: String,
    /// Where its rows come from.
    pub source: RowSource,
    /// The column whose hash says a row's shard; `None` for a table that is everywhere.
    pub by: Option<String>,
    /// Number of shards.
    pub shards: u32,
    /// Number of nodes that hold each shard.
    pub replicas: u32,
}

/// Tables to be loaded together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRequest {
    /// See [`VERSION`].
    pub version: String,
    /// The tables; those of the same name are replaced.
    pub tables: Vec<TableRequest>,
}

/// Which nodes hold each of `shards` shards.
///
/// Neighbouring shards have the same holders, so that a node has few groups of them.
///
/// # Errors
/// No node, no shard, or more replicas than nodes.
pub fn assign(nodes: &[String], shards: u32, replicas: u32) -> Result<Holders, String> {
    if nodes.is_empty() {
        return Err("no executor has reported yet; start one first".into());
    }
    if shards == 0 || replicas == 0 {
        return Err("expected at least one shard and one replica".into());
    }
    if replicas as usize > nodes.len() {
        return Err(format!(
            "{replicas} replicas need {replicas} executors, and there are {}",
            nodes.len()
        ));
    }
    let holders = (0..shards as usize).map(|shard| {
        let first = shard * nodes.len() / shards as usize;
        let all = (0..replicas as usize).map(|copy| nodes[(first + copy) % nodes.len()].clone());
        all.collect()
    });
    Ok(holders.collect())
}
