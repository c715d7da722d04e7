//! A cluster from the side of its users.

use crate::as_known::answer_as_known;
use crate::error::ClusterError;
use crate::link::Link;
use crate::map::{ClusterMap, Layout, LoadRequest, TableRequest, VERSION};
use crate::options::ClientOptions;
use crate::session::ClusterSession;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks while tables are being loaded.
const LOADING_LOOK: Duration = Duration::from_millis(200);

/// The rows of a statement.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Their columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Time from the statement's text to its last row.
    pub time: Duration,
}

/// A session on a cluster. Its connections, and what it knows of tables, are kept from one
/// statement to the next.
pub struct ClusterClient {
    link: Link,
}

impl ClusterClient {
    /// A session with the scheduler at `url`, as `http://HOST:PORT`.
    ///
    /// # Errors
    /// [`ClusterError::Input`] for a text that is no such URL, [`ClusterError::Failed`] if threads
    /// cannot be started.
    pub fn new(url: &str) -> Result<Self, ClusterError> {
        Self::with_options(url, ClientOptions::default())
    }

    /// A session with other settings; the URL may be one as `https://HOST:PORT`.
    ///
    /// # Errors
    /// Same as [`ClusterClient::new`], and [`ClusterError::Input`] for an access that does not fit
    /// the URL.
    pub fn with_options(url: &str, options: ClientOptions) -> Result<Self, ClusterError> {
        Ok(ClusterClient {
            link: Link::for_one(url, &options)?,
        })
    }

    /// All tables and nodes.
    ///
    /// # Errors
    /// [`ClusterError::Failed`] if the scheduler does not answer.
    pub fn map(&self) -> Result<ClusterMap, ClusterError> {
        self.link.registry.map().map(Arc::unwrap_or_clone)
    }

    /// Has the nodes load tables, and waits until all of them are there.
    ///
    /// # Errors
    /// [`ClusterError::Input`] for a column that is not there or too few nodes; nothing is changed
    /// then. [`ClusterError::Failed`] if a node cannot load its part, or stops answering;
    /// [`ClusterError::Interrupted`] when `stop` says so.
    pub fn load(
        &self,
        tables: Vec<TableRequest>,
        stop: &dyn Fn() -> bool,
    ) -> Result<ClusterMap, ClusterError> {
        for table in &tables {
            if let Some(by) = &table.by {
                table
                    .source
                    .column_type(by)
                    .map_err(|e| ClusterError::input(format!("table {}: {e}", table.name)))?;
            }
        }
        let names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
        let mut map = self.link.registry.load(&LoadRequest {
            version: VERSION.into(),
            tables,
        })?;
        loop {
            let missing: Vec<String> = names.iter().filter_map(|n| missing(&map, n)).collect();
            if missing.is_empty() {
                return Ok(map);
            }
            if let Some(failed) = failure(&map, &names) {
                return Err(ClusterError::Failed(failed));
            }
            if stop() {
                return Err(ClusterError::Interrupted);
            }
            std::thread::sleep(LOADING_LOOK);
            map = self.map()?;
        }
    }

    /// Runs a query.
    ///
    /// # Errors
    /// [`ClusterError::Input`] for a text that is no query on the tables of the cluster,
    /// [`ClusterError::Failed`] if it fails while it runs, [`ClusterError::Interrupted`] when
    /// `stop` says so.
    pub fn run(&self, sql: &str, stop: &(dyn Fn() -> bool + Sync)) -> Result<Answer, ClusterError> {
        let start = Instant::now();
        let (schema, batches) = match answer_as_known(&self.link, sql, stop)? {
            Some(answer) => answer,
            None => ClusterSession::new(&self.link)?.answer(sql, stop)?,
        };
        Ok(Answer {
            schema,
            batches,
            time: start.elapsed(),
        })
    }

    /// How a query would run: its node plans, who runs them and where the pages of their tables
    /// are, and its final plan. Subqueries that give one value are run for it.
    ///
    /// # Errors
    /// Same as [`ClusterClient::run`].
    pub fn explain(
        &self,
        sql: &str,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<String, ClusterError> {
        let session = ClusterSession::new(&self.link)?;
        let logical = session.planner.logical(sql)?;
        let logical = session.without_subqueries(logical, stop)?;
        let planned = session.planner.distributed(logical, stop)?;
        session.described(&planned.plan)
    }
}

/// What is still missing of a table on nodes that are alive.
fn missing(map: &ClusterMap, name: &str) -> Option<String> {
    if let Err(text) = map.usable(name) {
        return Some(text);
    }
    let entry = map.tables.get(name)?;
    let behind = map.nodes.iter().find(|(node, state)| {
        let holds = match &entry.layout {
            Layout::Everywhere => true,
            Layout::Sharded { holders, .. } => holders.iter().flatten().any(|h| h == *node),
        };
        let held = state.tables.get(name);
        state.alive && holds && held.is_none_or(|h| h.generation != entry.generation)
    });
    behind.map(|(node, _)| format!("{node} is still loading {name}"))
}

/// Why some of the tables cannot be loaded; `None` while they may.
fn failure(map: &ClusterMap, names: &[String]) -> Option<String> {
    for name in names {
        let entry = map.tables.get(name)?;
        for (node, state) in &map.nodes {
            let held = state.tables.get(name);
            let held = held.filter(|held| held.generation == entry.generation);
            if let Some(error) = held.and_then(|held| held.error.as_ref()) {
                return Some(format!("node {node} could not load table {name}: {error}"));
            }
        }
        if let Layout::Sharded { holders, .. } = &entry.layout {
            let silent = holders.iter().flatten().find(|node| {
                let state = map.nodes.get(*node);
                state.is_none_or(|state| !state.alive)
            });
            if let Some(node) = silent {
                return Some(format!("node {node} does not answer while it loads {name}"));
            }
        }
    }
    None
}
