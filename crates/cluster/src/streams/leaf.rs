//! The rows of a node plan, where they are needed.

use crate::direct::{NoAnswer, NodeLinks};
use crate::parts::question;
use crate::wire::{Header, Message, PlanPart, RowsHeader};
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Gives the rows of a node plan: those of the process that runs it from its own shards, others
/// from their nodes, which it asks.
pub(crate) struct NodeRowsExec {
    header: RowsHeader,
    plan: Arc<Vec<u8>>,
    schema: SchemaRef,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    /// Parts of this process, with as many partitions as this operator has.
    here: Vec<Arc<dyn ExecutionPlan>>,
    /// To the nodes of the other parts.
    links: Arc<NodeLinks>,
}

impl NodeRowsExec {
    /// The parts that `header` names, of which `here` has its own operators.
    pub fn new(
        header: RowsHeader,
        plan: Arc<Vec<u8>>,
        statistics: Arc<Statistics>,
        schema: SchemaRef,
        here: Vec<Arc<dyn ExecutionPlan>>,
        links: Arc<NodeLinks>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(header.partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        NodeRowsExec {
            header,
            plan,
            schema,
            statistics,
            properties: Arc::new(properties),
            here,
            links,
        }
    }

    /// Who does what.
    pub fn parts(&self) -> &[PlanPart] {
        &self.header.parts
    }

    /// Whether each node has rows of its own.
    pub fn is_sharded(&self) -> bool {
        !self.header.plan.holders.is_empty()
    }

    /// The same with `parts` alone, in `partitions` partitions.
    pub fn of(&self, parts: Vec<PlanPart>, partitions: usize) -> Self {
        let header = RowsHeader {
            parts,
            partitions,
            plan: self.header.plan.clone(),
        };
        NodeRowsExec::new(
            header,
            Arc::clone(&self.plan),
            Arc::clone(&self.statistics),
            Arc::clone(&self.schema),
            Vec::new(),
            Arc::clone(&self.links),
        )
    }

    /// The message with which it travels.
    pub fn message(&self) -> Message {
        Message {
            header: Header::Rows(self.header.clone()),
            schema: Arc::clone(&self.schema),
            plan: Arc::clone(&self.plan),
        }
    }

    /// The rows of another node's part, which are held in memory until they are read.
    fn asked(&self, part: &PlanPart) -> Result<SendableRecordBatchStream> {
        let asked = question(part, &self.header.plan, &self.schema, &self.plan)?;
        let links = Arc::clone(&self.links);
        let rows = async move {
            let rows = links.ask(asked, &AtomicUsize::new(usize::MAX)).await;
            let rows = rows.map_err(|why| match why {
                NoAnswer::Failed(text) => DataFusionError::Execution(text),
                NoAnswer::TooMany => DataFusionError::Execution("too many rows".into()),
            });
            Ok::<_, DataFusionError>(futures::stream::iter(rows?.into_iter().map(Ok)))
        };
        let rows = futures::stream::once(rows).try_flatten();
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

impl ExecutionPlan for NodeRowsExec {
    fn name(&self) -> &str {
        "NodeRowsExec"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    tierloom_corrections::without_inputs!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let here = self.here.iter();
        let here = here.map(|plan| plan.execute(partition, Arc::clone(&context)));
        let count = self.header.partitions;
        let asked = self.header.parts.iter().enumerate();
        let asked = asked.filter(|(index, _)| index % count == partition);
        let asked = asked.map(|(_, part)| self.asked(part));
        let all: Vec<_> = here.chain(asked).collect::<Result<_>>()?;
        let rows = futures::stream::select_all(all).boxed();
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(match partition {
            None => Arc::clone(&self.statistics),
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema)),
        })
    }
}

impl fmt::Debug for NodeRowsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeRowsExec")
            .field("parts", &self.header.parts)
            .field("here", &self.here)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for NodeRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables: Vec<&str> = self
            .header
            .plan
            .tables
            .iter()
            .map(|t| t.name.as_str())
            .collect();
        let parts: Vec<String> = self.header.parts.iter().map(PlanPart::to_string).collect();
        write!(
            f,
            "NodeRowsExec: tables=[{}], parts=[{}]",
            tables.join(", "),
            parts.join(", ")
        )
    }
}
