//! Answers clients that ask this node for the rows of a node plan.
//!
//! The last message of an answer counts its rows. An answer without it is no answer, however its
//! connection ended.

use crate::local::asked_for;
use crate::map::VERSION;
use crate::node::Node;
use crate::wire::{LARGEST_MESSAGE, Message, NODE_FIELD, VERSION_FIELD};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use datafusion::common::DataFusionError;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tierloom_engine::task_context;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

/// Batches that wait to be sent; more work on a plan waits until its client reads.
const WAITING: usize = 2;

/// Longest text of an error: it travels in a header.
const LONGEST_ERROR: usize = 4000;

/// The service for `node`, whose process is `id`.
pub(crate) fn node_service(node: Arc<Node>, id: &str) -> FlightServiceServer<NodePlans> {
    let start = move |message, rows| {
        let mut work = JoinSet::new();
        work.spawn_on(
            run(Arc::clone(&node), message, rows),
            node.engine().handle(),
        );
        work
    };
    let plans = NodePlans {
        start: Box::new(start),
        id: id.to_owned(),
    };
    FlightServiceServer::new(plans)
        .max_decoding_message_size(LARGEST_MESSAGE as usize)
        .max_encoding_message_size(LARGEST_MESSAGE as usize)
}

/// Starts the work on a plan, whose rows are sent.
type Start = dyn Fn(Message, mpsc::Sender<Given>) -> Work + Send + Sync;

/// The tasks of a plan.
type Work = JoinSet<Result<(), DataFusionError>>;

/// Runs node plans.
pub(crate) struct NodePlans {
    /// Has the node in it. As a field of its own, the compiler would look for each method of
    /// Flight whether all that is in a node may move between threads, which took three quarters of
    /// the time to check this crate.
    start: Box<Start>,
    id: String,
}

impl NodePlans {
    async fn rows(&self, request: &Request<Ticket>) -> Result<BoxStream<'static, Encoded>, Status> {
        self.check(request.metadata())?;
        let message = Message::decode(&request.get_ref().ticket);
        let message = message.map_err(|e| Status::invalid_argument(e.strip_backtrace()))?;
        let no_plan = || Status::invalid_argument("expected a node plan");
        let message = message.ok_or_else(no_plan)?;
        let schema = Arc::clone(&message.schema);
        let (send, rows) = mpsc::channel(WAITING);
        let mut running = RunningPlan::new(rows, (self.start)(message, send));
        // With the first rows, a short answer is one write and one read at the client.
        running.begin().await?;
        Ok(messages(running, schema))
    }

    /// Checks that the request is for this process, and of its version.
    fn check(&self, fields: &MetadataMap) -> Result<(), Status> {
        let field = |name: &str| fields.get(name).and_then(|v| v.to_str().ok());
        let version = field(VERSION_FIELD).unwrap_or("an unknown version");
        if version != VERSION {
            return Err(Status::failed_precondition(format!(
                "this node runs tierloom {VERSION}, and a process of {version} asks it"
            )));
        }
        match field(NODE_FIELD) {
            Some(id) if id == self.id => Ok(()),
            // Its node has started again, or is gone: the caller looks for it.
            other => Err(Status::unavailable(format!(
                "process {} answers where {} was expected",
                self.id,
                other.unwrap_or("another one")
            ))),
        }
    }
}

type Encoded = Result<FlightData, Status>;

/// Rows that a plan gave.
enum Given {
    /// More follow, or an error.
    Some(RecordBatch),
    /// They were the last.
    Last(RecordBatch),
}

/// A plan that runs; dropping it ends the work on it.
struct RunningPlan {
    rows: mpsc::Receiver<Given>,
    work: Work,
    /// Rows that were read before they were asked for.
    first: Option<RecordBatch>,
    ended: bool,
}

impl RunningPlan {
    fn new(rows: mpsc::Receiver<Given>, work: Work) -> Self {
        RunningPlan {
            rows,
            work,
            first: None,
            ended: false,
        }
    }

    /// Waits for its first rows, or its end.
    async fn begin(&mut self) -> Result<(), Status> {
        self.first = self.next().await?;
        Ok(())
    }

    /// The next rows; `None` after all of them.
    async fn next(&mut self) -> Result<Option<RecordBatch>, Status> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        if self.ended {
            return Ok(None);
        }
        let given = self.rows.recv().await;
        self.ended = !matches!(given, Some(Given::Some(_)));
        if let Some(Given::Some(batch) | Given::Last(batch)) = given {
            return Ok(Some(batch));
        }
        match self.work.join_next().await {
            Some(Ok(Ok(()))) => Ok(None),
            Some(Ok(Err(error))) => Err(Status::aborted(text_of(&error))),
            Some(Err(error)) => Err(Status::internal(format!("a node plan failed: {error}"))),
            None => Err(Status::internal("a node plan ended twice")),
        }
    }
}

/// Runs a plan and sends its rows. A client that has gone ends it without an error.
///
/// Rows wait until it is known whether others follow, so that the last ones and the end are one
/// message.
async fn run(
    node: Arc<Node>,
    message: Message,
    rows: mpsc::Sender<Given>,
) -> Result<(), DataFusionError> {
    let plan = asked_for(Arc::clone(&node), message)?;
    let context = task_context(node.engine().context(), &plan);
    let mut batches = plan.execute(0, context)?;
    let mut waiting = None;
    while let Some(batch) = batches.try_next().await? {
        if let Some(earlier) = waiting.replace(batch)
            && rows.send(Given::Some(earlier)).await.is_err()
        {
            return Ok(());
        }
    }
    if let Some(last) = waiting {
        let _ = rows.send(Given::Last(last)).await;
    }
    Ok(())
}

/// The messages of an answer.
fn messages(running: RunningPlan, schema: SchemaRef) -> BoxStream<'static, Encoded> {
    let (count, complete) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (counted, ended) = (Arc::clone(&count), Arc::clone(&complete));
    let batches = futures::stream::try_unfold(running, move |mut running| {
        let (count, complete) = (Arc::clone(&count), Arc::clone(&complete));
        async move {
            let next = running.next().await.map_err(FlightError::from)?;
            Ok(match next {
                Some(batch) => {
                    count.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                    Some((batch, running))
                }
                None => {
                    complete.store(true, Ordering::Relaxed);
                    None
                }
            })
        }
    });
    let encoded = FlightDataEncoderBuilder::new()
        .with_schema(schema)
        // Rows come in pieces; the encoder would take each for as large as the batch it is from.
        .with_max_flight_data_size(usize::MAX)
        // Columns stay as the statement was planned for.
        .with_dictionary_handling(arrow_flight::encode::DictionaryHandling::Resend)
        .build(batches)
        .map_err(Status::from);
    let last = futures::stream::once(async move {
        if !ended.load(Ordering::Relaxed) {
            return Err(Status::internal("a node plan ended too soon"));
        }
        let rows = counted.load(Ordering::Relaxed).to_le_bytes();
        Ok(FlightData::new().with_app_metadata(rows.to_vec()))
    });
    encoded.chain(last).boxed()
}

/// What went wrong, without the names of the layers around it.
pub(crate) fn text_of(error: &DataFusionError) -> String {
    let text = match error.find_root() {
        DataFusionError::Execution(text)
        | DataFusionError::ResourcesExhausted(text)
        | DataFusionError::Internal(text) => text.clone(),
        other => other.strip_backtrace(),
    };
    text.chars().take(LONGEST_ERROR).collect()
}

/// What Flight has and a node has not.
fn absent<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented(
        "a node gives the rows of node plans only",
    ))
}

#[tonic::async_trait]
impl FlightService for NodePlans {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Encoded>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;
    type DoExchangeStream = BoxStream<'static, Encoded>;

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        Ok(Response::new(self.rows(&request).await?))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        absent()
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        absent()
    }

    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        absent()
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        absent()
    }

    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        absent()
    }

    async fn do_put(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        absent()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        absent()
    }

    async fn do_action(
        &self,
        _: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        absent()
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        absent()
    }
}
