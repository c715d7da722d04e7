//! Captured work as it would run on machines that are described by profiles.
//!
//! ```text
//!   lines per transaction, captured here ──┐
//!   compute time, measured in cache ───────┼──> model ──> rate, traffic by tier
//!   placement ──> shares of tiers by part ─┘
//! ```
//! Clients that wait for a log wait as long as they did here, on this machine's device. They and
//! the workers are a closed system (Denning and Buzen, "The Operational Analysis of Queueing
//! Network Models", 1978), priced at its best:
//!
//! ```text
//!   transactions/s = clients / (service time with so many workers busy + wait for the log)
//!   workers busy   = transactions/s * service time, at most all
//! ```
//! Waits for other transactions are in it as far as tries that were given up are part of the
//! captured work; how often transactions would meet on the other machine is not modelled, nor how
//! many bytes per second the log's device takes.

use super::measure::{Compute, StoreRun};
use super::plan::StorePlacement;
use tierloom_model::{
    Background, Machine, ModelError, Options, QuerySolution, TierShares, solve_all,
};
use tierloom_placement::tier_shares;

/// A modelled run.
#[derive(Debug, Clone)]
pub struct StorePrice {
    pub transactions_per_s: f64,
    /// Solution for the workers that are busy.
    pub solution: QuerySolution,
    /// Share of their time that those workers are busy, 0 to 1; the tiers carry so much less.
    pub busy: f64,
}

impl StorePrice {
    /// Traffic to a tier: reads and writes, GB/s.
    pub fn traffic(&self, tier: &str) -> (f64, f64) {
        let (read, write) = self.solution.read_write_gbps(tier);
        (read * self.busy, write * self.busy)
    }
}

/// Clients that wait for a log.
#[derive(Debug, Clone, Copy)]
pub struct LogWaits {
    pub clients: u32,
    /// What each waits per transaction, ns.
    pub wait_ns: f64,
}

impl LogWaits {
    /// The waits that a run with a log captured, for so many clients.
    pub fn captured(run: &StoreRun, clients: u32) -> Option<Self> {
        run.log?;
        let waited_ns: u64 = run.result.kinds.iter().map(|kind| kind.waits.log_ns).sum();
        let wait_ns = waited_ns as f64 / run.captured.tuples as f64;
        Some(Self { clients, wait_ns })
    }
}

/// Workers, and their reads and writes of a tier, GB/s.
pub type Others<'a> = (u32, &'a dyn Fn(&str) -> (f64, f64));

/// Captured work, and the machine that it is priced on.
pub struct Pricing<'a> {
    pub run: &'a StoreRun,
    pub compute: Compute,
    pub placement: &'a StorePlacement,
    pub machine: &'a Machine,
    pub workers: u32,
    /// Clients that wait for a log; without any each worker is a client.
    pub waits: Option<LogWaits>,
}

impl Pricing<'_> {
    /// Prices the transactions beside what `options` say.
    ///
    /// # Errors
    /// Why they cannot run there: the machine lacks a tier, or nothing was captured.
    pub fn transactions(&self, options: &Options) -> Result<StorePrice, String> {
        let captured = &self.run.captured;
        let phase = captured.phase(self.compute.transaction_ns);
        let placed = captured.placement(&self.shares()?);
        let solve = |busy| {
            let phases = std::slice::from_ref(&phase);
            solve_all(self.machine, phases, &placed, busy, options)
        };
        let tuples = captured.tuples as f64;
        closed(solve, tuples, self.workers, self.waits).map_err(|e| e.to_string())
    }

    /// Prices merging by one thread beside groups of so many workers with the given traffic on a
    /// tier (reads and writes, GB/s), ns per row; `None` if there was none.
    ///
    /// A full tier serves its requests in turn, so that each worker counts as far as it uses it.
    ///
    /// # Errors
    /// As [`Pricing::transactions`].
    pub fn merging_ns(&self, others: &[Others<'_>]) -> Result<Option<f64>, String> {
        let captured = self.run.merging.as_ref().zip(self.compute.merged_row_ns);
        let Some((merging, compute_ns)) = captured else {
            return Ok(None);
        };
        let tiers = &self.machine.tiers;
        let background = tiers.iter().map(|tier| {
            let (mut read_gbps, mut write_gbps, mut users) = (0.0, 0.0, 0.0);
            for (workers, traffic) in others {
                let sum = |(read, write): (f64, f64)| read + write;
                let all: f64 = tiers.iter().map(|tier| sum(traffic(&tier.name))).sum();
                let here = traffic(&tier.name);
                read_gbps += here.0;
                write_gbps += here.1;
                users += f64::from(*workers) * sum(here) / all.max(f64::MIN_POSITIVE);
            }
            Background {
                tier: tier.name.clone(),
                read_gbps,
                write_gbps,
                own_share: 1.0 / (1.0 + users),
            }
        });
        let options = Options {
            background: background.collect(),
            ..Options::default()
        };
        let phase = merging.phase(compute_ns);
        let placed = merging.placement(&self.shares()?);
        let phases = std::slice::from_ref(&phase);
        let solved = solve_all(self.machine, phases, &placed, 1, &options);
        let solved = solved.map_err(|e| e.to_string())?;
        Ok(Some(solved.time_ns / phase.tuples))
    }

    /// Shares of the machine's tiers by part.
    fn shares(&self) -> Result<[TierShares; 4], String> {
        let specs = self.placement.specs.iter();
        let shares = specs.map(|spec| tier_shares(spec, self.machine));
        let shares = shares.collect::<Result<Vec<_>, _>>();
        let shares = shares.map_err(|e| e.to_string())?;
        <[TierShares; 4]>::try_from(shares).map_err(|_| "four parts".to_owned())
    }
}

/// The system of clients and workers in balance; without waits all workers are busy.
fn closed(
    solve: impl Fn(u32) -> Result<QuerySolution, ModelError>,
    transactions: f64,
    workers: u32,
    waits: Option<LogWaits>,
) -> Result<StorePrice, ModelError> {
    // Workers that clients keep busy, if so many are.
    let kept_busy = |busy: u32, time_ns: f64, waits: LogWaits| {
        let service_ns = time_ns * f64::from(busy) / transactions;
        f64::from(waits.clients) * service_ns / (service_ns + waits.wait_ns)
    };
    let all = solve(workers)?;
    let by_time = |solution: QuerySolution, busy: f64| StorePrice {
        transactions_per_s: transactions / solution.time_ns * 1e9 * busy,
        solution,
        busy,
    };
    let Some(waits) = waits else {
        return Ok(by_time(all, 1.0));
    };
    let (mut low, mut high, mut solution) = (0, workers, all);
    if kept_busy(workers, solution.time_ns, waits) >= f64::from(workers) {
        return Ok(by_time(solution, 1.0));
    }
    // The fewest that are not all busy: more of them are slower, but not so much that more wait.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let found = solve(middle)?;
        match kept_busy(middle, found.time_ns, waits) <= f64::from(middle) {
            true => (high, solution) = (middle, found),
            false => low = middle,
        }
    }
    let busy = kept_busy(high, solution.time_ns, waits) / f64::from(high);
    Ok(by_time(solution, busy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, Op, Pattern, Phase, PhaseKind, Placement, StructureClass};

    const TRANSACTIONS: f64 = 1e6;

    /// Transactions of 20 µs and 20 lines that wait for each other.
    fn priced_on(tier: &str, workers: u32, waits: Option<LogWaits>) -> StorePrice {
        let machine = tierloom_suite::machine::load("sap26-pool").unwrap();
        let access = Access {
            structure: "rows".to_owned(),
            class: StructureClass::Column,
            pattern: Pattern::Dependent,
            op: Op::Read,
            lines_per_tuple: 20.0,
            footprint_bytes: 100 << 30,
            simd: false,
        };
        let phase = Phase::new("transactions", PhaseKind::Other, TRANSACTIONS);
        let phase = phase.compute_ns(20_000.0).access(access);
        let placement = Placement::new(tier_shares(&tier.parse().unwrap(), &machine).unwrap());
        let solve = |busy| {
            let phases = std::slice::from_ref(&phase);
            solve_all(&machine, phases, &placement, busy, &Options::default())
        };
        closed(solve, TRANSACTIONS, workers, waits).unwrap()
    }

    fn priced(tier: &str, waits: Option<LogWaits>) -> StorePrice {
        priced_on(tier, 96, waits)
    }

    fn waits(clients: u32, wait_ns: f64) -> Option<LogWaits> {
        Some(LogWaits { clients, wait_ns })
    }

    #[test]
    fn clients_that_wait_long_for_a_log_do_not_notice_slow_memory() {
        let loss = |waits| {
            let rate = |tier| priced(tier, waits).transactions_per_s;
            1.0 - rate("cxl") / rate("dram")
        };
        assert!(loss(None) > 0.1, "{}", loss(None));
        let waiting = loss(waits(288, 2e6));
        assert!(waiting < 0.02, "{waiting}");
        let rate = priced("dram", waits(288, 2e6)).transactions_per_s;
        let most = 288.0 / 2e-3;
        assert!(rate < most && rate > 0.97 * most, "{rate}");
    }

    #[test]
    fn clients_that_hardly_wait_are_limited_by_the_workers() {
        let all = priced("dram", None).transactions_per_s;
        assert_eq!(priced("dram", waits(1000, 10.0)).transactions_per_s, all);
        // Without waits, each client is a worker.
        let few = priced("dram", waits(48, 0.0));
        let alike = priced_on("dram", 48, None);
        let ratio = few.transactions_per_s / alike.transactions_per_s;
        assert!((ratio - 1.0).abs() < 1e-6, "{ratio}");
        assert!(few.transactions_per_s < all);
    }
}
