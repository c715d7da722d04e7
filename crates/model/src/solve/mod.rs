//! The closed queueing network and its solution.
//!
//! N workers circulate between compute (a delay) and the tiers, whose latency depends on their
//! utilisation. Throughput X is the root of `X = N / tau(X)`, found by a bracketed search. The
//! model is a mean-value one: it gives no distributions and no transients.
//! ```text
//!   Machine + Phase + Placement ── demand ──> per tuple: fixed time, waits and traffic per tier
//!                                               │
//!   tuples/s X  <── root search ── cycle time tau(X) = fixed + sum_t waits_t * latency_t(u_t(X))
//! ```

mod caches;
mod core;
mod demand;
mod solution;
mod together;

pub use solution::{
    Bottleneck, PhaseSolution, QuerySolution, QueryTier, Solution, TierLoad, TimeShares,
};

pub use together::{Domain, balance, solve_together};

use crate::error::ModelError;
use crate::machine::Machine;
use crate::work::{Phase, Placement};
use demand::Demand;
use serde::{Deserialize, Serialize};
use solution::Outcome;

/// Terms of the model that are on. Switching one off shows what it contributes (an ablation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Private and last-level caches answer a share of the repeated touches.
    pub llc: bool,
    /// Random accesses beyond the reach of the TLB cause page walks.
    pub tlb: bool,
    /// Cached stores read the line before they write it.
    pub rfo: bool,
    /// Latency grows with load; off: it stays at the idle latency up to the peak bandwidth.
    pub loaded_latency: bool,
    /// Prefetchers fetch unused lines in streams that skip lines.
    pub prefetch_waste: bool,
    /// Single lines at random addresses, and streams that prefetchers run ahead of, reach only a
    /// share of the peak bandwidth.
    pub random_share: bool,
    /// Full tiers deliver less the more the workers ask for.
    pub overload: bool,
    /// Reads and writes overlap where the tier is full duplex; off: they take turns.
    pub duplex: bool,
    /// Cached stores wait for a remote socket to give up the ownership of a line.
    pub ownership: bool,
    /// CXL switches on the path, and the way from other clusters, add latency.
    pub switches: bool,
    /// Out-of-order execution overlaps compute with memory time.
    pub overlap: bool,
    /// Background load of other hosts and other work on the tiers.
    pub background: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            llc: true,
            tlb: true,
            rfo: true,
            loaded_latency: true,
            prefetch_waste: true,
            random_share: true,
            overload: true,
            duplex: true,
            ownership: true,
            switches: true,
            overlap: true,
            background: true,
        }
    }
}

/// Switches one term off.
type Switch = fn(&mut Terms);

impl Terms {
    /// Names of all terms, each with the function that switches it off.
    pub const SWITCHES: [(&'static str, Switch); 12] = [
        ("llc", |t| t.llc = false),
        ("tlb", |t| t.tlb = false),
        ("rfo", |t| t.rfo = false),
        ("loaded_latency", |t| t.loaded_latency = false),
        ("prefetch_waste", |t| t.prefetch_waste = false),
        ("random_share", |t| t.random_share = false),
        ("overload", |t| t.overload = false),
        ("duplex", |t| t.duplex = false),
        ("ownership", |t| t.ownership = false),
        ("switches", |t| t.switches = false),
        ("overlap", |t| t.overlap = false),
        ("background", |t| t.background = false),
    ];

    /// All terms except the one called `name`; `None` if no term has that name.
    pub fn without(name: &str) -> Option<Terms> {
        let (_, off) = Terms::SWITCHES.iter().find(|(known, _)| *known == name)?;
        let mut terms = Terms::default();
        off(&mut terms);
        Some(terms)
    }
}

/// Background load on a tier: another host on a shared device, another socket, another query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Name of the loaded tier; entries for tiers that the machine lacks have no effect.
    pub tier: String,
    /// Read traffic of the others while the phase does not run, GB/s.
    #[serde(default)]
    pub read_gbps: f64,
    /// Their write traffic as seen at the memory, GB/s.
    #[serde(default)]
    pub write_gbps: f64,
    /// Share of the tier that the phase gets when demand exceeds the peak bandwidth, above 0 and
    /// below 1.
    ///
    /// One half for one other host, because devices serve their ports in turn.
    #[serde(default = "half")]
    pub own_share: f64,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn half() -> f64 {
    0.5
}

impl Background {
    /// Background of one other host that reads `read_gbps` GB/s from `tier`.
    pub fn reads(tier: impl Into<String>, read_gbps: f64) -> Self {
        Background {
            tier: tier.into(),
            read_gbps,
            write_gbps: 0.0,
            own_share: half(),
        }
    }
}

/// Options of the solver: terms, background load and co-running threads.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Options {
    /// Terms that are on; all by default.
    pub terms: Terms,
    /// Background load on the tiers; several entries for one tier add up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<Background>,
    /// Threads of other work on the same cores: they take their share of hardware threads and lines
    /// in flight.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub neighbours: u32,
}

/// Relative width at which the search ends: 2^-50, finer than any input.
const PRECISION: f64 = 1.0 / (1_u64 << 50) as f64;

/// Limit on the steps of the search.
///
/// Every third step at least halves the interval, so 160 steps give 53 halvings.
const STEPS: u32 = 160;

/// Throughput of one phase on a machine.
///
/// Each of N workers processes tuples one after the other (a closed network with N customers). The
/// cycle time of a tuple is, per worker,
///
/// ```text
///   memory(X) = sum over accesses  lines * miss * sum_t w_t (L_t(u_t) + switch_t) / C    memory
///                                + stores * miss * sum_t w_t ownership_t / C   ownership of lines
///                                + lines * hit  * L_llc / C                    last-level cache
///                                + lines * tlb_miss * walk / min(C, walkers)   page walks
///               at least lines * 64 / core_gbps                                bandwidth of a core
///   tau(X)    = max(compute, memory) + (1 - overlap) min(compute, memory) + dependent accesses
///               at least memory in the worker's share of its core's queues
///   u_t       = X busy_t + u_others,  busy_t = max(r, w) + (1 - duplex) min(r, w)
///               (both over what overload leaves of the peaks, see Tier::kept_of_peaks)
///               r = read bytes / read peak, w = write bytes / write peak
///               (bytes of single random lines: over their share of the peak)
///   X         = N / tau(X),  at most  min_t (1 - min(u_others, 1 - own share)) / busy_t
/// ```
///
/// where C is the number of lines a worker keeps in flight for that kind of access (Little's law:
/// throughput is lines in flight divided by latency), and w_t the share of the structure's pages on
/// tier t. Posted writes wait `write_latency_ns` in place of L_t where the profile gives it. The
/// arithmetic mean over tiers is right for page-interleaved data: a stream passes the pages of all
/// tiers one after the other, so the times add.
///
/// `N - X tau(X)` falls strictly in X, because L_t does not fall with u_t and u_t does not fall
/// with X; so there is exactly one root or none below saturation, and a search between 0 and the
/// unloaded throughput finds it. If the workers could still demand more when a tier is full, that
/// tier's peak bandwidth is the throughput, and the rest of the cycle is time in its queue.
///
/// More workers than cores share the queues of a core, which hold so many lines on average over
/// time (times their gain), and its compute throughput (times the yield of simultaneous
/// multithreading, SMT); workers beyond the hardware threads add nothing.
///
/// # Errors
/// [`ModelError`] if there are no workers, the phase does no work or has impossible numbers, the
/// placement names a tier that the machine lacks, or a machine built in code fails
/// [`Machine::check`].
pub fn solve(
    machine: &Machine,
    phase: &Phase,
    placement: &Placement,
    workers: u32,
    options: &Options,
) -> Result<Solution, ModelError> {
    machine.check()?;
    // The machine is checked here, because `solve_all` would repeat the check for every phase.
    solve_checked(machine, phase, placement, workers, options).map(|outcome| outcome.solution)
}

fn solve_checked(
    machine: &Machine,
    phase: &Phase,
    placement: &Placement,
    workers: u32,
    options: &Options,
) -> Result<Outcome, ModelError> {
    phase.check()?;
    if workers == 0 {
        return Err(ModelError::NoWorkers {
            phase: phase.name.clone(),
        });
    }
    if phase.is_idle() {
        return Err(ModelError::NoWork {
            phase: phase.name.clone(),
        });
    }
    let demand = Demand::of(machine, phase, placement, workers, options)?;
    let per_ns = throughput_per_ns(&demand);
    Ok(Outcome::new(machine, phase, &demand, per_ns))
}

/// Throughput of all workers together, tuples per ns.
fn throughput_per_ns(demand: &Demand<'_>) -> f64 {
    let wanted = |x: f64| demand.workers / demand.cycle_ns(x);
    // Latency is lowest without load, so this bounds the throughput from above.
    let unloaded = wanted(0.0);
    let full = demand.full_per_ns();
    let most = unloaded.min(full);
    let at_most = wanted(most) - most;
    // Saturated: the workers could do more than the tier (or as much), so the tier sets the
    // throughput.
    if at_most >= 0.0 {
        return most;
    }
    falling_root(|x| wanted(x) - x, (0.0, unloaded), (most, at_most))
}

/// Root of a falling function between `low`, where it is above 0, and `high`, where it is below;
/// each is given with its value.
///
/// Regula falsi with the Illinois modification, which halves the value of an end that stays (Dowell
/// and Jarratt, "A Modified Regula Falsi Method for Computing the Root of an Equation", BIT 11,
/// 1971), and a bisection whenever two steps have not halved the interval.
fn falling_root(f: impl Fn(f64) -> f64, low: (f64, f64), high: (f64, f64)) -> f64 {
    let ((mut low, mut above), (mut high, mut below)) = (low, high);
    let (mut width, mut since) = (high - low, 0);
    let mut stayed = 0_i32;
    for _ in 0..STEPS {
        if high - low <= PRECISION * high {
            break;
        }
        let secant = low + (high - low) * above / (above - below);
        let x = if since >= 2 || !(secant > low && secant < high) {
            0.5 * (low + high)
        } else {
            // Keep off the ends: a step onto an end would not shrink the interval.
            let least = 0.5 * PRECISION * high;
            secant.clamp(low + least, high - least)
        };
        let y = f(x);
        if y >= 0.0 {
            (low, above) = (x, y);
            // Illinois step: this end moved twice in a row, so halve the value of the other one.
            below *= if stayed > 0 { 0.5 } else { 1.0 };
            stayed = 1;
        } else {
            (high, below) = (x, y);
            above *= if stayed < 0 { 0.5 } else { 1.0 };
            stayed = -1;
        }
        since += 1;
        if high - low <= 0.5 * width {
            (width, since) = (high - low, 0);
        }
    }
    0.5 * (low + high)
}

/// Time of a query: its phases run one after the other.
///
/// Idle phases ([`Phase::is_idle`]) take no time and are left out.
///
/// # Errors
/// Same as [`solve()`], and [`ModelError::NoWork`] if every phase is idle.
pub fn solve_all(
    machine: &Machine,
    phases: &[Phase],
    placement: &Placement,
    workers: u32,
    options: &Options,
) -> Result<QuerySolution, ModelError> {
    machine.check()?;
    let mut outcomes = Vec::with_capacity(phases.len());
    for phase in phases {
        phase.check()?;
        if !phase.is_idle() {
            outcomes.push((
                phase,
                solve_checked(machine, phase, placement, workers, options)?,
            ));
        }
    }
    if outcomes.is_empty() {
        let names: Vec<&str> = phases.iter().map(|p| p.name.as_str()).collect();
        return Err(ModelError::NoWork {
            phase: names.join(", "),
        });
    }
    Ok(QuerySolution::of(machine, outcomes))
}
