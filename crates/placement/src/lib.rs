//! Placement policies: which column goes to which tier, and why.
//!
//! A policy receives the size of each column and how many bytes of it the workload reads, and
//! returns one placement per column:
//!
//! ```text
//!   columns (bytes, bytes read) ──► Policy ──► Decision per column (placement, staged?, reason)
//!                                                 │                    │
//!                                    memory: place, migrate    model: tier shares per structure
//! ```
//!
//! The same decisions apply to a real machine with these tiers and to the model of a machine that
//! this process does not run on. The crate makes no system call and moves no page: callers do that.

pub mod adaptive;
mod by_heat;
mod capped;
mod dram_limit;
mod error;
pub mod heat;
pub use tierloom_model::reference::mixes;
mod policy;
mod shares;
pub mod tiering;

pub use by_heat::ByHeat;
pub use capped::{Capped, CappedColumn, CappedQuery, capped};
pub use dram_limit::{DramLimitError, dram_limit};
pub use error::{AdaptError, PolicyError};
pub use policy::{ColumnLimit, ColumnUse, Decision, Policy};
pub use shares::{model_placement, tier_shares};
