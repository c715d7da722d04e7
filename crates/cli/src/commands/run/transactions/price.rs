//! Captured work as it would run on machines that are described by profiles.
//!
//! ```text
//!   lines per transaction, captured here ──┐
//!   compute time, measured in cache ───────┼──> model ──> rate, traffic by tier
//!   placement ──> shares of tiers by part ─┘
//! ```
//! Waits for other transactions are in it as far as tries that were given up are part of the
//! captured work; how often transactions would meet on the other machine is not modelled, and
//! neither is the log.

use super::plan::StorePlacement;
use tierloom_model::{Machine, Options, QuerySolution, TierShares, solve_all};
use tierloom_oltp::Captured;
use tierloom_placement::tier_shares;

/// A modelled run.
pub struct StorePrice {
    pub transactions_per_s: f64,
    pub solution: QuerySolution,
}

/// Prices captured work under a placement.
///
/// # Errors
/// Why it cannot run there: the machine lacks a tier, or nothing was captured.
pub fn price(
    captured: &Captured,
    compute_ns: f64,
    placement: &StorePlacement,
    (machine, workers): (&Machine, u32),
) -> Result<StorePrice, String> {
    let shares = placement
        .specs
        .iter()
        .map(|spec| tier_shares(spec, machine));
    let shares = shares
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())?;
    let shares = <[TierShares; 4]>::try_from(shares).map_err(|_| "four parts".to_owned())?;
    let phase = captured.phase(compute_ns);
    let placed = captured.placement(&shares);
    let solution = solve_all(machine, &[phase], &placed, workers, &Options::default());
    let solution = solution.map_err(|e| e.to_string())?;
    Ok(StorePrice {
        transactions_per_s: captured.transactions as f64 / solution.time_ns * 1e9,
        solution,
    })
}
