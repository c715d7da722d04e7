//! Tiers specified by the user, as in `dram=0,1;cxl=2-5`.

use std::collections::BTreeMap;

use super::{MemoryTier, TierKind};
use crate::{IdSet, NodeId, TopologyError};

const SET_BY_USER: &str = "set by the user";

/// Applies the specification `text` to `tiers` and returns the nodes that end up in no tier.
///
/// Only nodes in `with_memory`, a subset of `existing`, may be specified. A specified tier consists
/// of exactly the nodes given, which leave their previous tiers; other tiers keep their remaining
/// nodes. Nothing changes on error.
pub(crate) fn override_tiers(
    tiers: &mut Vec<MemoryTier>,
    text: &str,
    existing: &IdSet,
    with_memory: &IdSet,
) -> Result<Vec<NodeId>, TopologyError> {
    let named = parse(text)?;
    // All checks precede the first change, so that an error leaves the tiers as they were.
    check(text, &named, existing, with_memory)?;
    let taken: IdSet = named.values().flat_map(IdSet::iter).collect();
    let before: IdSet = tiers
        .iter()
        .flat_map(|tier| tier.nodes.iter().copied())
        .collect();
    tiers.retain(|tier| !named.contains_key(&tier.kind));
    for tier in tiers.iter_mut() {
        tier.nodes.retain(|node| !taken.contains(node.0));
    }
    tiers.retain(|tier| !tier.nodes.is_empty());
    tiers.extend(named.into_iter().map(|(kind, nodes)| MemoryTier {
        kind,
        nodes: nodes.nodes().collect(),
        reason: SET_BY_USER.to_owned(),
    }));
    tiers.sort_by_key(|tier| tier.kind);
    let after: IdSet = tiers
        .iter()
        .flat_map(|tier| tier.nodes.iter().copied())
        .collect();
    Ok(before.difference(&after).nodes().collect())
}

/// Parses a specification; parts are separated by `;` or spaces.
fn parse(text: &str) -> Result<BTreeMap<TierKind, IdSet>, TopologyError> {
    let error = |problem: String| TopologyError::Tiers {
        text: text.to_owned(),
        problem,
    };
    let mut named = BTreeMap::new();
    for part in parts(text) {
        let Some((tier, list)) = part.split_once('=') else {
            return Err(error(format!("`{part}` lacks `=` and nodes")));
        };
        let kind: TierKind = tier
            .parse()
            .map_err(|e: super::ParseTierKindError| error(e.to_string()))?;
        let nodes: IdSet = list.parse().map_err(|source| TopologyError::TierNodes {
            text: text.to_owned(),
            tier: kind.to_string(),
            source,
        })?;
        if nodes.is_empty() {
            return Err(error(format!("tier {kind} has no nodes")));
        }
        if named.insert(kind, nodes).is_some() {
            return Err(error(format!("tier {kind} is named twice")));
        }
    }
    if named.is_empty() {
        return Err(error("no tier is named".to_owned()));
    }
    Ok(named)
}

fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for piece in text.split(';') {
        let mut open = false;
        for word in piece.split_whitespace() {
            // Accept `dram = 0, 1`: a word continues the previous part after `=` or `,`, or if it
            // starts with one.
            let continues = open || word.starts_with(['=', ',']);
            match parts.last_mut().filter(|_| continues) {
                Some(part) => part.push_str(word),
                None => parts.push(word.to_owned()),
            }
            open = word.ends_with(['=', ',']);
        }
    }
    parts
}

fn check(
    text: &str,
    named: &BTreeMap<TierKind, IdSet>,
    existing: &IdSet,
    with_memory: &IdSet,
) -> Result<(), TopologyError> {
    let error = |problem: String| TopologyError::Tiers {
        text: text.to_owned(),
        problem,
    };
    let mut seen: BTreeMap<u32, TierKind> = BTreeMap::new();
    for (kind, nodes) in named {
        for node in nodes.iter() {
            if !existing.contains(node) {
                return Err(error(format!(
                    "node {node} does not exist; this machine has {}",
                    list(existing)
                )));
            }
            if !with_memory.contains(node) {
                return Err(error(format!(
                    "node {node} has no memory; {} have",
                    list(with_memory)
                )));
            }
            if let Some(other) = seen.insert(node, *kind) {
                return Err(error(format!(
                    "node {node} is in {other} and in {kind}; a node belongs to one tier"
                )));
            }
        }
    }
    Ok(())
}

/// Text such as `node 0` or `nodes 0-3`.
pub(super) fn named(nodes: &[NodeId]) -> String {
    list(&nodes.iter().copied().collect())
}

fn list(nodes: &IdSet) -> String {
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    format!("{word} {nodes}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine() -> Vec<MemoryTier> {
        let tier = |kind, nodes: &[u32]| MemoryTier {
            kind,
            nodes: nodes.iter().copied().map(NodeId).collect(),
            reason: "read".to_owned(),
        };
        vec![tier(TierKind::Dram, &[0, 1]), tier(TierKind::Cxl, &[2, 3])]
    }

    fn apply(text: &str) -> Result<(Vec<MemoryTier>, Vec<NodeId>), String> {
        let mut tiers = machine();
        let (existing, with_memory) = ("0-4".parse().unwrap(), "0-3".parse().unwrap());
        let dropped =
            override_tiers(&mut tiers, text, &existing, &with_memory).map_err(|e| e.to_string())?;
        Ok((tiers, dropped))
    }

    fn shown(tiers: &[MemoryTier]) -> String {
        let one =
            |tier: &MemoryTier| format!("{}={} ({})", tier.kind, tier.node_list(), tier.reason);
        tiers.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn named_tiers_hold_exactly_their_nodes() {
        for (text, expected) in [
            (
                "dram=0;remote=1",
                "dram=0 (set by the user); cxl=2-3 (read); remote=1 (set by the user)",
            ),
            ("cxl=1-3", "dram=0 (read); cxl=1-3 (set by the user)"),
            (
                " DRAM = 0, 1   cxl=2-3 ; ",
                "dram=0-1 (set by the user); cxl=2-3 (set by the user)",
            ),
            ("hbm=0-3", "hbm=0-3 (set by the user)"),
        ] {
            assert_eq!(shown(&apply(text).unwrap().0), expected, "{text}");
        }
    }

    #[test]
    fn nodes_left_without_a_tier_are_told() {
        assert_eq!(apply("dram=0").unwrap().1, [NodeId(1)]);
        assert!(apply("dram=0;remote=1").unwrap().1.is_empty());
    }

    #[test]
    fn every_mistake_is_named() {
        for (text, part) in [
            ("", "no tier is named"),
            ("dram", "lacks `=`"),
            ("nvm=0", "dram, hbm, cxl and remote"),
            ("dram=", "no nodes"),
            ("dram=0;dram=1", "named twice"),
            ("dram=0,1;cxl=1", "node 1 is in dram and in cxl"),
            ("cxl=7", "node 7 does not exist; this machine has nodes 0-4"),
            ("cxl=4", "node 4 has no memory; nodes 0-3 have"),
            ("cxl=2-x", "`2-x` (piece 1 of the list)"),
        ] {
            let error = apply(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_node_is_never_in_two_tiers(text in "((dram|cxl|hbm|x)?[=;, ]?[0-9\\-]{0,2}){0,6}") {
            let mut tiers = machine();
            let all: IdSet = "0-9".parse().unwrap();
            let result = override_tiers(&mut tiers, &text, &all, &all);
            let mut nodes: Vec<NodeId> = tiers.iter().flat_map(|tier| tier.nodes.clone()).collect();
            let count = nodes.len();
            nodes.sort_unstable();
            nodes.dedup();
            prop_assert_eq!(nodes.len(), count);
            if result.is_err() {
                prop_assert_eq!(tiers, machine());
            }
        }
    }
}
