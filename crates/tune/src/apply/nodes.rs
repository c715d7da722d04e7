//! Conversion of weights per tier to weights per node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ApplyError;

/// Range of weights that the kernel accepts.
pub const KERNEL_WEIGHTS: std::ops::RangeInclusive<u32> = 1..=255;

/// Nodes of a tier on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierNodes {
    /// Name of the tier.
    pub tier: String,
    /// Node numbers as Linux counts them.
    pub nodes: Vec<u32>,
}

/// Weights of nodes, and the shares of tiers that result.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeWeights {
    /// Pages per round on each node, 1 to 255.
    pub weights: BTreeMap<u32, u32>,
    /// Per tier: requested share, and share that integer weights up to 255 achieve, 0 to 1.
    pub shares: Vec<(String, f64, f64)>,
}

impl NodeWeights {
    /// Largest difference between the requested and the achieved share of a tier, 0 to 1.
    pub fn worst_deviation(&self) -> f64 {
        let deviations = self
            .shares
            .iter()
            .map(|(_, asked, got)| (asked - got).abs());
        deviations.fold(0.0, f64::max)
    }
}

/// Weights of nodes that give each tier the share of its weight, evenly over its nodes.
///
/// If no integers up to 255 achieve the shares, the closest ones are taken; see
/// [`NodeWeights::shares`].
///
/// # Errors
/// [`ApplyError::NothingToSpread`] if a tier has weight 0 or there is only one tier;
/// [`ApplyError::NoNodes`] if a tier has no node on this machine.
pub fn node_weights(
    weights: &[(String, u32)],
    tiers: &[TierNodes],
) -> Result<NodeWeights, ApplyError> {
    let named = |wanted: bool| {
        let names = weights.iter().filter(|(_, weight)| (*weight > 0) == wanted);
        let names: Vec<&str> = names.map(|(tier, _)| tier.as_str()).collect();
        names.join(", ")
    };
    if weights.iter().any(|(_, weight)| *weight == 0) || weights.len() < 2 {
        return Err(ApplyError::NothingToSpread {
            kept: named(true),
            left_out: match named(false) {
                none if none.is_empty() => "any other node".into(),
                some => some,
            },
        });
    }
    let placed = weights
        .iter()
        .map(|(tier, weight)| Ok((tier, *weight, nodes_of(tier, tiers)?)))
        .collect::<Result<Vec<_>, ApplyError>>()?;
    // The weight of a node is its tier's weight over the number of nodes. Scaling by the least
    // common multiple makes it an integer.
    let common = placed
        .iter()
        .fold(1, |all, (_, _, nodes)| lcm(all, nodes.len() as u64));
    let exact: Vec<u64> = placed
        .iter()
        .map(|(_, weight, nodes)| u64::from(*weight) * (common / nodes.len() as u64))
        .collect();
    let whole = within_limits(&exact);
    let pages = |index: usize| whole[index] as f64 * placed[index].2.len() as f64;
    let round: f64 = (0..placed.len()).map(pages).sum();
    let asked: f64 = weights.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let shares = placed
        .iter()
        .enumerate()
        .map(|(index, (tier, weight, _))| {
            let name = (*tier).clone();
            (name, f64::from(*weight) / asked, pages(index) / round)
        })
        .collect();
    let of_nodes = placed
        .iter()
        .zip(&whole)
        .flat_map(|((_, _, nodes), weight)| nodes.iter().map(|node| (*node, *weight)));
    Ok(NodeWeights {
        weights: of_nodes.collect(),
        shares,
    })
}

fn nodes_of<'t>(tier: &str, tiers: &'t [TierNodes]) -> Result<&'t [u32], ApplyError> {
    let found = tiers.iter().find(|known| known.tier == tier);
    match found {
        Some(known) if !known.nodes.is_empty() => Ok(&known.nodes),
        _ => Err(ApplyError::NoNodes {
            tier: tier.to_owned(),
            known: list(tiers),
        }),
    }
}

fn list(tiers: &[TierNodes]) -> String {
    let one = |tier: &TierNodes| {
        let nodes: Vec<String> = tier.nodes.iter().map(ToString::to_string).collect();
        format!("{} (node {})", tier.tier, nodes.join(", "))
    };
    match tiers {
        [] => "no memory tier that could be identified".into(),
        some => some.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// The smallest integers in the ratio of `exact`, or the closest ratio of integers from 1 to 255.
fn within_limits(exact: &[u64]) -> Vec<u32> {
    let divisor = exact.iter().copied().fold(0, gcd).max(1);
    let reduced: Vec<u64> = exact.iter().map(|weight| weight / divisor).collect();
    let most = reduced.iter().copied().max().unwrap_or(1).max(1);
    let limit = u64::from(*KERNEL_WEIGHTS.end());
    if most <= limit {
        return reduced.iter().map(|weight| *weight as u32).collect();
    }
    let scaled = |largest: u64| -> Vec<u32> {
        let one = |weight: &u64| {
            (*weight as f64 * largest as f64 / most as f64)
                .round()
                .max(1.0)
        };
        reduced.iter().map(|weight| one(weight) as u32).collect()
    };
    let total: u64 = reduced.iter().sum();
    let error = |weights: &[u32]| -> f64 {
        let sum: u32 = weights.iter().sum();
        let share = |weight: u32| f64::from(weight) / f64::from(sum);
        let pairs = weights.iter().zip(&reduced);
        pairs
            .map(|(got, wanted)| (share(*got) - *wanted as f64 / total as f64).abs())
            .fold(0.0, f64::max)
    };
    // Trying every largest weight is cheap, and finds better ratios than scaling to 255 only.
    (1..=limit)
        .map(scaled)
        .min_by(|a, b| error(a).total_cmp(&error(b)))
        .unwrap_or_else(|| vec![1; exact.len()])
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn lcm(a: u64, b: u64) -> u64 {
    a / gcd(a, b).max(1) * b
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tier(name: &str, nodes: &[u32]) -> TierNodes {
        TierNodes {
            tier: name.into(),
            nodes: nodes.to_vec(),
        }
    }

    fn weights(dram: u32, cxl: u32) -> Vec<(String, u32)> {
        vec![("dram".into(), dram), ("cxl".into(), cxl)]
    }

    #[test]
    fn a_tier_of_several_nodes_gets_its_share_and_not_more() {
        let tiers = [tier("dram", &[0]), tier("cxl", &[2, 3, 4, 5])];
        let made = node_weights(&weights(3, 2), &tiers).unwrap();
        let expected = [(0, 6), (2, 1), (3, 1), (4, 1), (5, 1)];
        assert_eq!(made.weights, BTreeMap::from(expected));
        assert!(made.worst_deviation() < 1e-12, "{made:?}");
    }

    #[test]
    fn weights_beyond_the_kernels_are_rounded_and_the_difference_is_told() {
        let tiers = [tier("dram", &[0]), tier("cxl", &[1, 2, 3])];
        let made = node_weights(&weights(100, 1), &tiers).unwrap();
        assert_eq!(made.weights[&0], 255);
        assert_eq!(made.weights[&1], 1);
        let (_, asked, got) = &made.shares[1];
        assert!((asked - 1.0 / 101.0).abs() < 1e-12);
        assert!((got - 3.0 / 258.0).abs() < 1e-12);
        assert!(made.worst_deviation() > 0.001);
    }

    #[test]
    fn all_on_one_tier_is_no_weight_and_says_so() {
        let tiers = [tier("dram", &[0]), tier("cxl", &[1])];
        let error = node_weights(&weights(1, 0), &tiers).unwrap_err();
        assert!(error.is_bad_input());
        let text = error.to_string();
        assert!(
            text.contains("everything on dram") && text.contains("leave out cxl"),
            "{text}"
        );
    }

    #[test]
    fn a_tier_without_nodes_is_named_with_what_there_is() {
        let text = node_weights(&weights(1, 1), &[tier("dram", &[0, 1])])
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("tier cxl") && text.contains("dram (node 0, 1)"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn every_weight_is_one_the_kernel_takes_and_shares_are_near(
            dram in 1_u32..=255, cxl in 1_u32..=255, drams in 1_u32..5, cxls in 1_u32..9,
        ) {
            let nodes: Vec<u32> = (0..drams + cxls).collect();
            let (first, second) = nodes.split_at(drams as usize);
            let tiers = [tier("dram", first), tier("cxl", second)];
            let made = node_weights(&weights(dram, cxl), &tiers).unwrap();
            prop_assert_eq!(made.weights.len(), nodes.len());
            prop_assert!(made.weights.values().all(|weight| KERNEL_WEIGHTS.contains(weight)));
            // Weights are at least 1 and at most 255 per node, so a tier of n nodes beside one node
            // cannot get a smaller share than n / (n + 255).
            let least = f64::from(cxls.max(drams)) / 255.0;
            prop_assert!(made.worst_deviation() <= least, "{:?}", made);
        }
    }
}
