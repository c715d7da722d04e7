//! Characterisation: measures every path from cores to memory and builds a machine profile.
//!
//! ```text
//!   topology ── probes ──> one small RunPlan each ── 3 rounds over all probes ──> samples
//!                                                                                    │
//!                                           Machine (YAML) <── profile: medians, fits┘
//! ```
//!
//! Probes are repeated in rounds over the whole list and not back to back: a slow change of the
//! machine's speed then widens the spread of every figure, instead of shifting some figures against
//! others. A profile is only made from complete rounds.

mod fit;
mod pages;
mod probes;
mod profile;
mod samples;

use std::time::{Duration, Instant};

use tierloom_memory::PageSize;
use tierloom_model::{Machine, ModelError};
use tierloom_record::{BenchRecord, TaskRecord};
use tierloom_topology::TierKind;

use crate::run::{self, BenchError, Control, Host, Session};
pub use probes::{PathPlan, Probe, ProbeKind};
use samples::Gathered;

/// How much is measured: a choice between time and detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// About a minute on a small machine: few thread counts, three rounds.
    Quick,
    /// More thread counts, loads and footprints, larger regions and longer repetitions.
    Full,
}

/// What to characterise, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct CharacterizeOptions {
    /// How many thread counts, loads and footprints are measured, and for how long.
    pub depth: Depth,
    /// Name of the profile; `None` for the name of the host.
    pub name: Option<String>,
    /// Nodes whose cores access memory; all nodes with usable CPUs if empty.
    ///
    /// The profile describes the machine as seen from the first one.
    pub initiators: Vec<u32>,
    /// Nodes that are accessed; all nodes with usable memory if empty.
    pub targets: Vec<u32>,
    /// Page size of the regions; `None` for transparent huge pages where the system allows them.
    pub page_size: Option<PageSize>,
    /// Bytes of a region; `None` to derive it from the caches and the free memory.
    pub region_bytes: Option<u64>,
}

/// The result of a characterisation.
#[derive(Debug)]
pub struct Characterized {
    /// The profile of the first initiator.
    pub machine: Machine,
    /// One record per run that the profile is based on.
    pub records: Vec<BenchRecord>,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum CharacterizeError {
    /// The options name a node that cannot be used, or there is too little memory.
    #[error("{0}")]
    Input(String),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] BenchError),
    /// The user interrupted it.
    #[error("stopped; a profile needs every round")]
    Stopped,
    /// The measured figures do not pass the checks of a profile.
    #[error("the measured figures do not make a machine: {0}")]
    Model(#[from] ModelError),
}

impl CharacterizeError {
    /// Whether the input is wrong (exit code 2) and not the machine (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Input(_) => true,
            Self::Run(error) => error.is_bad_input(),
            Self::Stopped | Self::Model(_) => false,
        }
    }
}

/// Progress of a characterisation, reported before each step.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Number of finished steps.
    pub done: usize,
    /// Number of all steps.
    pub total: usize,
    /// The step that starts now, as text for the user.
    pub what: String,
    /// Estimated time left, from the average of the finished steps; `None` before the first one
    /// ends.
    pub left: Option<Duration>,
}

/// Number of rounds over all probes.
const ROUNDS: usize = 3;

/// The probes that `options` select on this machine, in the order of a round.
///
/// # Errors
/// [`CharacterizeError::Input`] for nodes that do not exist or cannot be used, and for too little
/// memory.
pub fn plan(host: &Host, options: &CharacterizeOptions) -> Result<Vec<Probe>, CharacterizeError> {
    probes::all(host, options)
}

/// Measures everything and builds the profile.
///
/// # Errors
/// [`CharacterizeError::Input`] as for [`plan`], [`CharacterizeError::Run`] for the first run that
/// fails, [`CharacterizeError::Stopped`] after an interrupt, and [`CharacterizeError::Model`] if
/// the figures do not make a valid profile. Nothing is written to disk in any case.
pub fn characterize(
    host: &Host,
    options: &CharacterizeOptions,
    session: &Session,
    control: &dyn Control,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Characterized, CharacterizeError> {
    let probes = plan(host, options)?;
    let moves = pages::moves(host, options, &probes);
    let total = probes.len() * ROUNDS + moves.len();
    let start = Instant::now();
    let mut gathered = Gathered::new(probes.len());
    let mut records = Vec::new();
    let mut done = 0;
    let mut tell = |done: usize, what: String| {
        let left = (done > 0).then(|| start.elapsed().mul_f64((total - done) as f64 / done as f64));
        progress(&Progress {
            done,
            total,
            what,
            left,
        });
    };
    for round in 0..ROUNDS {
        for (index, probe) in probes.iter().enumerate() {
            if control.stopped() {
                return Err(CharacterizeError::Stopped);
            }
            tell(
                done,
                format!("round {} of {ROUNDS}: {}", round + 1, probe.words()),
            );
            let part = run::run_part(&probe.plan, None, host, control).map_err(|error| {
                // An interrupted run fails; the user should read that it was stopped, not how it
                // failed.
                if control.stopped() {
                    CharacterizeError::Stopped
                } else {
                    error.into()
                }
            })?;
            if let Some(main) = part.tasks.first() {
                gathered.add(index, main, background_gbps(&part.tasks));
            }
            records.push(run::record(&probe.plan, vec![part], session)?);
            done += 1;
        }
    }
    let mut migrations = Vec::new();
    for step in &moves {
        tell(done, step.words());
        migrations.push((step.clone(), step.measure(host)?));
        done += 1;
    }
    let machine = profile::make(host, options, &probes, &gathered, &migrations)?;
    tell(total, "done".into());
    Ok(Characterized { machine, records })
}

/// Bandwidth of the tasks beside the main one, GB/s; 0 if there are none.
fn background_gbps(tasks: &[TaskRecord]) -> f64 {
    tasks
        .iter()
        .skip(1)
        .filter_map(|task| Some(task.bandwidth_gbps.as_ref()?.median))
        .sum()
}

/// The tier of `target` for cores on `initiator`; DRAM of another socket is `remote`.
fn tier_between(host: &Host, initiator: u32, target: u32) -> &'static str {
    let topology = &host.topology;
    let socket = |node: u32| {
        topology
            .node(tierloom_topology::NodeId(node))
            .and_then(|node| node.socket)
    };
    let other_socket = match (socket(initiator), socket(target)) {
        (Some(a), Some(b)) => a != b,
        // Without socket numbers, every other node is taken for another socket.
        _ => initiator != target,
    };
    match topology.tier_of(tierloom_topology::NodeId(target)) {
        Some(TierKind::Cxl) => "cxl",
        Some(TierKind::Hbm) => "hbm",
        Some(TierKind::Remote) => "remote",
        _ if other_socket => "remote",
        _ => "dram",
    }
}
