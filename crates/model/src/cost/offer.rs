//! Cheapest configuration of one kind as a function of the demand.

use super::config::{Config, cheapest_first, options};
use super::kind::Kind;
use super::prices::Prices;

/// Price of one kind of configuration for every demand.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    kind: Kind,
    /// Pareto front of capacity and price, by rising capacity and price.
    steps: Vec<Config>,
    /// The same, one front per number of CPUs and devices.
    options: Vec<Config>,
}

impl Offer {
    /// Enumerates the configurations of a kind.
    pub fn new(prices: &Prices, kind: Kind) -> Offer {
        let options = options(prices, kind);
        let steps = cheapest_first(options.clone(), |c| (c.capacity_gib(), c.price));
        Offer {
            kind,
            steps,
            options,
        }
    }

    /// The kind that all configurations belong to.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Cheapest configuration of at least `demand_gib` GiB; `None` if the demand is too large.
    ///
    /// Of equally cheap ones it is the largest.
    pub fn cheapest(&self, demand_gib: u64) -> Option<&Config> {
        // Capacity and price rise together along the front, so the first one that is large enough
        // is the cheapest.
        let first = self
            .steps
            .partition_point(|c| c.capacity_gib() < demand_gib);
        self.steps.get(first)
    }

    /// Configurations that are the cheapest for some demand, by rising capacity and price.
    pub fn steps(&self) -> &[Config] {
        &self.steps
    }

    /// Candidates for a demand if more counts than the price.
    ///
    /// For every number of CPUs and devices, these are the configurations of at least `demand_gib`
    /// GiB that are the cheapest for some demand from there on.
    pub fn options(&self, demand_gib: u64) -> impl Iterator<Item = &Config> {
        self.options
            .iter()
            .filter(move |c| c.capacity_gib() >= demand_gib)
    }
}

/// Cheapest configuration of a kind with at least `demand_gib` GiB; `None` if the demand is too
/// large.
pub fn cheapest(prices: &Prices, demand_gib: u64, kind: Kind) -> Option<Config> {
    Offer::new(prices, kind).cheapest(demand_gib).cloned()
}
