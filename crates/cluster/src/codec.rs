//! Writes and reads plans with our operators and Ballista's.

use crate::plan::{FinalPlanExec, node_plan, node_plan_of};
use crate::scan::{InputExec, TableScanExec};
use crate::streams::NodeRowsExec;
use crate::wire::{Header, Message};
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::{Result, internal_err, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    AsExecutionPlan, PhysicalExtensionCodec, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use std::fmt::Debug;
use std::sync::Arc;
use tierloom_corrections::functions_of_rules;
use tierloom_engine::calendar_functions;
use tierloom_sql::is_in_pieces;

/// What a message of this crate becomes where it is read.
pub(crate) trait PlanReader: Debug + Send + Sync {
    /// The operator for `message` over `inputs`.
    ///
    /// # Errors
    /// A message that has no meaning there.
    fn operator(
        &self,
        message: Message,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Result<Arc<dyn ExecutionPlan>>;
}

/// Reads node plans and final plans as operators that travel on: for client and scheduler.
#[derive(Debug)]
pub(crate) struct Forwarded;

impl PlanReader for Forwarded {
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
        match header {
            Header::NodePlan(header) => Ok(node_plan(header, schema, plan)),
            Header::FinalPlan => Ok(Arc::new(FinalPlanExec::new(plan, schema, inputs.to_vec()))),
            Header::Scan(_) | Header::Input(_) | Header::Rows(_) | Header::Pieces => {
                internal_err!("an operator of a node plan came without its plan")
            }
        }
    }
}

/// The codec of all processes of a cluster; they differ in what they read.
#[derive(Debug)]
pub(crate) struct PlanCodec {
    reader: Arc<dyn PlanReader>,
    ballista: BallistaPhysicalExtensionCodec,
}

impl PlanCodec {
    /// A codec that reads messages of this crate with `reader`.
    pub fn new(reader: Arc<dyn PlanReader>) -> Self {
        PlanCodec {
            reader,
            ballista: BallistaPhysicalExtensionCodec::default(),
        }
    }
}

impl PhysicalExtensionCodec for PlanCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match Message::decode(buf)? {
            Some(message) => self.reader.operator(message, inputs),
            None => self.ballista.try_decode(buf, inputs, ctx, proto_converter),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match message_of(node.as_ref()) {
            Some(message) => message.encode(buf),
            None => self.ballista.try_encode(node, buf, proto_converter),
        }
    }

    fn try_decode_udf(&self, name: &str, _buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        let mut known = functions_of_plans();
        match known.find(|function| function.name() == name) {
            Some(function) => Ok(function),
            None => not_impl_err!("the function {name} on a cluster"),
        }
    }
}

/// Functions that rules put into plans, beside those of a session.
pub(crate) fn functions_of_plans() -> impl Iterator<Item = Arc<ScalarUDF>> {
    functions_of_rules().into_iter().chain(calendar_functions())
}

/// The message for an operator of this crate.
fn message_of(node: &dyn ExecutionPlan) -> Option<Message> {
    let nothing = || Arc::new(Vec::new());
    if let Some(scan) = node.downcast_ref::<TableScanExec>() {
        return Some(Message {
            header: Header::Scan(scan.header.clone()),
            schema: Arc::clone(scan.columns()),
            plan: nothing(),
        });
    }
    if let Some(input) = node.downcast_ref::<InputExec>() {
        return Some(Message {
            header: Header::Input(input.index),
            schema: input.schema(),
            plan: nothing(),
        });
    }
    if let Some(last) = node.downcast_ref::<FinalPlanExec>() {
        return Some(last.message());
    }
    if let Some(rows) = node.downcast_ref::<NodeRowsExec>() {
        return Some(rows.message());
    }
    if is_in_pieces(node) {
        return Some(Message {
            header: Header::Pieces,
            schema: node.schema(),
            plan: nothing(),
        });
    }
    node_plan_of(node)
}

/// The bytes of a plan whose leaves are scans and inputs.
///
/// # Errors
/// DataFusion's, for an operator that cannot be written.
pub(crate) fn plan_bytes(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<Vec<u8>>> {
    let codec = PlanCodec::new(Arc::new(Forwarded));
    let node = PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), &codec)?;
    let mut bytes = Vec::new();
    node.try_encode(&mut bytes)?;
    Ok(Arc::new(bytes))
}

/// The plan that [`plan_bytes`] has written, with leaves that `reader` makes.
///
/// # Errors
/// DataFusion's, for bytes that are no plan or functions that `context` lacks, and those of
/// `reader`.
pub(crate) fn plan_of(
    bytes: &[u8],
    context: &TaskContext,
    reader: Arc<dyn PlanReader>,
) -> Result<Arc<dyn ExecutionPlan>> {
    PhysicalPlanNode::try_decode(bytes)?.try_into_physical_plan(context, &PlanCodec::new(reader))
}
