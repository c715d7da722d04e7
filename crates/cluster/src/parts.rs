//! Who is asked for which shards of a node plan.

use crate::direct::Question;
use crate::holders::{able, groups};
use crate::map::{ClusterMap, executor_id};
use crate::wire::{Header, Message, NodePlanHeader, PlanPart};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use std::sync::Arc;

/// Parts that read each shard of a node plan once.
///
/// # Errors
/// A text that names what no live node has.
pub(crate) fn parts_of(header: &NodePlanHeader, map: &ClusterMap) -> Result<Vec<PlanPart>, String> {
    let groups = match header.holders.is_empty() {
        true => vec![Vec::new()],
        false => groups(header, (0..header.shards.len()).collect()),
    };
    let parts = groups.into_iter().map(|group| {
        let shards: Vec<u32> = group
            .into_iter()
            .map(|index| header.shards[index])
            .collect();
        let node = match able(header, &shards.iter().copied().collect(), map) {
            Some(nodes) => nodes.first().and_then(|name| map.nodes.get_key_value(name)),
            None => map.nodes.iter().find(|(_, state)| state.alive),
        };
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
        Ok(PlanPart {
            node: name.clone(),
            id: executor_id(name, state.process),
            address: state.address.clone(),
            shards,
        })
    });
    parts.collect()
}

/// What the node of a part is asked for: its part of the plan in `bytes`, whose rows have the
/// columns `schema`.
///
/// # Errors
/// Same as [`Message::encode`].
pub(crate) fn question(
    part: &PlanPart,
    header: &NodePlanHeader,
    schema: &SchemaRef,
    bytes: &Arc<Vec<u8>>,
) -> Result<Question> {
    let message = Message {
        header: Header::NodePlan(NodePlanHeader {
            shards: part.shards.clone(),
            ..header.clone()
        }),
        schema: Arc::clone(schema),
        plan: Arc::clone(bytes),
    };
    let mut ticket = Vec::new();
    message.encode(&mut ticket)?;
    Ok(Question {
        node: part.node.clone(),
        id: part.id.clone(),
        address: part.address.clone(),
        ticket,
        schema: Arc::clone(schema),
    })
}
