//! Price of memory: the cheapest server for a demand of memory, with and without CXL devices.
//!
//! The question and the first price data are those of Weisgut et al., "CXL Memory Performance for
//! In-Memory Data Processing", PVLDB 18(9), 2025. A server is some CPUs with DIMMs in their slots,
//! and optionally CXL devices with their own slots; its price is that of the CPUs, the DIMMs and
//! the devices' boards. Nothing else (mainboard, power, licences) is counted, because it is the
//! same for all configurations that are compared.
//!
//! ```text
//!   price file (YAML) ── Prices ── Offer per Kind ── cheapest(demand)
//!                         │              └── findings: break-even demands, savings, board prices
//!                         └── every assumption varied ── sensitivities: what decides the findings
//! ```
//!
//! Prices are step functions of the demand: between two capacities that can be built, nothing
//! changes. [`findings()`] evaluates every step, so the results do not depend on a grid of demands.
//!
//! ```
//! use tierloom_model::cost::{Kind, Prices};
//! let prices = Prices::builtin()?;
//! let cheapest = |kind: Kind| tierloom_model::cost::cheapest(&prices, 5 * 1024, kind);
//! let price = |kind: Kind| cheapest(kind).map(|config| config.price);
//! assert_eq!(price(Kind::CPU_MEMORY), Some(110_400.0));
//! assert_eq!(price(Kind::cxl(1)), Some(43_536.0));
//! # Ok::<(), tierloom_model::cost::PriceError>(())
//! ```

mod changes;
mod config;
mod error;
mod findings;
mod kind;
mod offer;
mod path;
mod pool;
mod pool_parts;
mod prices;
mod sensitivity;
mod sentences;
#[cfg(test)]
mod tests;
mod throughput;
mod words;
mod yaml;

pub use changes::Group;
pub use config::{Config, ConfigDevices, DimmSet};
pub use error::PriceError;
pub use findings::{DemandRange, Findings, KindFindings, Saving, findings};
pub use kind::Kind;
pub use offer::{Offer, cheapest};
pub use pool::{
    JointDemand, PoolComparison, PoolOffer, PoolSensitivity, break_even_hosts, compare_pool,
    pool_sensitivities,
};
pub use pool_parts::PoolParts;
pub use prices::{BUILTIN_YAML, Cpu, Device, Dimm, Prices, Rules, SCHEMA};
pub use sensitivity::{Decider, Metric, Movement, Sensitivity, deciders, sensitivities};
pub use sentences::sentences;
pub use throughput::{queries_per_hour, scaled, ssb_filling};
pub use words::{gib, money, share_words};
