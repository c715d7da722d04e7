//! What an executor does for others that pass rows to each other, and how it reaches them.

use super::leaf::NodeRowsExec;
use super::on_threads::OnThreads;
use crate::codec::{PlanCodec, PlanReader, functions_of_plans};
use crate::direct::NodeLinks;
use crate::local::part_of;
use crate::map::VERSION;
use crate::node::Node;
use crate::sent::BATCH_ROWS;
use crate::wire::{Header, Message};
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, Statistics, exec_datafusion_err, internal_err};
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, DistributedExt, Worker, WorkerChannel, WorkerPlanRewriteEvent,
    WorkerPlanRewriteEventResponse, WorkerQueryContext,
};
use std::sync::Arc;
use tierloom_sql::in_pieces;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;
use url::Url;

/// `routes` and the service with which `node` takes part in final plans; `links` lead to others.
pub(crate) fn with_worker(routes: Routes, node: Arc<Node>, links: Arc<NodeLinks>) -> Routes {
    let runtime = node.engine().context().runtime_env();
    let threads = node.engine().handle().clone();
    let reader = RowsReader {
        node: Arc::clone(&node),
        links: Arc::clone(&links),
    };
    let codec = Arc::new(PlanCodec::new(Arc::new(reader)));
    let session = move |context: WorkerQueryContext| {
        let state = session(&node, &links, Arc::clone(&codec), context);
        async move { Ok(state) }
    };
    let worker = Worker::from_session_builder(session)
        .with_runtime_env(runtime)
        .with_version(VERSION);
    routes.add_service(OnThreads {
        service: worker.into_worker_server(),
        threads,
    })
}

/// The session of a part of a final plan on a node.
fn session(
    node: &Arc<Node>,
    links: &Arc<NodeLinks>,
    codec: Arc<PlanCodec>,
    context: WorkerQueryContext,
) -> SessionState {
    let engine = node.engine().context().state();
    let mut builder = context.builder;
    let config = builder.config().get_or_insert_default();
    *config = config.clone().with_batch_size(BATCH_ROWS);
    let own = Arc::clone(node);
    let scalar = engine.scalar_functions().values().cloned();
    builder
        .with_scalar_functions(scalar.chain(functions_of_plans()).collect())
        .with_aggregate_functions(engine.aggregate_functions().values().cloned().collect())
        .with_window_functions(engine.window_functions().values().cloned().collect())
        .with_distributed_user_codec_arc(codec)
        .with_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent<'_>| {
            let plan = own.engine().with_big_operators(event.plan)?;
            Ok(WorkerPlanRewriteEventResponse::new(plan))
        })
        .with_distributed_channel_resolver(NodeChannels(Arc::clone(links)))
        .build()
}

/// Reads rows of node plans as operators of this node.
#[derive(Debug)]
struct RowsReader {
    node: Arc<Node>,
    links: Arc<NodeLinks>,
}

impl PlanReader for RowsReader {
    fn operator(
        &self,
        message: Message,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Message {
            header,
            schema,
            plan,
        } = message;
        let mut header = match (header, inputs) {
            (Header::Rows(header), []) => header,
            (Header::Pieces, [input]) => return Ok(in_pieces(Arc::clone(input))),
            _ => return internal_err!("a part of a final plan came with another plan inside"),
        };
        let name = self.node.name();
        let parts = std::mem::take(&mut header.parts).into_iter();
        let (here, others): (Vec<_>, Vec<_>) = parts.partition(|part| part.node == name);
        header.parts = others;
        let here = here.into_iter().map(|part| {
            let (node, schema, plan) = (
                Arc::clone(&self.node),
                Arc::clone(&schema),
                Arc::clone(&plan),
            );
            part_of(node, plan, schema, part.shards, header.partitions)
        });
        let here = here.collect();
        let statistics = Arc::new(Statistics::new_unknown(&schema));
        let links = Arc::clone(&self.links);
        Ok(Arc::new(NodeRowsExec::new(
            header, plan, statistics, schema, here, links,
        )))
    }
}

/// Connections to nodes that pass rows on.
#[derive(Clone)]
pub(super) struct NodeChannels(pub Arc<NodeLinks>);

#[async_trait]
impl ChannelResolver for NodeChannels {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let address = url.authority();
        let link = self.0.to(address, address);
        let link = link.map_err(|why| exec_datafusion_err!("connection to {address}: {why}"))?;
        let channel = link.map_response(|response: http::Response<_>| response.map(Body::new));
        Ok(create_worker_client(BoxCloneSyncChannel::new(channel)))
    }
}
