//! The process of an executor: a node that holds shards, and Ballista's executor around it.

use crate::access::{Access, Guard};
use crate::codec::PlanCodec;
use crate::connections::Connections;
use crate::direct::NodeLinks;
use crate::error::{ClusterError, While};
use crate::functions::registry_of;
use crate::http::RegistryClient;
use crate::local::OnNode;
use crate::map::{Report, VERSION, executor_id, process_number};
use crate::node::{Node, ShardHome};
use crate::node_service::node_service;
use crate::shuffle::{Audited, ShuffleAudit, ShuffleFolder, ShufflePlace};
use crate::streams::with_worker;
use crate::wire::LARGEST_MESSAGE;
use ballista_executor::execution_engine::DefaultExecutionEngine;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::executor_server::TERMINATING;
use log::warn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tierloom_agent::Watched;
use tierloom_memory::{MemoryBackend, PageSize, Placement};
use tierloom_topology::Topology;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Time between two reports of a node.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// Time between two looks whether it should stop.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Seconds between two signs of life for Ballista. After five without an answer its executor ends
/// itself; so it does when the scheduler has missed them and says so.
const HEARTBEAT_S: u64 = 2;

/// Tasks that an executor runs at the same time; their operators share its threads.
const TASKS: usize = 8;

/// How long an executor waits for its scheduler when it starts, seconds.
const SCHEDULER_WAIT_S: u16 = 10;

/// What an executor is started with.
pub struct ExecutorOptions {
    /// URL of the scheduler.
    pub scheduler: String,
    /// The node's name; each executor of a cluster has its own.
    pub name: String,
    /// What it shows to the scheduler.
    pub access: Access,
    /// What it asks of its callers; it needs one if the scheduler has one. Then clients alone give
    /// it work.
    pub guard: Option<Guard>,
    /// Address at which it listens.
    pub listen: IpAddr,
    /// The name under which others reach it; `None` for the address.
    pub external_host: Option<String>,
    /// Threads of its operators.
    pub threads: usize,
    /// Where it writes what is passed on between tasks. With a guard nothing is, and it must be
    /// [`ShufflePlace::Temporary`].
    pub shuffle: ShufflePlace,
    /// The machine.
    pub topology: Topology,
    /// Gives memory for shards.
    pub backend: Arc<dyn MemoryBackend>,
    /// Page size of their columns.
    pub page_size: PageSize,
    /// Where on the machine the shards are.
    pub placement: Placement,
}

/// Runs an executor until a signal ends it; `ready` is called when the scheduler knows it, and
/// `asked_to_stop` tells whether there was a signal.
///
/// # Errors
/// [`ClusterError::Input`] for a URL that is none and if the scheduler refuses this node,
/// [`ClusterError::Failed`] if it does not answer for ten seconds at the start. Later on the node
/// keeps its shards and waits for the scheduler.
pub fn run_executor(
    options: ExecutorOptions,
    ready: impl FnOnce(),
    asked_to_stop: &dyn Fn() -> bool,
) -> Result<(), ClusterError> {
    let registry = RegistryClient::new(&options.scheduler, &options.access)?;
    check_guard(&options)?;
    // First, since a folder in memory is seen by threads that are started later alone.
    let shuffle = match &options.guard {
        None => Some(ShuffleFiles::make(&options)?),
        Some(_) => None,
    };
    let home = ShardHome {
        topology: options.topology.clone(),
        backend: Arc::clone(&options.backend),
        page_size: options.page_size,
        placement: options.placement.clone(),
    };
    let node = Arc::new(Node::new(&options.name, options.threads, home)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("tierloom-executor")
        .build()
        .attempting("starting threads")?;
    let loading = Arc::new(AtomicBool::new(false));
    let mut ready = Some(ready);
    loop {
        // Who was given up once is not taken back, so the node comes as another process, with the
        // shards that it has.
        let process = process_number();
        let id = executor_id(&options.name, process);
        let (address, service) = runtime.block_on(answer(&options, &node, &id))?;
        let reporter = Reporter {
            node: Arc::clone(&node),
            registry: registry.clone(),
            process,
            address,
            loading: Arc::clone(&loading),
            audit: shuffle.as_ref().map(|files| Arc::clone(&files.audit)),
        };
        let is_first = ready.is_some();
        if !reporter.first(is_first, asked_to_stop)? {
            return Ok(());
        }
        let Some(shuffle) = &shuffle else {
            if let Some(ready) = ready.take() {
                ready();
            }
            return reporter.until_stopped(asked_to_stop);
        };
        let config = ballista(&options, id, &node, &registry, shuffle)?;
        // Ballista expects one executor in the life of a process, and notes here that it has ended.
        TERMINATING.store(false, Ordering::Release);
        let stopped = reporter.start();
        if let Some(ready) = ready.take() {
            ready();
        }
        let ended = runtime.block_on(start_executor_process(Arc::new(config)));
        stopped.store(true, Ordering::Relaxed);
        service.abort();
        let ended = ended.map_err(|e| ClusterError::Failed(format!("the executor ended: {e}")));
        // It ends itself in order when the scheduler has not answered for some seconds, or has not
        // heard of it.
        let was_given_up = !asked_to_stop() && (ended.is_ok() || !is_first);
        if !was_given_up {
            runtime.shutdown_background();
            return ended;
        }
        if let Err(error) = ended {
            warn!("{error}");
        }
        warn!(
            "the scheduler at {} has given up this executor, or does not answer; it tries again",
            options.scheduler
        );
    }
}

/// The folder of what is passed on, and what is known of the files in it.
struct ShuffleFiles {
    folder: ShuffleFolder,
    audit: Arc<ShuffleAudit>,
}

impl ShuffleFiles {
    fn make(options: &ExecutorOptions) -> Result<Self, ClusterError> {
        let folder = ShuffleFolder::make(&options.shuffle)?;
        let audit = ShuffleAudit::start(&options.name, folder.path())?;
        Ok(ShuffleFiles { folder, audit })
    }
}

/// Starts to answer clients that ask for node plans; returns the host and port where it does, and
/// what does it.
async fn answer(
    options: &ExecutorOptions,
    node: &Arc<Node>,
    id: &str,
) -> Result<(String, AbortHandle), ClusterError> {
    let access = options.access.clone();
    let links = Arc::new(NodeLinks::new(access, Handle::current(), Watched::Always));
    let service = node_service(Arc::clone(node), id);
    let service = with_worker(Routes::new(service), Arc::clone(node), links);
    let (port, service) = match &options.guard {
        Some(guard) => {
            let listen = (options.listen, 0).into();
            let server = guard.listen(listen).await?;
            let port = server.address().port();
            let serving = tokio::spawn(server.serve(service));
            (port, serving.abort_handle())
        }
        None => {
            let listening = TcpListener::bind((options.listen, 0)).await;
            let listener = listening.attempting(format!("listening on {}", options.listen))?;
            let port = listener.local_addr().attempting("listening")?.port();
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = Server::builder().add_routes(service);
            let serving = tokio::spawn(server.serve_with_incoming(incoming));
            (port, serving.abort_handle())
        }
    };
    let host = host(options);
    // Addresses of version 6 have brackets in front of a port.
    let address = match host.parse() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        _ => format!("{host}:{port}"),
    };
    Ok((address, service))
}

/// Checks that an executor asks of its callers what its scheduler asks.
///
/// # Errors
/// [`ClusterError::Input`] that says what is missing or too much.
fn check_guard(options: &ExecutorOptions) -> Result<(), ClusterError> {
    let tls = options
        .guard
        .as_ref()
        .is_some_and(|guard| guard.tls.is_some());
    let https = options.scheduler.starts_with("https://");
    let wrong = match (https, tls) {
        (true, false) => "an executor of a scheduler with https needs --tls-cert and --tls-key",
        (false, true) => "with --tls-cert, expected the URL of a scheduler as https://HOST:PORT",
        _ if options.guard.is_some() && options.shuffle != ShufflePlace::Temporary => {
            "with a token an executor passes nothing on in files; leave out --work-dir and --shuffle"
        }
        _ if options.access.token.is_some() != options.guard.is_some() => {
            "a token is for both, the scheduler and those who ask the executor"
        }
        _ => return Ok(()),
    };
    Err(ClusterError::input(format!(
        "{}: {wrong}",
        options.scheduler
    )))
}

/// The name under which others reach the executor.
fn host(options: &ExecutorOptions) -> String {
    let host = options.external_host.clone();
    host.unwrap_or_else(|| options.listen.to_string())
}

/// Ballista's options.
fn ballista(
    options: &ExecutorOptions,
    executor_id: String,
    node: &Arc<Node>,
    registry: &RegistryClient,
    shuffle: &ShuffleFiles,
) -> Result<ExecutorProcessConfig, ClusterError> {
    let (scheduler_host, scheduler_port) = registry.host_and_port();
    let [port, grpc_port] = free_ports(options.listen)?;
    let engine = DefaultExecutionEngine::with_client_pool(Arc::new(Connections::default()));
    let engine = Audited {
        engine: Arc::new(engine),
        audit: Arc::clone(&shuffle.audit),
    };
    Ok(ExecutorProcessConfig {
        executor_id,
        bind_host: options.listen.to_string(),
        external_host: Some(host(options)),
        port,
        grpc_port,
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: SCHEDULER_WAIT_S,
        vcores: TASKS,
        work_dir: Some(shuffle.folder.path().display().to_string()),
        override_execution_engine: Some(Arc::new(engine)),
        grpc_max_decoding_message_size: LARGEST_MESSAGE,
        grpc_max_encoding_message_size: LARGEST_MESSAGE,
        executor_heartbeat_interval_seconds: HEARTBEAT_S,
        // Without a limit of its own: slices of regions would count in full.
        memory_pool_size: Some(0),
        job_data_ttl_seconds: 3600,
        job_data_clean_up_interval_seconds: 600,
        override_function_registry: Some(Arc::new(registry_of(node.engine()))),
        override_physical_codec: Some(Arc::new(PlanCodec::new(Arc::new(OnNode(Arc::clone(node)))))),
        ..ExecutorProcessConfig::default()
    })
}

/// Two ports that nobody listens on.
fn free_ports(address: IpAddr) -> Result<[u16; 2], ClusterError> {
    let listen =
        || std::net::TcpListener::bind((address, 0)).attempting(format!("listening on {address}"));
    // Both at the same time, or it may be the same port twice.
    let (first, second) = (listen()?, listen()?);
    let port =
        |listener: &std::net::TcpListener| listener.local_addr().map(|address| address.port());
    let ports = [port(&first), port(&second)];
    let [first, second] = ports.map(|port| port.attempting("listening"));
    Ok([first?, second?])
}

/// Whether a report was refused because another process has the name of the node.
fn is_taken(refusal: &str) -> bool {
    refusal.contains("another executor is named")
}

/// Tells the scheduler what the node holds, and loads what it should hold.
struct Reporter {
    node: Arc<Node>,
    registry: RegistryClient,
    process: u64,
    /// Where it answers clients.
    address: String,
    loading: Arc<AtomicBool>,
    /// Knows what is passed on.
    audit: Option<Arc<ShuffleAudit>>,
}

impl Reporter {
    fn report(&self) -> Report {
        Report {
            version: VERSION.into(),
            node: self.node.name().into(),
            process: self.process,
            threads: self.node.threads(),
            address: self.address.clone(),
            tables: self.node.held(),
            shuffle: self.audit.as_ref().map(|audit| audit.report()),
        }
    }

    /// The first report; waits for the scheduler, and for an earlier process of this name to be
    /// forgotten. `false` if it was asked to stop.
    ///
    /// # Errors
    /// [`ClusterError::Input`] if the scheduler refuses this node, [`ClusterError::Failed`] if it
    /// does not answer for [`SCHEDULER_WAIT_S`] and the node has just been started (`is_new`). One
    /// that has shards keeps them, and waits on.
    fn first(&self, is_new: bool, asked_to_stop: &dyn Fn() -> bool) -> Result<bool, ClusterError> {
        let start = Instant::now();
        let patience = Duration::from_secs(SCHEDULER_WAIT_S.into());
        let mut refused: Option<Instant> = None;
        while !asked_to_stop() {
            match self.registry.report(&self.report()) {
                Ok(_) => return Ok(true),
                Err(ClusterError::Input(text)) => {
                    let since = *refused.get_or_insert_with(Instant::now);
                    if !is_taken(&text) || since.elapsed() > patience {
                        return Err(ClusterError::Input(text));
                    }
                }
                Err(error) if is_new && start.elapsed() > patience => return Err(error),
                Err(_) => refused = None,
            }
            std::thread::sleep(REPORT_INTERVAL);
        }
        Ok(false)
    }

    /// Reports until `asked_to_stop` says so. While the scheduler does not answer, the node keeps
    /// its shards and tries again.
    ///
    /// # Errors
    /// [`ClusterError::Input`] if the scheduler refuses this node, as when another one has taken
    /// its name meanwhile.
    fn until_stopped(self, asked_to_stop: &dyn Fn() -> bool) -> Result<(), ClusterError> {
        let mut reported: Option<Instant> = None;
        while !asked_to_stop() {
            std::thread::sleep(STOP_INTERVAL);
            if reported.is_some_and(|at| at.elapsed() < REPORT_INTERVAL) {
                continue;
            }
            match self.registry.report(&self.report()) {
                Ok(map) => self.load(map.tables),
                Err(error @ ClusterError::Input(_)) => return Err(error),
                Err(error) => warn!("{error}"),
            }
            reported = Some(Instant::now());
        }
        Ok(())
    }

    /// Reports from a thread until the flag that it returns is set.
    fn start(self) -> Arc<AtomicBool> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // A scheduler that does not answer may come back.
                if let Ok(map) = self.registry.report(&self.report()) {
                    if let Some(audit) = &self.audit {
                        audit.remove(&map.failed_jobs);
                    }
                    self.load(map.tables);
                }
                std::thread::sleep(REPORT_INTERVAL);
            }
        });
        stop
    }

    /// Starts loading what is missing, if that is not going on already.
    fn load(&self, wanted: std::collections::BTreeMap<String, crate::map::TableEntry>) {
        if self.loading.swap(true, Ordering::AcqRel) {
            return;
        }
        let missing = self.node.to_load(&wanted);
        let (node, loading) = (Arc::clone(&self.node), Arc::clone(&self.loading));
        let work = move || {
            for name in missing {
                if let Some(entry) = wanted.get(&name) {
                    node.load(&name, entry);
                }
            }
            loading.store(false, Ordering::Release);
        };
        // Reports go on meanwhile.
        std::thread::spawn(work);
    }
}
