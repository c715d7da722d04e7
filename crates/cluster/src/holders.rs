//! Who can do which part of a node plan: for the scheduler's policy, and for clients that ask the
//! nodes themselves.

use crate::map::ClusterMap;
use crate::wire::NodePlanHeader;
use std::collections::{BTreeMap, BTreeSet};

/// Positions in a node plan's list of shards, in groups of shards with the same holders.
///
/// A node stores each such group as one table.
pub(crate) fn groups(plan: &NodePlanHeader, positions: Vec<usize>) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<Option<&Vec<String>>, Vec<usize>> = BTreeMap::new();
    for position in positions {
        let shard = plan.shards.get(position).copied().unwrap_or(u32::MAX);
        let holders = plan.holders.get(shard as usize);
        groups.entry(holders).or_default().push(position);
    }
    groups.into_values().collect()
}

/// The live nodes that have all that a node plan reads of these shards, those that are to be
/// preferred first; `None` if it reads no table, so that any node can do it.
pub(crate) fn able(
    plan: &NodePlanHeader,
    shards: &BTreeSet<u32>,
    map: &ClusterMap,
) -> Option<Vec<String>> {
    let none = BTreeSet::new();
    let mut able: Option<Vec<String>> = None;
    for table in &plan.tables {
        let wanted = if table.sharded { shards } else { &none };
        let holders = map.holders_of(&table.name, table.generation, wanted);
        able = Some(match able {
            None => holders,
            Some(able) => able.into_iter().filter(|n| holders.contains(n)).collect(),
        });
    }
    let mut able = able?;
    let preferred = shards.first().and_then(|s| plan.holders.get(*s as usize));
    let preferred: &[String] = preferred.map_or(&[], Vec::as_slice);
    // A sort that keeps the order of equals: nodes that are not named come last.
    able.sort_by_key(|node| {
        let place = preferred.iter().position(|holder| holder == node);
        place.unwrap_or(preferred.len())
    });
    Some(able)
}
