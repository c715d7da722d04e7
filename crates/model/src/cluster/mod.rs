//! Queries on a cluster of machines: what each node does, what it sends, and when it is done.
//!
//! A statement runs as `tierloom cluster` runs it (docs/cluster.md): facts are in shards, the other
//! tables on every node; each node does its part on its shards and sends states or rows to the
//! client, to one node or to all, which do the rest. [`SpreadQuery`] is a query cut in that way,
//! [`StatementWork`] prices its parts on a machine, and [`simulate`] adds what a scheduler or a
//! client and a network add.
//!
//! ```
//! use tierloom_model::cluster::*;
//! use tierloom_model::reference::work::Ssb;
//! use tierloom_model::{Options, Placement, TierShares, profiles};
//! let machine = profiles::load("nus24")?;
//! let network = NetworkLink { gbps: 12.5, round_trip_us: 50.0 };
//! let setup = ClusterSetup::new(4, network, ModelledBackend::Distributed);
//! let placement = Placement::new(TierShares::all("dram"));
//! let priced = PricedOn {
//!     machine: &machine,
//!     placement: &placement,
//!     workers: 32,
//!     options: &Options::default(),
//! };
//! let ssb = Ssb { query: "all".into(), compute_ns: 5.0, ..Ssb::default() };
//! let queries = ssb_spread(&ssb, 32);
//! let works: Result<Vec<_>, _> = queries.iter().map(|q| priced.work(q, &setup)).collect();
//! let run = simulate(&setup, &works?, 1);
//! assert_eq!(run.statements.len(), 13);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod benchmarks;
mod price;
mod setup;
mod simulate;
mod spread;

pub use benchmarks::{SSB_SHARDED, TPCH_SHARDED, ssb_spread, tpch_sent, tpch_spread};
pub use price::{LastOn, NodePart, PricedOn, StatementWork};
pub use setup::{ClusterSetup, ModelledBackend, NetworkLink, ShuffleOn, StatementCosts};
pub use simulate::{ClusterRun, StatementTimes, simulate};
pub use spread::{MERGE_NS, NodePhase, STATE_BYTES, Sent, SpreadQuery};
