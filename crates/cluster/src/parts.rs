//! Who is asked for which shards of a node plan.

use crate::direct::Question;
use crate::holders::{able, groups};
use crate::map::{ClusterMap, executor_id};
use crate::wire::{Header, Message, NodePlanHeader};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The part of a node plan that one node does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The node's name.
    pub node: String,
    /// Its process.
    pub id: String,
    /// Host and port where it answers.
    pub address: String,
    /// The shards that it reads; none if all tables are everywhere.
    pub shards: Vec<u32>,
}

/// Parts that read each shard of a node plan once.
///
/// # Errors
/// A text that names what no live node has.
pub(crate) fn parts_of(header: &NodePlanHeader, map: &ClusterMap) -> Result<Vec<Part>, String> {
    let groups = match header.holders.is_empty() {
        true => vec![Vec::new()],
        false => groups(header, (0..header.shards.len()).collect()),
    };
    let parts = groups.into_iter().map(|group| {
        let shards: Vec<u32> = group
            .into_iter()
            .map(|index| header.shards[index])
            .collect();
        let alive = || map.nodes.iter().filter(|(_, state)| state.alive);
        let nodes = match header.tables.is_empty() {
            true => Some(alive().map(|(name, _)| name.clone()).collect()),
            false => able(header, &shards.iter().copied().collect(), map),
        };
        let node = nodes.and_then(|nodes: Vec<String>| nodes.into_iter().next());
        let node = node.and_then(|name| map.nodes.get_key_value(&name));
        let Some((name, state)) = node else {
            let names: Vec<&str> = header.tables.iter().map(|t| t.name.as_str()).collect();
            let part = shards
                .first()
                .map_or("all".into(), |s| format!("shard {s}"));
            return Err(format!(
                "no live node has {part} of {} together",
                names.join(" and ")
            ));
        };
        Ok(Part {
            node: name.clone(),
            id: executor_id(name, state.process),
            address: state.address.clone(),
            shards,
        })
    });
    parts.collect()
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shards.len() {
            0 => write!(f, "{}", self.node),
            count => write!(f, "{count} shards of {}", self.node),
        }
    }
}

impl Part {
    /// What its node is asked for: its part of the plan in `bytes`, whose rows have the columns
    /// `schema`.
    ///
    /// # Errors
    /// Same as [`Message::encode`].
    pub fn question(
        &self,
        header: &NodePlanHeader,
        schema: &SchemaRef,
        bytes: &Arc<Vec<u8>>,
    ) -> Result<Question> {
        let message = Message {
            header: Header::NodePlan(NodePlanHeader {
                shards: self.shards.clone(),
                ..header.clone()
            }),
            schema: Arc::clone(schema),
            plan: Arc::clone(bytes),
        };
        let mut ticket = Vec::new();
        message.encode(&mut ticket)?;
        Ok(Question {
            node: self.node.clone(),
            id: self.id.clone(),
            address: self.address.clone(),
            ticket,
            schema: Arc::clone(schema),
        })
    }
}
