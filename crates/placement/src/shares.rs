//! Policies on modelled machines, which have tiers but no nodes.

use crate::{ColumnUse, Policy, PolicyError};
use tierloom_memory::{PlacementSpec, Target};
use tierloom_model::{Machine, Placement, TierShares};
use tierloom_topology::TierKind;

/// Share of each tier of `machine` under a page placement.
///
/// `default` becomes all DRAM, because that is where the kernel puts pages that no policy covers.
///
/// # Errors
/// [`PolicyError::NotOnMachine`] if the placement names a node, or a tier that the machine does not
/// have, or if all its weights are 0.
pub fn tier_shares(spec: &PlacementSpec, machine: &Machine) -> Result<TierShares, PolicyError> {
    let weights: Vec<(Target, f64)> = match spec {
        PlacementSpec::Default => vec![(Target::Tier(TierKind::Dram), 1.0)],
        PlacementSpec::Bind(target) => vec![(*target, 1.0)],
        PlacementSpec::Weighted(parts) => parts
            .iter()
            .map(|(target, weight)| (*target, f64::from(*weight)))
            .collect(),
        PlacementSpec::Partitioned(parts) => parts.clone(),
    };
    let missing = |what: String| PolicyError::NotOnMachine {
        placement: spec.to_string(),
        what,
        machine: machine.name.clone(),
        tiers: machine
            .tiers
            .iter()
            .map(|t| t.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    };
    let mut named = Vec::new();
    for (target, weight) in weights.into_iter().filter(|(_, weight)| *weight > 0.0) {
        match target {
            Target::Node(node) => return Err(missing(format!("node {node}"))),
            Target::Tier(kind) if machine.tier(&kind.to_string()).is_none() => {
                return Err(missing(format!("tier {kind}")));
            }
            Target::Tier(kind) => named.push((kind.to_string(), weight)),
        }
    }
    let named: Vec<(&str, f64)> = named
        .iter()
        .map(|(name, weight)| (name.as_str(), *weight))
        .collect();
    TierShares::from_weights(&named).map_err(|e| missing(format!("no memory at all ({e})")))
}

/// Decisions of a policy as a placement for the model.
///
/// Columns go where the policy puts them; everything else (operator memory) is in DRAM.
///
/// # Errors
/// Same as [`tier_shares`].
pub fn model_placement(
    policy: &Policy,
    columns: &[ColumnUse],
    machine: &Machine,
) -> Result<Placement, PolicyError> {
    let mut placement = Placement::new(tier_shares(&PlacementSpec::Default, machine)?);
    for decision in policy.decide(columns) {
        placement
            .by_structure
            .insert(decision.column, tier_shares(&decision.placement, machine)?);
    }
    Ok(placement)
}
