//! The controller and published tiering policies on the same machine, workload and noise.

use super::best::best_round_ns;
use super::controlled::ControlledRun;
use super::machines::TrueMachine;
use super::memory::TieredMemory;
use super::policies::{
    BalancedLatencies, FirstTouch, FixedShare, FlatMemory, Promotion, RankedObjects, TieringPolicy,
};
use super::transparent::{Setting, TransparentRun};
use super::works::TieringWork;
use crate::AdaptError;
use crate::adaptive::{Controller, Settings};
use serde::Serialize;
use tierloom_model::search::kernel_weights;
use tierloom_model::{Machine, ModelError};

/// Simulated time and rounds before the judged ones: policies learn and migrate.
const LEARNING_NS: f64 = 40e9;
const LEARNING_ROUNDS: u32 = 12;

/// Simulated time and rounds that are judged.
const JUDGED_NS: f64 = 20e9;
const JUDGED_ROUNDS: u32 = 3;

/// Least capacity of DRAM over the bytes of all structures: everything fits.
const ROOM: f64 = 1.25;

/// Rounds at most, for workloads of short queries.
const MOST_ROUNDS: u32 = 60;

/// Policies in the order of [`PolicyTime`]s, the controller first.
pub const POLICIES: [&str; 10] = [
    "Tierloom",
    "first touch",
    "9:1",
    "3:2",
    "kernel weights",
    "TPP",
    "TPP+ALTO",
    "Colloid",
    "SOAR",
    "flat memory",
];

/// Time of one policy over the time of the best static placement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyTime {
    /// One of [`POLICIES`].
    pub policy: &'static str,
    /// Over the judged rounds, after learning.
    pub settled: f64,
    /// Over all rounds, with learning and migrations.
    pub with_learning: f64,
}

/// Runs a workload under every policy on one machine.
///
/// `profile` is what the controller begins with and what firmware reports to the kernel, `machine`
/// what times follow.
///
/// # Errors
/// [`AdaptError::Model`] if the machine lacks a tier `dram` or `cxl`, or the model rejects a phase.
pub fn compete(
    profile: &Machine,
    machine: &TrueMachine,
    work: &TieringWork,
    seed: u64,
) -> Result<Vec<PolicyTime>, AdaptError> {
    let tiers = [tier(profile, "dram")?, tier(profile, "cxl")?];
    let workers = (profile.cores.value as u32).max(1);
    let setting = Setting {
        machine,
        tiers,
        workers,
        mix: &work.mix,
        tenant: work.tenant.clone(),
    };
    let names = tiers.map(|tier| profile.tiers[tier].name.clone());
    let phases = work.mix.iter().flat_map(|(_, phases)| phases);
    let mut memory = TieredMemory::new(phases, 0.0, names.clone());
    // Without this no policy but the controller and SOAR would have room for what it wants.
    let bytes: f64 = memory.structures.iter().map(|s| s.bytes).sum();
    memory.fast_bytes = profile.tiers[tiers[0]]
        .capacity_bytes
        .value
        .max(ROOM * bytes);
    let best_ns = best_round_ns(&setting)?;
    let mut times = Vec::with_capacity(POLICIES.len());
    for policy in POLICIES {
        let times_ns = match transparent(policy, profile, &names)? {
            Some(policy) => {
                let mut run = TransparentRun::new(&setting, memory.clone(), policy, seed);
                rounds(|first| {
                    let took = run.round_ns()?;
                    if first {
                        run.end_first_round();
                    }
                    Ok(took)
                })?
            }
            None => {
                let controller = Controller::new(profile, Settings::new(workers))?;
                let mut run = ControlledRun::new(&setting, memory.clone(), controller, seed);
                rounds(|_| run.round_ns())?
            }
        };
        times.push(PolicyTime {
            policy,
            settled: times_ns.judged / best_ns,
            with_learning: times_ns.all / best_ns,
        });
    }
    Ok(times)
}

/// Mean times of a round, ns.
struct RoundTimes {
    judged: f64,
    all: f64,
}

/// Repeats rounds until enough of them were judged; `round` is told whether it is the first.
fn rounds(
    mut round: impl FnMut(bool) -> Result<f64, AdaptError>,
) -> Result<RoundTimes, AdaptError> {
    let (mut learning, mut judged) = ((0, 0.0), (0, 0.0));
    while learning.0 < LEARNING_ROUNDS || (learning.1 < LEARNING_NS && learning.0 < MOST_ROUNDS) {
        learning.1 += round(learning.0 == 0)?;
        learning.0 += 1;
    }
    while judged.0 < JUDGED_ROUNDS || (judged.1 < JUDGED_NS && judged.0 < MOST_ROUNDS) {
        judged.1 += round(false)?;
        judged.0 += 1;
    }
    Ok(RoundTimes {
        judged: judged.1 / f64::from(judged.0),
        all: (learning.1 + judged.1) / f64::from(learning.0 + judged.0),
    })
}

/// The policy of this name; `None` for the controller.
fn transparent(
    name: &str,
    profile: &Machine,
    tiers: &[String; 2],
) -> Result<Option<Box<dyn TieringPolicy>>, ModelError> {
    Ok(Some(match name {
        "first touch" => Box::new(FirstTouch),
        "9:1" => Box::new(FixedShare { slow: 0.1 }),
        "3:2" => Box::new(FixedShare { slow: 0.4 }),
        "kernel weights" => Box::new(FixedShare {
            slow: kernel_weights(profile, tiers)?.share(&tiers[1]),
        }),
        "TPP" => Box::new(Promotion::new(false)),
        "TPP+ALTO" => Box::new(Promotion::new(true)),
        "Colloid" => Box::new(BalancedLatencies::new()),
        "SOAR" => Box::new(RankedObjects::default()),
        "flat memory" => Box::new(FlatMemory::default()),
        _ => return Ok(None),
    }))
}

fn tier(machine: &Machine, name: &str) -> Result<usize, ModelError> {
    let known = || {
        let names: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
        names.join(", ")
    };
    let at = machine.tiers.iter().position(|t| t.name == name);
    at.ok_or_else(|| ModelError::UnknownTier {
        structure: "the workload".into(),
        tier: name.into(),
        machine: machine.name.clone(),
        known: known(),
    })
}
