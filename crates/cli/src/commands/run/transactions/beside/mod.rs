//! Streams of queries beside the transactions: what is asked for, measured by turns, and modelled.
//!
//! ```text
//!   round:  transactions alone | streams alone | both      the same store and tables all the time
//!
//!   model:  transactions ──traffic──> streams              until neither changes any more
//!                        <──traffic──
//! ```
//! Modelled streams have cores to themselves, so that nothing is shared but the tiers. Here they
//! share the processors too, unless clients and worker threads together are no more than those.

pub mod asked;
pub mod price;
pub mod turns;
