//! Findings from prices: where CPU memory is cheapest, how much CXL saves, and the break-even price
//! of a device.
//!
//! Both prices are step functions of the demand, so they are compared once per step, and findings
//! are exact.

use super::config::Config;
use super::kind::Kind;
use super::offer::Offer;
use super::prices::Prices;
use serde::{Deserialize, Serialize};

/// Range of demands, GiB; the lower end is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemandRange {
    /// Largest size below the range: demands are larger than this.
    pub above_gib: u64,
    /// Largest demand in the range.
    pub to_gib: u64,
}

impl DemandRange {
    /// Whether the range includes a demand.
    pub fn contains(self, demand_gib: u64) -> bool {
        self.above_gib < demand_gib && demand_gib <= self.to_gib
    }
}

/// Saving of a kind over CPU memory, for a range of demands in which neither price changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    /// Range of demands, one step of both prices.
    pub range: DemandRange,
    /// Saving over the price of CPU memory, as a share; negative if the kind costs more.
    pub share: f64,
    /// Cheapest configuration of CPU memory alone.
    pub cpu_memory: Config,
    /// Cheapest configuration of the kind.
    pub config: Config,
    /// Increase of the price of one device's board at which the kind breaks even with CPU memory.
    ///
    /// It is taken with the number of devices that bears most; negative where the kind costs more
    /// already.
    pub bearable_board_price: f64,
}

/// Findings for one kind of configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KindFindings {
    /// Kind that is compared with CPU memory alone.
    pub kind: Kind,
    /// Demands for which it costs less than CPU memory alone; adjacent ranges are joined.
    pub cheaper: Vec<DemandRange>,
    /// Savings, one per range of constant prices that both can meet, by rising demand.
    pub savings: Vec<Saving>,
    /// Demands that this kind can meet and CPU memory alone cannot; `None` if there are none.
    pub only: Option<DemandRange>,
}

impl KindFindings {
    /// Largest saving; `None` if no demand can be compared.
    ///
    /// Of equal ones it is that at the smallest demand.
    pub fn largest(&self) -> Option<&Saving> {
        self.largest_above(0)
    }

    /// Largest saving in ranges that end above `gib`; `None` if there are none.
    pub fn largest_above(&self, gib: u64) -> Option<&Saving> {
        let above = self.savings.iter().filter(|s| s.range.to_gib > gib);
        above.fold(None, |best: Option<&Saving>, s| match best {
            Some(b) if b.share >= s.share => best,
            _ => Some(s),
        })
    }

    /// Saving at one demand; `None` if this kind or CPU memory cannot meet it.
    pub fn at(&self, demand_gib: u64) -> Option<&Saving> {
        self.savings.iter().find(|s| s.range.contains(demand_gib))
    }

    /// Savings with the smallest and the largest break-even increase of the board price; `None` if
    /// the kind saves nowhere.
    pub fn bearable_board_prices(&self) -> Option<(&Saving, &Saving)> {
        let by_price =
            |a: &&Saving, b: &&Saving| a.bearable_board_price.total_cmp(&b.bearable_board_price);
        let saving = || self.savings.iter().filter(|s| s.share > 0.0);
        Some((saving().min_by(by_price)?, saving().max_by(by_price)?))
    }
}

/// Findings from prices.
///
/// They are exact, as they are computed at every demand at which a price changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Largest demand up to which no other kind costs less than CPU memory alone, GiB; 0 if another
    /// kind is cheaper from the start.
    pub cpu_memory_cheapest_up_to_gib: u64,
    /// Largest demand that CPU memory alone can meet, GiB.
    pub cpu_memory_up_to_gib: u64,
    /// Findings for all other kinds, in the order given.
    pub kinds: Vec<KindFindings>,
}

impl Findings {
    /// Findings for a kind; `None` if it was not compared.
    pub fn of(&self, kind: Kind) -> Option<&KindFindings> {
        self.kinds.iter().find(|k| k.kind == kind)
    }

    /// Largest saving of a kind with several devices at demands beyond those at which one such
    /// device saves most.
    ///
    /// `None` if the kind has at most one device, or one device was not compared.
    pub fn beyond_one_device(&self, kind: Kind) -> Option<&Saving> {
        let one = Kind { devices: 1, ..kind };
        if kind.devices < 2 {
            return None;
        }
        let best = self.of(one)?.largest()?;
        self.of(kind)?.largest_above(best.range.to_gib)
    }

    /// Largest saving of any kind; `None` if no demand can be compared.
    pub fn largest_saving(&self) -> Option<&Saving> {
        let all = self.kinds.iter().filter_map(KindFindings::largest);
        all.max_by(|a, b| a.share.total_cmp(&b.share))
    }
}

/// Compares `kinds` with CPU memory alone.
pub fn findings(prices: &Prices, kinds: &[Kind]) -> Findings {
    let cpu = Offer::new(prices, Kind::CPU_MEMORY);
    let others = kinds.iter().filter(|k| k.devices > 0);
    let kinds: Vec<KindFindings> = others.map(|kind| of_kind(prices, &cpu, *kind)).collect();
    let up_to = cpu.steps().last().map_or(0, Config::capacity_gib);
    let first_loss = kinds
        .iter()
        .filter_map(|k| k.cheaper.first().map(|range| range.above_gib))
        .min();
    Findings {
        cpu_memory_cheapest_up_to_gib: first_loss.unwrap_or(up_to).min(up_to),
        cpu_memory_up_to_gib: up_to,
        kinds,
    }
}

fn of_kind(prices: &Prices, cpu: &Offer, kind: Kind) -> KindFindings {
    let offer = Offer::new(prices, kind);
    // Both prices are step functions that change only at capacities of their steps, so these ends
    // delimit all ranges.
    let mut ends: Vec<u64> = [cpu.steps(), offer.steps()]
        .concat()
        .iter()
        .map(Config::capacity_gib)
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let mut savings = Vec::new();
    let mut above_gib = 0;
    for to_gib in ends {
        let range = DemandRange { above_gib, to_gib };
        if let (Some(alone), Some(with)) = (cpu.cheapest(to_gib), offer.cheapest(to_gib)) {
            savings.push(Saving {
                range,
                share: 1.0 - with.price / alone.price,
                cpu_memory: alone.clone(),
                config: with.clone(),
                bearable_board_price: bearable(&offer, to_gib, alone.price),
            });
        }
        above_gib = to_gib;
    }
    let most = |offer: &Offer| offer.steps().last().map_or(0, Config::capacity_gib);
    let only = DemandRange {
        above_gib: most(cpu),
        to_gib: most(&offer),
    };
    KindFindings {
        kind,
        cheaper: cheaper(&savings),
        savings,
        only: (only.to_gib > only.above_gib).then_some(only),
    }
}

/// Largest increase of the board price, per device, at which some configuration is not more
/// expensive than `price`.
fn bearable(offer: &Offer, demand_gib: u64, price: f64) -> f64 {
    // A configuration with fewer devices may cost more now and bear more per device, so all numbers
    // of devices are tried.
    let per_device = offer
        .options(demand_gib)
        .map(|c| (price - c.price) / f64::from(c.device_count().max(1)));
    per_device.fold(f64::NEG_INFINITY, f64::max)
}

/// Ranges with a saving; adjacent ones are joined.
fn cheaper(savings: &[Saving]) -> Vec<DemandRange> {
    let mut ranges: Vec<DemandRange> = Vec::new();
    for range in savings.iter().filter(|s| s.share > 0.0).map(|s| s.range) {
        match ranges.last_mut().filter(|r| r.to_gib == range.above_gib) {
            Some(last) => last.to_gib = range.to_gib,
            None => ranges.push(range),
        }
    }
    ranges
}
