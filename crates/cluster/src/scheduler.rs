//! The scheduler's process.

use crate::access::Guard;
use crate::awake::TICK;
use crate::codec::{Forwarded, PlanCodec};
use crate::error::{ClusterError, While};
use crate::functions::session_builder;
use crate::http::{routes, scheduling_routes};
use crate::map::process_number;
use crate::policy::ByShard;
use crate::registry::Registry;
use crate::wire::LARGEST_MESSAGE;
use ballista_core::serde::protobuf::UpdateTaskStatusParams;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_server::{SchedulerGrpc, SchedulerGrpcServer};
use ballista_scheduler::cluster::{BallistaCluster, JobStateEvent};
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::create_scheduler;
use ballista_scheduler::scheduler_server::{JobIdGenerator, SchedulerServer};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::StreamExt;
use log::warn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::Request;
use tonic::service::RoutesBuilder;

/// Seconds without a sign of life after which an executor counts as lost. More than
/// [`crate::registry::SILENCE`]: what is given out again then must not go to the lost node.
const EXECUTOR_TIMEOUT_S: u64 = 6;

/// Time between two looks whether it should stop.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Time between two looks whether tasks that wait can be given out.
const OFFER_INTERVAL: Duration = Duration::from_millis(300);

/// Looks for a job that is to be cancelled, each after this interval.
const CANCEL_LOOKS: usize = 10;

/// What a scheduler is started with.
#[derive(Debug, Clone)]
pub struct SchedulerOptions {
    /// Where it listens; port 0 for a free one.
    pub listen: SocketAddr,
    /// The name under which executors reach it; `None` for the address.
    pub external_host: Option<String>,
    /// A file that keeps the tables over restarts.
    pub tables: Option<PathBuf>,
    /// What it asks of its callers. With a guard it tells who has which tables and gives out no
    /// work: clients ask executors themselves.
    pub guard: Option<Guard>,
}

/// Runs a scheduler until `stopped` says so; `ready` gets its URL when it can be reached.
///
/// # Errors
/// [`ClusterError::Input`] for a file of tables that cannot be read, [`ClusterError::Failed`] if it
/// cannot listen.
pub fn run_scheduler(
    options: &SchedulerOptions,
    ready: impl FnOnce(&str),
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(), ClusterError> {
    let registry = Registry::open(options.tables.as_deref()).map_err(ClusterError::Input)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("tierloom-scheduler")
        .build()
        .attempting("starting threads")?;
    let registry = Arc::new(registry);
    runtime.spawn(tick(Arc::clone(&registry)));
    let done = match &options.guard {
        Some(guard) => runtime.block_on(serve_guarded(options, guard, registry, ready, stopped)),
        None => runtime.block_on(serve(options, registry, ready, stopped)),
    };
    runtime.shutdown_background();
    done
}

/// Has time go on for the nodes, by the threads that take their reports: while all of these
/// compute, none is late.
async fn tick(registry: Arc<Registry>) {
    loop {
        tokio::time::sleep(TICK).await;
        registry.tick();
    }
}

async fn serve_guarded(
    options: &SchedulerOptions,
    guard: &Guard,
    registry: Arc<Registry>,
    ready: impl FnOnce(&str),
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(), ClusterError> {
    let server = guard.listen(options.listen).await?;
    let address = server.address();
    let host = options.external_host.clone();
    let host = host.unwrap_or_else(|| address.ip().to_string());
    ready(&format!("{}://{host}:{}", guard.scheme(), address.port()));
    tokio::select! {
        ended = server.serve(routes(registry).into()) => ended.attempting("serving"),
        () = until(stopped) => Ok(()),
    }
}

async fn serve(
    options: &SchedulerOptions,
    registry: Arc<Registry>,
    ready: impl FnOnce(&str),
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(), ClusterError> {
    let listening = TcpListener::bind(options.listen).await;
    let listener = listening.attempting(format!("listening on {}", options.listen))?;
    let address = listener.local_addr().attempting("listening")?;
    let host = options.external_host.clone();
    let host = host.unwrap_or_else(|| address.ip().to_string());
    let mut config = config(&host, address, Arc::clone(&registry));
    let sessions = session_builder().attempting("starting the engine")?;
    config.override_session_builder = Some(sessions);
    let config = Arc::new(config);
    let failed = |e: ballista_core::error::BallistaError| ClusterError::Failed(e.to_string());
    let cluster = BallistaCluster::new_from_config(&config).await;
    let cluster = cluster.map_err(failed)?;
    let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, config).await;
    let largest = LARGEST_MESSAGE as usize;
    let scheduler = scheduler.map_err(failed)?;
    tokio::spawn(offer_again(scheduler.clone(), Arc::clone(&registry)));
    tokio::spawn(note_failed(scheduler.clone(), Arc::clone(&registry)));
    let of_jobs = scheduler.clone();
    let more = scheduling_routes(Arc::clone(&registry), move |job| {
        // The client does not wait for it.
        tokio::spawn(cancel(of_jobs.clone(), job));
    });
    let service = SchedulerGrpcServer::new(scheduler)
        .max_encoding_message_size(largest)
        .max_decoding_message_size(largest);
    let mut grpc = RoutesBuilder::default();
    grpc.add_service(service);
    let app = grpc
        .routes()
        .into_axum_router()
        .merge(routes(registry))
        .merge(more);
    ready(&format!("http://{host}:{}", address.port()));
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::select! {
        ended = axum::serve(listener, app).into_future() => ended.attempting("serving"),
        () = until(stopped) => Ok(()),
    }
}

/// Has nodes know of jobs that failed or were cancelled.
async fn note_failed(
    scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
    registry: Arc<Registry>,
) {
    let mut events = match scheduler.job_state_events().await {
        Ok(events) => events,
        Err(error) => return warn!("jobs that fail will not be noted: {error}"),
    };
    while let Some(event) = events.next().await {
        if let JobStateEvent::JobUpdated { job_id, status } = event
            && let Some(Status::Failed(_)) = status.status
        {
            registry.job_failed(job_id.to_string());
        }
    }
}

/// Ends the job of this name, also one that is to begin within a moment.
async fn cancel(scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>, name: String) {
    // It may be on its way to the jobs that run.
    for _ in 0..CANCEL_LOOKS {
        let jobs = scheduler.state.task_manager.get_running_job_cache();
        for (job, known) in jobs.iter() {
            if known.execution_graph.read().await.job_name() != name {
                continue;
            }
            match scheduler.cancel_job(job.clone()).await {
                Ok(()) => return,
                Err(error) => warn!("job {job} was not cancelled: {error}"),
            }
        }
        tokio::time::sleep(OFFER_INTERVAL).await;
    }
}

/// Has Ballista look again, as long as statements run, whether tasks that wait can be given out.
///
/// It looks by itself when an executor comes, goes or ends a task. But tasks wait for other things
/// too: that a node has loaded its shards, or was silent for so long that another one takes them.
async fn offer_again(
    scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
    registry: Arc<Registry>,
) {
    loop {
        tokio::time::sleep(OFFER_INTERVAL).await;
        if scheduler.running_job_number() == 0 {
            continue;
        }
        let map = registry.map();
        for executor_id in map.nodes.keys().filter_map(|node| map.executor_of(node)) {
            // A report without tasks: what it says is nothing, and the look comes with it.
            let nothing = Request::new(UpdateTaskStatusParams {
                executor_id,
                task_status: Vec::new(),
            });
            // An executor that is not there has nothing to offer.
            let _ = SchedulerGrpc::update_task_status(&scheduler, nothing).await;
        }
    }
}

/// Ends when `stopped` says so.
async fn until(stopped: &(dyn Fn() -> bool + Sync)) {
    while !stopped() {
        tokio::time::sleep(STOP_INTERVAL).await;
    }
}

fn config(host: &str, address: SocketAddr, registry: Arc<Registry>) -> SchedulerConfig {
    let policy = TaskDistributionPolicy::Custom(Arc::new(ByShard::new(registry)));
    let mut config = SchedulerConfig::default()
        .with_hostname(host)
        .with_port(address.port())
        .with_task_distribution(policy)
        .with_no_executors_grace_period_seconds(EXECUTOR_TIMEOUT_S)
        .with_grpc_server_max_decoding_message_size(LARGEST_MESSAGE)
        .with_grpc_server_max_encoding_message_size(LARGEST_MESSAGE)
        .with_grpc_client_max_message_size(LARGEST_MESSAGE);
    config.executor_timeout_seconds = EXECUTOR_TIMEOUT_S;
    config.expire_dead_executor_interval_seconds = 1;
    config.job_id_generator = Some(Arc::new(JobIds::new()));
    config.override_physical_codec = Some(Arc::new(PlanCodec::new(Arc::new(Forwarded))));
    config
}

/// Ids of jobs, which no earlier scheduler has given. Ballista's own need a thread that wakes up a
/// thousand times a second.
struct JobIds {
    process: u64,
    given: AtomicU64,
}

impl JobIds {
    fn new() -> Self {
        JobIds {
            process: process_number(),
            given: AtomicU64::new(0),
        }
    }
}

#[async_trait::async_trait]
impl JobIdGenerator for JobIds {
    async fn next_id(&self) -> String {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}n{number}", self.process)
    }
}
