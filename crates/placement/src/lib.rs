//! Placement policies: which column goes to which tier, and why.
//!
//! A policy sees what each column weighs and how much of it the workload reads, and answers with a placement per column:
//!
//! ```text
//!   columns (bytes, bytes read)  ──►  Policy  ──►  Decision per column (placement, staged?, reason)
//!                                                    │                    │
//!                                       memory: place, migrate    model: tier shares per structure
//! ```
//! The same decisions drive a machine that has the tiers and the model of one that this process does not run on.

pub mod adaptive;
mod by_heat;
mod capped;
mod error;
pub mod heat;
pub mod mixes;
mod policy;
mod shares;

pub use by_heat::ByHeat;
pub use capped::{Capped, CappedColumn, CappedQuery, capped};
pub use error::{AdaptError, PolicyError};
pub use policy::{ColumnLimit, ColumnUse, Decision, Policy, bytes_of};
pub use shares::{model_placement, tier_shares};
