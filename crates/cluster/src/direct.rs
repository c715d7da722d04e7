//! Asks nodes for the rows of node plans, without the scheduler.

use crate::access::Access;
use crate::map::VERSION;
use crate::wire::{LARGEST_MESSAGE, NODE_FIELD, VERSION_FIELD};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightData, Ticket};
use futures::{Stream, StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tierloom_agent::{HostAddress, HostLink, Watched, open_link, status_text};
use tokio::runtime::Handle;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};

/// How long a connection to a node may take.
const CONNECT: Duration = Duration::from_secs(3);

/// Means in the count of an answer's rows that it has not come.
const NO_COUNT: u64 = u64::MAX;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// There are more bytes than were asked for.
    TooMany,
    /// The reason.
    Failed(String),
}

/// What a node is asked for.
pub(crate) struct Question {
    /// Its name.
    pub node: String,
    /// Its process.
    pub id: String,
    /// Host and port where it answers.
    pub address: String,
    /// The node plan.
    pub ticket: Vec<u8>,
    /// Columns of the rows.
    pub schema: SchemaRef,
}

/// Connections to nodes. They are kept, and made again when they break.
#[derive(Debug)]
pub(crate) struct NodeLinks {
    access: Access,
    /// They serve the connections, and should do nothing that takes long.
    threads: Handle,
    watched: Watched,
    links: Mutex<BTreeMap<String, HostLink>>,
}

impl NodeLinks {
    /// Without connections, which `threads` will serve and that will be `watched`; nodes will be
    /// shown what `access` says.
    pub fn new(access: Access, threads: Handle, watched: Watched) -> Self {
        NodeLinks {
            access,
            threads,
            watched,
            links: Mutex::default(),
        }
    }

    /// A connection to a node.
    pub fn to(&self, node: &str, address: &str) -> Result<HostLink, String> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(address) {
            return Ok(link.clone());
        }
        let _on_threads = self.threads.enter();
        let link = match &self.access.token {
            Some(token) => {
                let mut host = HostAddress::new(node, address, token.clone());
                host.tls_ca.clone_from(&self.access.tls_ca);
                host.allow_plain_remote = self.access.allow_plain_remote;
                host.link(CONNECT, self.watched)
                    .map_err(|e| e.to_string())?
            }
            None => open_link(address, CONNECT, self.watched)?,
        };
        links.insert(address.into(), link.clone());
        Ok(link)
    }

    /// Forgets connections to other addresses than these.
    pub fn keep(&self, addresses: &[&str]) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|address, _| addresses.contains(&address.as_str()));
    }

    /// All rows that a node answers, as long as `left` has bytes for them.
    pub async fn ask(
        &self,
        question: Question,
        left: &AtomicUsize,
    ) -> Result<Vec<RecordBatch>, NoAnswer> {
        let node = question.node.as_str();
        let link = self.to(node, &question.address);
        let link =
            link.map_err(|why| NoAnswer::Failed(format!("connection to node {node}: {why}")))?;
        let mut client = FlightServiceClient::new(link)
            .max_decoding_message_size(LARGEST_MESSAGE as usize)
            .max_encoding_message_size(LARGEST_MESSAGE as usize);
        let mut request = Request::new(Ticket::new(question.ticket));
        let version = MetadataValue::from_static(VERSION);
        request.metadata_mut().insert(VERSION_FIELD, version);
        let id = MetadataValue::try_from(&question.id);
        let id = id.map_err(|e| NoAnswer::Failed(format!("name of node {node}: {e}")))?;
        request.metadata_mut().insert(NODE_FIELD, id);
        let answer = client.do_get(request).await;
        let answer = answer.map_err(|status| failed(node, &status))?;
        let rows = answer.into_inner().map_err(FlightError::from);
        rows_of(node, &question.schema, rows, left).await
    }
}

/// The rows in the messages of a node, as long as `left` has bytes for them.
async fn rows_of(
    node: &str,
    schema: &SchemaRef,
    messages: impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static,
    left: &AtomicUsize,
) -> Result<Vec<RecordBatch>, NoAnswer> {
    let said = Arc::new(AtomicU64::new(NO_COUNT));
    let size = Arc::new(AtomicUsize::new(0));
    let rows = without_count(messages, Arc::clone(&said), Arc::clone(&size));
    let mut rows = FlightRecordBatchStream::new_from_flight_data(rows);
    let (mut batches, mut count) = (Vec::new(), 0);
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(|error| match error {
            FlightError::Tonic(status) => failed(node, &status),
            other => NoAnswer::Failed(format!("rows of node {node}: {other}")),
        })?;
        let bytes = size.swap(0, Ordering::Relaxed);
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes)
        });
        taken.map_err(|_| NoAnswer::TooMany)?;
        count += batch.num_rows() as u64;
        batches.push(of_columns(schema, batch, node)?);
    }
    match said.load(Ordering::Relaxed) {
        said if said == count => Ok(batches),
        NO_COUNT => Err(NoAnswer::Failed(format!(
            "connection to node {node}: it ended before all rows had come"
        ))),
        said => Err(NoAnswer::Failed(format!(
            "node {node} sent {said} rows and {count} came"
        ))),
    }
}

/// The messages with rows, whose bytes are added to `size`; the number in the last one goes to
/// `count`.
fn without_count(
    messages: impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static,
    count: Arc<AtomicU64>,
    size: Arc<AtomicUsize>,
) -> impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static {
    messages.try_filter_map(move |message| {
        let is_count = message.data_header.is_empty();
        if is_count && let Ok(bytes) = <[u8; 8]>::try_from(message.app_metadata.as_ref()) {
            count.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        size.fetch_add(message.data_body.len(), Ordering::Relaxed);
        std::future::ready(Ok((!is_count).then_some(message)))
    })
}

/// The rows with the columns that the statement was planned for.
fn of_columns(schema: &SchemaRef, batch: RecordBatch, node: &str) -> Result<RecordBatch, NoAnswer> {
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    let named = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows);
    named.map_err(|e| NoAnswer::Failed(format!("rows of node {node}: {e}")))
}

/// Why a node did not answer: what it said, or what is wrong with the connection.
fn failed(node: &str, status: &Status) -> NoAnswer {
    use tonic::Code::{Aborted, FailedPrecondition, InvalidArgument, Unauthenticated};
    match status.code() {
        Unauthenticated => NoAnswer::Failed(format!(
            "node {node} does not accept this token; give the one that it was started with"
        )),
        Aborted | FailedPrecondition | InvalidArgument => {
            NoAnswer::Failed(status.message().to_owned())
        }
        _ => {
            let why = status_text(status);
            NoAnswer::Failed(format!("connection to node {node}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use arrow_flight::encode::FlightDataEncoderBuilder;

    fn rows() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        RecordBatch::try_from_iter([("n", numbers)]).unwrap()
    }

    /// The messages of a node that has sent its rows, and then this.
    fn received(
        then: Option<Result<FlightData, FlightError>>,
        most: usize,
    ) -> Result<u64, NoAnswer> {
        let schema = rows().schema();
        let batches = futures::stream::iter([Ok(rows()), Ok(rows())]);
        let sent = FlightDataEncoderBuilder::new().build(batches);
        let messages = sent.chain(futures::stream::iter(then));
        let left = AtomicUsize::new(most);
        let batches = futures::executor::block_on(rows_of("a", &schema, messages, &left))?;
        Ok(batches.iter().map(|batch| batch.num_rows() as u64).sum())
    }

    fn count(rows: u64) -> Option<Result<FlightData, FlightError>> {
        let bytes = rows.to_le_bytes().to_vec();
        Some(Ok(FlightData::new().with_app_metadata(bytes)))
    }

    #[test]
    fn rows_count_only_if_their_number_came_too() {
        assert_eq!(received(count(2000), usize::MAX).unwrap(), 2000);
        let cut = Some(Err(Status::unknown("h2 protocol error").into()));
        let refused = Some(Err(Status::aborted("shard 1 of t is not on node a").into()));
        for (then, said) in [
            (None, "connection to node a: it ended before"),
            (count(2001), "sent 2001 rows and 2000 came"),
            (count(0), "sent 0 rows and 2000 came"),
            (cut, "connection to node a: h2 protocol error"),
            (refused, "shard 1 of t is not on node a"),
        ] {
            match received(then, usize::MAX) {
                Err(NoAnswer::Failed(text)) => {
                    assert!(text.starts_with(said) || text.ends_with(said), "{text}")
                }
                other => panic!("{said}: {other:?}"),
            }
        }
    }

    #[test]
    fn more_bytes_than_there_is_room_for_are_not_taken() {
        let bytes = 2 * 8 * 1000;
        assert!(received(count(2000), bytes + 1000).is_ok());
        let more = received(count(2000), bytes - 1000);
        assert!(matches!(more, Err(NoAnswer::TooMany)), "{more:?}");
    }
}
