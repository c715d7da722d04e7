//! How our operators travel: a header as JSON, and bytes of a plan behind it.

use crate::map::{Holders, schema_of};
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_err};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The first bytes of every message of this crate; messages of Ballista start otherwise.
const MAGIC: &[u8; 8] = b"\xffTIERL\x01\n";

/// Bytes of a message that scheduler and executors accept.
pub(crate) const LARGEST_MESSAGE: u32 = 256 << 20;

/// Name of the field in which a request carries the version.
pub(crate) const VERSION_FIELD: &str = "tierloom-version";

/// Name of the field in which a request says which process it is for: another one may listen at
/// the address of one that has ended.
pub(crate) const NODE_FIELD: &str = "tierloom-node";

/// A table that a node plan reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TableRef {
    /// Its name.
    pub name: String,
    /// The load that the statement was planned for.
    pub generation: u64,
    /// Whether its rows are in shards.
    pub sharded: bool,
}

/// A scan of a table of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScanHeader {
    /// The table.
    pub table: TableRef,
    /// Indices of the columns.
    pub projection: Vec<usize>,
    /// Most rows that are needed of each node.
    pub limit: Option<usize>,
}

/// A plan that each node runs on its shards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodePlanHeader {
    /// The tables that it reads.
    pub tables: BTreeSet<TableRef>,
    /// Who holds each shard of the tables in shards; empty if all tables are everywhere.
    pub holders: Holders,
    /// The shards that are to be read.
    pub shards: Vec<u32>,
}

/// The part of a node plan that one node does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanPart {
    /// The node's name.
    pub node: String,
    /// Its process.
    pub id: String,
    /// Host and port where it answers.
    pub address: String,
    /// The shards that it reads; none if all tables are everywhere.
    pub shards: Vec<u32>,
}

impl fmt::Display for PlanPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shards.len() {
            0 => write!(f, "{}", self.node),
            count => write!(f, "{count} shards of {}", self.node),
        }
    }
}

/// The rows of a node plan, where they are needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowsHeader {
    /// What it reads.
    pub plan: NodePlanHeader,
    /// Who does what of it.
    pub parts: Vec<PlanPart>,
    /// Streams that the rows come in.
    pub partitions: usize,
}

/// What a message is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Header {
    /// A scan, inside of a node plan.
    Scan(ScanHeader),
    /// The results of a node plan, inside of a final plan.
    Input(usize),
    /// A node plan; its operators are the bytes behind the header.
    NodePlan(NodePlanHeader),
    /// The final plan; its operators are the bytes behind the header.
    FinalPlan,
    /// The rows of a node plan, whose operators are the bytes behind the header.
    Rows(RowsHeader),
    /// An operator that gives the rows of its input in pieces.
    Pieces,
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    /// What it is.
    pub header: Header,
    /// Columns of the operator's rows.
    pub schema: SchemaRef,
    /// Operators of a node plan or a final plan.
    pub plan: Arc<Vec<u8>>,
}

impl Message {
    /// Appends the message to `buf`.
    ///
    /// # Errors
    /// None that is known; JSON of plain data and Arrow's form of a schema in memory do not fail.
    pub fn encode(&self, buf: &mut Vec<u8>) -> Result<()> {
        let json = |e: serde_json::Error| DataFusionError::External(Box::new(e));
        let header = serde_json::to_vec(&self.header).map_err(json)?;
        let schema = crate::map::HeldTable::columns_of(&self.schema);
        buf.extend_from_slice(MAGIC);
        for part in [&header, &schema, self.plan.as_ref()] {
            buf.extend_from_slice(&(part.len() as u64).to_le_bytes());
            buf.extend_from_slice(part);
        }
        Ok(())
    }

    /// The message in `buf`; `None` if it is none of this crate.
    ///
    /// # Errors
    /// A message that was cut off or is of another version.
    pub fn decode(buf: &[u8]) -> Result<Option<Message>> {
        let Some(mut rest) = buf.strip_prefix(MAGIC) else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        for _ in 0..3 {
            let Some((length, behind)) = rest.split_first_chunk::<8>() else {
                return internal_err!("a plan of tierloom was cut off");
            };
            let length = u64::from_le_bytes(*length);
            let part = usize::try_from(length)
                .ok()
                .and_then(|l| behind.split_at_checked(l));
            let Some((part, behind)) = part else {
                return internal_err!("a plan of tierloom was cut off");
            };
            parts.push(part);
            rest = behind;
        }
        let json = |e: serde_json::Error| DataFusionError::External(Box::new(e));
        Ok(Some(Message {
            header: serde_json::from_slice(parts[0]).map_err(json)?,
            schema: schema_of(parts[1])?,
            plan: Arc::new(parts[2].to_vec()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};

    fn message() -> Message {
        Message {
            header: Header::NodePlan(NodePlanHeader {
                tables: BTreeSet::from([TableRef {
                    name: "lineorder".into(),
                    generation: 3,
                    sharded: true,
                }]),
                holders: vec![vec!["a".into(), "b".into()], vec!["b".into()]],
                shards: vec![1],
            }),
            schema: Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)])),
            plan: Arc::new(vec![1, 2, 3]),
        }
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let mut bytes = Vec::new();
        message().encode(&mut bytes).unwrap();
        assert_eq!(Message::decode(&bytes).unwrap(), Some(message()));
        assert_eq!(Message::decode(b"something of Ballista").unwrap(), None);
    }

    #[test]
    fn a_message_that_was_cut_off_is_an_error_at_every_length() {
        let mut bytes = Vec::new();
        message().encode(&mut bytes).unwrap();
        for length in MAGIC.len()..bytes.len() {
            assert!(Message::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
