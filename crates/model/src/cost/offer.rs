//! The cheapest configuration of a kind by demand.

use super::config::{Config, cheapest_first, options};
use super::kind::Kind;
use super::prices::Prices;

/// What one kind of configuration costs, for every demand.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    kind: Kind,
    /// By rising capacity and price.
    steps: Vec<Config>,
    /// The same, but with every number of CPUs and devices.
    options: Vec<Config>,
}

impl Offer {
    /// Works out the configurations of a kind.
    pub fn new(prices: &Prices, kind: Kind) -> Offer {
        let options = options(prices, kind);
        let steps = cheapest_first(options.clone(), |c| (c.capacity_gib(), c.price));
        Offer {
            kind,
            steps,
            options,
        }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The cheapest configuration that holds `demand_gib`; `None` if none does. Of equally cheap ones it is the largest.
    pub fn cheapest(&self, demand_gib: u64) -> Option<&Config> {
        let first = self
            .steps
            .partition_point(|c| c.capacity_gib() < demand_gib);
        self.steps.get(first)
    }

    /// The configurations that are the cheapest for some demand, by rising capacity and price.
    pub fn steps(&self) -> &[Config] {
        &self.steps
    }

    /// For every number of CPUs and devices, the configurations that hold `demand_gib` and are the cheapest for some demand from there on:
    /// what to choose from if more counts than the price.
    pub fn options(&self, demand_gib: u64) -> impl Iterator<Item = &Config> {
        self.options
            .iter()
            .filter(move |c| c.capacity_gib() >= demand_gib)
    }
}

/// The cheapest configuration of a kind that holds `demand_gib`; `None` if none does.
pub fn cheapest(prices: &Prices, demand_gib: u64, kind: Kind) -> Option<Config> {
    Offer::new(prices, kind).cheapest(demand_gib).cloned()
}
