//! The closed queueing network and its solution.
//!
//! ```text
//!   Machine + Phase + Placement ── demand ──> per tuple: fixed time, waits and traffic per tier
//!                                               │
//!   tuples/s X  <── root search ── cycle time tau(X) = fixed + sum over tiers of waits * latency(utilisation(X))
//! ```

mod caches;
mod core;
mod demand;
mod solution;
mod together;

pub use solution::{
    Bottleneck, PhaseSolution, QuerySolution, QueryTier, Solution, TierLoad, TimeShares,
};

pub use together::{Domain, solve_together};

use crate::error::ModelError;
use crate::machine::Machine;
use crate::work::{Phase, Placement};
use demand::Demand;
use serde::{Deserialize, Serialize};
use solution::Outcome;

/// Which terms of the model are on. Switching one off shows what it contributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Caches (private and last-level) keep a share of what is touched again.
    pub llc: bool,
    /// Page walks of random accesses beyond the reach of the TLB.
    pub tlb: bool,
    /// Cached stores read the line before they write it.
    pub rfo: bool,
    /// Latency grows with load; off: it stays idle up to the peak.
    pub loaded_latency: bool,
    /// Prefetchers fetch lines in vain in streams that skip lines.
    pub prefetch_waste: bool,
    /// Single lines at random places do not reach the peaks.
    pub random_share: bool,
    /// Reads and writes overlap where the tier can; off: they take turns.
    pub duplex: bool,
    /// Cached stores wait for the owner of a line on another socket.
    pub ownership: bool,
    /// Switches on the way add latency.
    pub switches: bool,
    /// Out-of-order execution hides compute behind memory time and the other way round.
    pub overlap: bool,
    /// Other hosts and other work load the tiers.
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
            duplex: true,
            ownership: true,
            switches: true,
            overlap: true,
            background: true,
        }
    }
}

/// Switches a term off.
type Switch = fn(&mut Terms);

impl Terms {
    /// Names of all terms that can be switched off, with how to do it.
    pub const SWITCHES: [(&'static str, Switch); 11] = [
        ("llc", |t| t.llc = false),
        ("tlb", |t| t.tlb = false),
        ("rfo", |t| t.rfo = false),
        ("loaded_latency", |t| t.loaded_latency = false),
        ("prefetch_waste", |t| t.prefetch_waste = false),
        ("random_share", |t| t.random_share = false),
        ("duplex", |t| t.duplex = false),
        ("ownership", |t| t.ownership = false),
        ("switches", |t| t.switches = false),
        ("overlap", |t| t.overlap = false),
        ("background", |t| t.background = false),
    ];

    /// All terms but the one called `name`; `None` if there is none of that name.
    pub fn without(name: &str) -> Option<Terms> {
        let (_, off) = Terms::SWITCHES.iter().find(|(known, _)| *known == name)?;
        let mut terms = Terms::default();
        off(&mut terms);
        Some(terms)
    }
}

/// Load on a tier that is not the phase's own: another host on a shared device, another socket, another query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// The tier's name.
    pub tier: String,
    /// What the others read while nobody else is there, GB/s.
    #[serde(default)]
    pub read_gbps: f64,
    /// What they write (traffic at the memory), GB/s.
    #[serde(default)]
    pub write_gbps: f64,
    /// Share of the tier that the phase gets when it and the others want more than there is, above 0 and below 1. A half for one other
    /// host: devices serve their ports in turn.
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
    /// One other host that reads `read_gbps`.
    pub fn reads(tier: impl Into<String>, read_gbps: f64) -> Self {
        Background {
            tier: tier.into(),
            read_gbps,
            write_gbps: 0.0,
            own_share: half(),
        }
    }
}

/// How the model is solved.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Options {
    /// The terms that are on.
    pub terms: Terms,
    /// Load of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<Background>,
    /// Workers of others on the same cores: they take their part of hyper-threads and lines in flight.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub neighbours: u32,
}

/// The answer is known to 1 part in 2^50, finer than the numbers it comes from.
const PRECISION: f64 = 1.0 / (1_u64 << 50) as f64;

/// Most steps of the search, of which every third at least halves the interval.
const STEPS: u32 = 160;

/// Throughput of one phase on a machine.
///
/// Each of N workers goes through tuples one after the other. A tuple costs, per worker,
///
/// ```text
///   memory(X) = sum over accesses  lines * miss * sum_t w_t (L_t(u_t) + switch_t) / C    memory
///                                + stores * miss * sum_t w_t ownership_t / C             owner asked before a store
///                                + lines * hit  * L_llc / C                              last-level cache
///                                + lines * tlb_miss * walk / min(C, walkers)             page walks
///               at least lines * 64 / core_gbps                                        a core's own path
///   tau(X)    = max(compute, memory) + (1 - overlap) min(compute, memory)                dependent accesses never overlap
///   u_t       = X * (max(r, w) + (1 - duplex) min(r, w)) + u_others
///               r = read bytes / read peak, w = write bytes / write peak, bytes of random lines over their share of the peak
///   X         = N / tau(X),  at most max_t (1 - min(u_others, 1 - own share)) / (u_t / X)
/// ```
///
/// where C is the number of lines a worker keeps in flight for that kind of access (Little's law: lines in flight divided by latency is
/// throughput). The mean over tiers is the right one for page-interleaved data: a stream passes the pages of all tiers one
/// after the other, so its times add. `N - X tau(X)` falls strictly in X, because no L_t falls with u_t and no u_t falls with X; so
/// there is at most one solution and a search between 0 and the unloaded throughput finds it. If the workers could still demand more when a tier is full, the
/// throughput is that tier's peak, and the rest of the cycle is waiting in its queue.
///
/// More workers than cores share a core's lines in flight (times their gain) and its compute throughput (times the yield of
/// hyper-threading); workers beyond the hardware threads add nothing.
///
/// # Errors
/// [`ModelError`]: no workers, a phase without work or with impossible numbers, a placement on a tier that the machine lacks, a machine
/// (built in code) that fails [`Machine::check`].
pub fn solve(
    machine: &Machine,
    phase: &Phase,
    placement: &Placement,
    workers: u32,
    options: &Options,
) -> Result<Solution, ModelError> {
    machine.check()?;
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

/// Tuples per ns of all workers together.
fn throughput_per_ns(demand: &Demand<'_>) -> f64 {
    let wanted = |x: f64| demand.workers / demand.cycle_ns(x);
    let unloaded = wanted(0.0);
    let full = demand.full_per_ns();
    let most = unloaded.min(full);
    let at_most = wanted(most) - most;
    if at_most >= 0.0 {
        return most;
    }
    falling_root(|x| wanted(x) - x, (0.0, unloaded), (most, at_most))
}

/// Where a falling function passes through 0, between a place where it is above and one where it is below, each with its value there.
///
/// The secant, with the value of an end that stays halved (the Illinois variant of the regula falsi: Dowell and Jarratt, "A Modified Regula Falsi
/// Method for Computing the Root of an Equation", BIT 11, 1971), and a bisection whenever two steps have not halved the interval.
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
            // Not on the end itself: the interval would shrink from one side only, by nothing.
            let least = 0.5 * PRECISION * high;
            secant.clamp(low + least, high - least)
        };
        let y = f(x);
        if y >= 0.0 {
            (low, above) = (x, y);
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

/// Time of a query: its phases one after the other. Idle phases ([`Phase::is_idle`]) take no time and are left out.
///
/// # Errors
/// Those of [`solve()`]; [`ModelError::NoWork`] if no phase is left.
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
