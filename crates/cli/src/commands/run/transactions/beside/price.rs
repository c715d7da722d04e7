//! Transactions and streams on a modelled machine, each with the traffic of the other.

use super::asked::BesidePlan;
use crate::commands::run::transactions::price::{Pricing, StorePrice};
use tierloom_model::{Options, QuerySolution, balance, solve_all};
use tierloom_suite::Streams;

/// Both on a modelled machine.
pub struct BesidePrice {
    /// The transactions beside the streams.
    pub transactions: StorePrice,
    /// Queries per hour alone and beside.
    pub queries_per_hour: [f64; 2],
    /// The streams beside the transactions.
    pub streams: QuerySolution,
    /// Merging beside both, ns per row; `None` if there was none.
    pub merging_ns: Option<f64>,
}

/// One of the two, solved.
enum Solved {
    Transactions(Box<StorePrice>),
    Streams(Box<QuerySolution>),
}

impl Solved {
    fn traffic(&self, tier: &str) -> (f64, f64) {
        match self {
            Solved::Transactions(price) => price.traffic(tier),
            Solved::Streams(solution) => solution.read_write_gbps(tier),
        }
    }
}

/// Prices streams beside transactions.
///
/// # Errors
/// Why they cannot run there.
pub fn price(
    asked: &BesidePlan,
    streams: &Streams<'_>,
    pricing: &Pricing<'_>,
) -> Result<BesidePrice, String> {
    let machine = pricing.machine;
    let work = streams.work_on(machine, &asked.placement);
    let work = work.map_err(|e| e.to_string())?;
    let workers = [pricing.workers, asked.workers(machine)];
    let queries = |options: &Options| {
        let (phases, placed) = (&work.phases, &work.placement);
        solve_all(machine, phases, placed, workers[1], options).map_err(|e| e.to_string())
    };
    let hourly = |of: &QuerySolution| work.queries as f64 / of.time_ns * 3600e9;
    let alone = hourly(&queries(&Options::default())?);
    let tiers: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
    let solved = balance(&workers, &tiers, |index, background| {
        let options = Options {
            background,
            ..Options::default()
        };
        let solved = match index {
            0 => Solved::Transactions(Box::new(pricing.transactions(&options)?)),
            _ => Solved::Streams(Box::new(queries(&options)?)),
        };
        let traffic = tiers.iter().map(|tier| solved.traffic(tier)).collect();
        Ok::<_, String>((solved, traffic))
    })?;
    let [Solved::Transactions(transactions), Solved::Streams(streams)] = &solved[..] else {
        return Err("the model did not solve both".to_owned());
    };
    let merging_ns = pricing.merging_ns(&[
        (workers[0], &|tier| transactions.traffic(tier)),
        (workers[1], &|tier| streams.read_write_gbps(tier)),
    ])?;
    Ok(BesidePrice {
        merging_ns,
        transactions: (**transactions).clone(),
        queries_per_hour: [alone, hourly(streams)],
        streams: (**streams).clone(),
    })
}
