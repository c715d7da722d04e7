//! The process of an executor: a node that holds shards, and Ballista's executor around it.

use crate::codec::PlanCodec;
use crate::error::{ClusterError, While};
use crate::functions::registry_of;
use crate::http::RegistryClient;
use crate::local::OnNode;
use crate::map::{Report, VERSION, executor_id};
use crate::node::{Node, ShardHome};
use crate::scheduler::LARGEST_MESSAGE;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tierloom_memory::{MemoryBackend, PageSize, Placement};
use tierloom_topology::Topology;

/// Time between two reports of a node.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// Seconds between two signs of life for Ballista. After five without an answer its executor ends
/// itself.
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
    /// Address at which it listens.
    pub listen: IpAddr,
    /// The name under which others reach it; `None` for the address.
    pub external_host: Option<String>,
    /// Threads of its operators.
    pub threads: usize,
    /// Folder for what is passed on between stages; a temporary one if `None`.
    pub work_dir: Option<PathBuf>,
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
/// [`ClusterError::Failed`] if it does not answer (for ten seconds, later on).
pub fn run_executor(
    options: ExecutorOptions,
    ready: impl FnOnce(),
    asked_to_stop: &dyn Fn() -> bool,
) -> Result<(), ClusterError> {
    let registry = RegistryClient::new(&options.scheduler)?;
    let home = ShardHome {
        topology: options.topology.clone(),
        backend: Arc::clone(&options.backend),
        page_size: options.page_size,
        placement: options.placement.clone(),
    };
    let node = Arc::new(Node::new(&options.name, options.threads, home)?);
    let reporter = Reporter {
        node: Arc::clone(&node),
        registry: registry.clone(),
        process: process_number(),
        loading: Arc::new(AtomicBool::new(false)),
    };
    reporter.first()?;
    let folder = match &options.work_dir {
        Some(_) => None,
        None => Some(tempfile::tempdir().attempting("making a folder for results")?),
    };
    let work_dir = options.work_dir.clone();
    let work_dir = work_dir.or_else(|| folder.as_ref().map(|f| f.path().to_owned()));
    let id = executor_id(&options.name, reporter.process);
    let config = process(&options, id, &node, &registry, work_dir)?;
    let stopped = reporter.start();
    ready();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("tierloom-executor")
        .build()
        .attempting("starting threads")?;
    let ended = runtime.block_on(start_executor_process(Arc::new(config)));
    stopped.store(true, Ordering::Relaxed);
    runtime.shutdown_background();
    ended.map_err(|e| ClusterError::Failed(format!("the executor ended: {e}")))?;
    match asked_to_stop() {
        true => Ok(()),
        // Ballista's executor ends itself in order then.
        false => Err(ClusterError::Failed(format!(
            "the scheduler at {} did not answer for some seconds; the executor has ended",
            options.scheduler
        ))),
    }
}

/// A number that tells this process from others with its node's name.
fn process_number() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |time| time.as_nanos() as u64);
    now ^ u64::from(std::process::id())
}

/// Ballista's options.
fn process(
    options: &ExecutorOptions,
    executor_id: String,
    node: &Arc<Node>,
    registry: &RegistryClient,
    work_dir: Option<PathBuf>,
) -> Result<ExecutorProcessConfig, ClusterError> {
    let (scheduler_host, scheduler_port) = registry.host_and_port();
    let [port, grpc_port] = free_ports(options.listen)?;
    let host = options.external_host.clone();
    if let Some(folder) = &work_dir {
        let made = std::fs::create_dir_all(folder);
        made.attempting(format!("making {}", folder.display()))?;
    }
    Ok(ExecutorProcessConfig {
        executor_id,
        bind_host: options.listen.to_string(),
        external_host: Some(host.unwrap_or_else(|| options.listen.to_string())),
        port,
        grpc_port,
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: SCHEDULER_WAIT_S,
        vcores: TASKS,
        work_dir: work_dir.map(|folder| folder.display().to_string()),
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
    let listen = || TcpListener::bind((address, 0)).attempting(format!("listening on {address}"));
    // Both at the same time, or it may be the same port twice.
    let (first, second) = (listen()?, listen()?);
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    let ports = [port(&first), port(&second)];
    let [first, second] = ports.map(|port| port.attempting("listening"));
    Ok([first?, second?])
}

/// Tells the scheduler what the node holds, and loads what it should hold.
struct Reporter {
    node: Arc<Node>,
    registry: RegistryClient,
    process: u64,
    loading: Arc<AtomicBool>,
}

impl Reporter {
    fn report(&self) -> Report {
        Report {
            version: VERSION.into(),
            node: self.node.name().into(),
            process: self.process,
            threads: self.node.threads(),
            tables: self.node.held(),
        }
    }

    /// The first report; waits for the scheduler, and for an earlier process of this name to be
    /// forgotten.
    fn first(&self) -> Result<(), ClusterError> {
        let start = Instant::now();
        let patience = Duration::from_secs(SCHEDULER_WAIT_S.into());
        loop {
            match self.registry.report(&self.report()) {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > patience => return Err(error),
                Err(ClusterError::Input(text)) if !text.contains("another executor is named") => {
                    return Err(ClusterError::Input(text));
                }
                Err(_) => std::thread::sleep(REPORT_INTERVAL),
            }
        }
    }

    /// Reports from a thread until the flag that it returns is set.
    fn start(self) -> Arc<AtomicBool> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // A scheduler that does not answer may come back.
                if let Ok(map) = self.registry.report(&self.report()) {
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
