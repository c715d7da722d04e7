//! Maps weights of profile tiers to placements of regions on this machine.
//!
//! Weights are real shares; the kernel interleaves whole pages in repeating rounds. The shortest
//! round that is close enough is used.

use crate::{EngineError, PlacedColumn};
use std::collections::BTreeMap;
use std::ops::Range;
use tierloom_memory::{Placement, PlacementSpec, Region, Target};
use tierloom_model::Machine;
use tierloom_model::search::Weights;
use tierloom_topology::{TierKind, Topology};

/// Shares that differ by no more than this count as the same placement.
///
/// Whole pages of a column cannot match weights exactly.
pub(super) const NEAR: f64 = 0.03;

/// Longest round of weights, in pages.
const MOST_ROUND: u64 = 100;

/// A round is accepted as soon as its shares are this close to those requested.
const CLOSE: f64 = 0.005;

/// The tiers of a machine profile that this machine has.
#[derive(Debug)]
pub(super) struct Tiers {
    topology: Topology,
    kinds: Vec<(String, TierKind)>,
}

pub(super) type Pages = BTreeMap<String, u64>;

impl Tiers {
    /// The profile's tiers on this machine.
    ///
    /// Also the profile restricted to them, and why nothing can be moved, if so.
    pub fn of(
        machine: &Machine,
        topology: &Topology,
    ) -> Result<(Self, Machine, Option<String>), EngineError> {
        let kind = |name: &str| name.parse::<TierKind>().ok();
        let here = |name: &str| kind(name).filter(|k| topology.tier(*k).is_some());
        let name = &machine.name;
        let mut kinds = Vec::new();
        let mut missing = Vec::new();
        for tier in &machine.tiers {
            match here(&tier.name) {
                Some(kind) => kinds.push((tier.name.clone(), kind)),
                None => missing.push(tier.name.clone()),
            }
        }
        let first = machine.tiers.first().map(|t| t.name.as_str());
        // Everything is on the first tier by default, so a machine without it cannot use the
        // profile.
        if first.is_none() || kinds.first().map(|(n, _)| n.as_str()) != first {
            return Err(EngineError::Adaptive {
                problem: format!(
                    "the first tier of machine profile {name} is {}, and this machine has none (see `tierloom topology`; --tiers names tiers yourself)",
                    first.unwrap_or("nowhere")
                ),
            });
        }
        let mut restricted = machine.clone();
        restricted.tiers.retain(|t| here(&t.name).is_some());
        // The memory of another socket does not count as a tier to move data to.
        let targets = kinds.iter().skip(1).filter(|(n, _)| n != "remote").count();
        let why = (targets == 0).then(|| match missing.as_slice() {
            [] => format!("machine profile {name} has one tier to place data on"),
            missing => format!(
                "machine profile {name} has data on {} too, and this machine has no such tier (see `tierloom topology`; --tiers names tiers yourself)",
                missing.join(" and ")
            ),
        });
        let topology = topology.clone();
        Ok((Tiers { topology, kinds }, restricted, why))
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Placement of an object of `pages` pages.
    ///
    /// The shortest round that meets the weights is used, so that neighbouring pages use all tiers
    /// at once.
    pub fn placement(&self, weights: &Weights, pages: u64) -> Result<Placement, EngineError> {
        Ok(self.spec(weights, pages).resolve(&self.topology)?)
    }

    /// Same as [`Self::placement`], in terms of tiers instead of nodes.
    pub fn spec(&self, weights: &Weights, pages: u64) -> PlacementSpec {
        let shares: Vec<(TierKind, f64)> = self
            .kinds
            .iter()
            .map(|(name, kind)| (*kind, weights.share(name)))
            .filter(|(_, share)| *share > 0.0)
            .collect();
        let mut best: Option<(f64, Vec<u32>)> = None;
        // A round longer than the object would never complete.
        for round in 1..=MOST_ROUND.min(pages.max(1)) {
            let counts = counts(&shares, round);
            let apart = |((_, share), count): (&(TierKind, f64), &u32)| {
                (f64::from(*count) / round as f64 - share).abs()
            };
            let error = shares.iter().zip(&counts).map(apart).fold(0.0, f64::max);
            if best.as_ref().is_none_or(|(least, _)| error < *least) {
                best = Some((error, counts));
            }
            if error <= CLOSE {
                break;
            }
        }
        let counts = best.map(|(_, counts)| counts).unwrap_or_default();
        let targets = shares.iter().map(|(kind, _)| Target::Tier(*kind));
        PlacementSpec::Weighted(targets.zip(counts).collect())
    }

    /// Bytes of `range` on each tier when `region` has the placement.
    pub fn pages(&self, region: &Region, placement: &Placement, range: Range<u64>) -> Pages {
        let mut pages = Pages::new();
        for run in placement.runs_in(region.pages(), region.start_page(), range) {
            // Runs without a node are placed by the kernel's policy and count as elsewhere.
            let kind = run.node.and_then(|node| self.topology.tier_of(node));
            let known = self.kinds.iter().find(|(_, k)| Some(*k) == kind);
            let name = known.map_or_else(|| "elsewhere".to_owned(), |(name, _)| name.clone());
            *pages.entry(name).or_default() += run.pages * region.page_size().bytes() as u64;
        }
        pages
    }

    /// Bytes of a column by tier, according to the placements of its regions.
    pub fn of_column(&self, column: &PlacedColumn) -> Pages {
        let mut sum = Pages::new();
        for region in column.regions() {
            add(
                &mut sum,
                self.pages(region, &region.placement(), 0..region.pages()),
            );
        }
        sum
    }
}

pub(super) fn add(sum: &mut Pages, more: Pages) {
    for (tier, bytes) in more {
        *sum.entry(tier).or_default() += bytes;
    }
}

/// Whether bytes by tier have the shares of `weights`, to within [`NEAR`].
pub(super) fn are_near(bytes: &Pages, weights: &Weights) -> bool {
    distance(bytes, weights) <= NEAR
}

/// Share of the bytes that are on other tiers than `weights` say, 0 to 1.
pub(super) fn distance(bytes: &Pages, weights: &Weights) -> f64 {
    let all: u64 = bytes.values().sum();
    if all == 0 {
        return 0.0;
    }
    let share = |tier: &str| bytes.get(tier).copied().unwrap_or(0) as f64 / all as f64;
    let mut tiers: Vec<&str> = bytes.keys().map(String::as_str).collect();
    tiers.extend(weights.iter().map(|(tier, _)| tier));
    tiers.sort_unstable();
    tiers.dedup();
    let apart = |tier: &&str| (share(tier) - weights.share(tier)).abs();
    // Every displaced byte is counted twice: where it is and where it should be.
    tiers.iter().map(apart).sum::<f64>() / 2.0
}

/// Pages of a round by tier, by the largest-remainder method.
fn counts(shares: &[(TierKind, f64)], round: u64) -> Vec<u32> {
    let exact: Vec<f64> = shares.iter().map(|(_, s)| s * round as f64).collect();
    let mut counts: Vec<u32> = exact.iter().map(|e| e.floor() as u32).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let rest = |i: usize| exact[i] - exact[i].floor();
    order.sort_by(|a, b| rest(*b).total_cmp(&rest(*a)).then(a.cmp(b)));
    let given: u64 = counts.iter().map(|c| u64::from(*c)).sum();
    for index in order.into_iter().take(round.saturating_sub(given) as usize) {
        counts[index] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_memory::{FakeNode, fake_topology};
    use tierloom_model::profiles;

    fn two_tiers() -> Topology {
        let node = |node, cpus| FakeNode {
            node,
            cpus,
            memory_bytes: 1 << 30,
        };
        fake_topology(&[node(0, 2), node(1, 0)]).unwrap()
    }

    #[test]
    fn rounds_are_short_and_near_what_is_asked() {
        let machine = profiles::load("nus24").unwrap();
        let (tiers, _, why) = Tiers::of(&machine, &two_tiers()).unwrap();
        assert_eq!(why, None);
        let text = |weights: &str, pages| {
            let weights = weights.parse().unwrap();
            tiers.placement(&weights, pages).unwrap().to_string()
        };
        assert_eq!(text("dram 60, cxl 40", 1000), "0:3,1:2");
        assert_eq!(text("dram 81, cxl 19", 1000), "0:13,1:3");
        assert_eq!(text("dram 81, cxl 19", 5), "0:4,1:1");
        assert_eq!(text("dram 97, cxl 3", 5), "0");
        assert_eq!(text("cxl 1", 5), "1");
    }

    #[test]
    fn a_tier_that_is_not_here_is_left_out_and_named() {
        let machine = profiles::load("nus24").unwrap();
        let one = fake_topology(&[FakeNode {
            node: 0,
            cpus: 2,
            memory_bytes: 1 << 30,
        }])
        .unwrap();
        let (_, restricted, why) = Tiers::of(&machine, &one).unwrap();
        assert_eq!(restricted.tiers.len(), 1);
        assert!(why.unwrap().contains("on cxl"));
    }
}
