//! Characterising a machine: every path from cores to memory measured, and a profile made of it.
//!
//! ```text
//!   topology ─ probes ─> [Probe: a small RunPlan each] ── rounds, each probe in every round ──> samples ─ profile ─> Machine (YAML)
//! ```
//!
//! Probes are repeated in rounds over the whole list, not back to back, so that slow changes of the machine's speed show in the spread of
//! every figure instead of shifting some figures against others.

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

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// About a minute on a small machine: few thread counts, three rounds.
    Quick,
    /// More thread counts, loads, footprints and longer repetitions.
    Full,
}

/// What to characterise.
#[derive(Debug, Clone, PartialEq)]
pub struct CharacterizeOptions {
    /// How much.
    pub depth: Depth,
    /// Name of the profile; the host's name without one.
    pub name: Option<String>,
    /// Nodes whose cores access; all with cores if empty. The first is the one the profile is made for.
    pub initiators: Vec<u32>,
    /// Nodes that are accessed; all with memory if empty.
    pub targets: Vec<u32>,
    /// Page size; huge pages where the system allows them if `None`.
    pub page_size: Option<PageSize>,
    /// Bytes of a region; chosen by caches and free memory if `None`.
    pub region_bytes: Option<u64>,
}

/// What characterising gives.
#[derive(Debug)]
pub struct Characterized {
    /// The profile.
    pub machine: Machine,
    /// One record per run that went into it.
    pub records: Vec<BenchRecord>,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum CharacterizeError {
    /// What was asked for is not there.
    #[error("{0}")]
    Input(String),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] BenchError),
    /// The user stopped it.
    #[error("stopped; a profile needs every round")]
    Stopped,
    /// The figures do not make a machine.
    #[error("the measured figures do not make a machine: {0}")]
    Model(#[from] ModelError),
}

impl CharacterizeError {
    /// Whether the input is at fault (exit code 2) rather than the machine (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Input(_) => true,
            Self::Run(error) => error.is_bad_input(),
            Self::Stopped | Self::Model(_) => false,
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub total: usize,
    /// What is measured now.
    pub what: String,
    /// Time left, from the steps done so far.
    pub left: Option<Duration>,
}

/// Rounds over all probes.
const ROUNDS: usize = 3;

/// The probes that `options` come to on this machine.
///
/// # Errors
/// [`CharacterizeError::Input`] for nodes that are not there or cannot be used, or memory too small to measure.
pub fn plan(host: &Host, options: &CharacterizeOptions) -> Result<Vec<Probe>, CharacterizeError> {
    probes::all(host, options)
}

/// Measures everything and makes the profile.
///
/// # Errors
/// [`CharacterizeError`]; nothing is written anywhere.
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

/// Bandwidth of the tasks beside the main one, GB/s; zero without any.
fn background_gbps(tasks: &[TaskRecord]) -> f64 {
    tasks
        .iter()
        .skip(1)
        .filter_map(|task| Some(task.bandwidth_gbps.as_ref()?.median))
        .sum()
}

/// The tier that `target` is for cores on `initiator`: DRAM of another socket is remote.
fn tier_between(host: &Host, initiator: u32, target: u32) -> &'static str {
    let topology = &host.topology;
    let socket = |node: u32| {
        topology
            .node(tierloom_topology::NodeId(node))
            .and_then(|node| node.socket)
    };
    let other_socket = match (socket(initiator), socket(target)) {
        (Some(a), Some(b)) => a != b,
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
