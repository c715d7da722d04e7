//! What all statements of a client share: threads, connections, and the engine that plans.

use crate::direct::NodeLinks;
use crate::error::{ClusterError, While};
use crate::http::RegistryClient;
use crate::map::ClusterMap;
use crate::options::{Backend, ClientOptions};
use crate::planner::{ClusterPlanner, VisibleTables};
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_agent::Watched;
use tokio::runtime::{Builder, Runtime};

/// A client's connections to a cluster.
pub(crate) struct Link {
    /// The scheduler's tables and nodes.
    pub registry: RegistryClient,
    /// A connection to the scheduler, for what cannot wait on a thread of its own.
    pub scheduler: NodeLinks,
    /// Connections to nodes.
    pub nodes: Arc<NodeLinks>,
    /// What does final plans over many rows.
    pub backend: Backend,
    /// Whether it can: Ballista's scheduler gives out no work in a cluster with a token.
    pub has_scheduling: bool,
    /// Most bytes of rows that nodes send here for a final plan.
    pub most_bytes: usize,
    /// Talks with scheduler and nodes; the engine's threads plan and run long final plans. Taken by
    /// `drop`.
    runtime: Option<Runtime>,
    /// The last one that was needed, and the map that it is for.
    planner: Mutex<Option<(Arc<ClusterMap>, Arc<ClusterPlanner>)>>,
}

impl Link {
    /// A client of the scheduler at `url` for statements one after another. Connections are served
    /// by the thread that waits for an answer, since a message that another thread reads first
    /// takes longer than most of what else a short statement needs.
    ///
    /// # Errors
    /// [`ClusterError::Input`] for a text that is no such URL or does not fit the access,
    /// [`ClusterError::Failed`] if threads cannot be started.
    pub fn for_one(url: &str, options: &ClientOptions) -> Result<Self, ClusterError> {
        Self::on(Builder::new_current_thread(), Watched::InUse, url, options)
    }

    /// A client for statements side by side, with threads that serve connections of all of them.
    ///
    /// # Errors
    /// As [`Link::for_one`].
    pub fn for_many(url: &str, options: &ClientOptions) -> Result<Self, ClusterError> {
        Self::on(Builder::new_multi_thread(), Watched::Always, url, options)
    }

    fn on(
        mut threads: Builder,
        watched: Watched,
        url: &str,
        options: &ClientOptions,
    ) -> Result<Self, ClusterError> {
        let access = &options.access;
        let registry = RegistryClient::new(url, access)?;
        let runtime = threads
            .worker_threads(2)
            .enable_all()
            // Panics on them are errors of their statements, as on those of the engine.
            .thread_name(tierloom_engine::WORKER_NAME)
            .build()
            .attempting("starting threads")?;
        let links = || NodeLinks::new(access.clone(), runtime.handle().clone(), watched);
        Ok(Link {
            registry,
            scheduler: links(),
            nodes: Arc::new(links()),
            backend: options.backend,
            has_scheduling: access.token.is_none() || options.backend == Backend::Distributed,
            most_bytes: options.direct_bytes,
            runtime: Some(runtime),
            planner: Mutex::default(),
        })
    }

    /// Does `work`, with which connections are served.
    ///
    /// # Errors
    /// [`ClusterError::Failed`] if they have ended.
    pub fn wait_for<T>(
        &self,
        work: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(ClusterError::Failed("the client has ended".into())),
        }
    }

    /// The map that was used last, and the engine with its tables.
    pub fn known(&self) -> Option<(Arc<ClusterMap>, Arc<ClusterPlanner>)> {
        let kept = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clone()
    }

    /// An engine with the tables of `map`.
    ///
    /// # Errors
    /// [`ClusterError::Failed`] if it cannot be started.
    pub fn planner(&self, map: &Arc<ClusterMap>) -> Result<Arc<ClusterPlanner>, ClusterError> {
        let mut kept = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, planner)) = kept.as_ref()
            && Arc::ptr_eq(known, map)
        {
            return Ok(Arc::clone(planner));
        }
        let tables = VisibleTables::of(map);
        let same = kept.as_ref().map(|(_, planner)| planner);
        let planner = match same.filter(|planner| planner.has(&tables)) {
            Some(planner) => Arc::clone(planner),
            None => Arc::new(ClusterPlanner::new(tables)?),
        };
        *kept = Some((Arc::clone(map), Arc::clone(&planner)));
        Ok(planner)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Connections that do not answer must not keep anybody waiting.
            runtime.shutdown_background();
        }
    }
}
