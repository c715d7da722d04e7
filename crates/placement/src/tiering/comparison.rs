//! Many machines under every policy, summed up by workload.

use super::contest::{POLICIES, PolicyTime, compete};
use super::machines::{KINDS, TrueMachine};
use super::works::TieringWork;
use crate::AdaptError;
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tierloom_model::Machine;

/// One policy on all machines of a workload; times are over that of the best static placement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicySummary {
    /// One of [`POLICIES`].
    pub policy: &'static str,
    /// Geometric mean after learning.
    pub mean: f64,
    /// Largest on one machine, after learning.
    pub worst: f64,
    /// Geometric mean over all rounds, with learning and migrations.
    pub with_learning: f64,
}

/// One workload on all machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkSummary {
    /// Name of the workload; "all" for all of them together.
    pub work: String,
    /// Number of machines, over all workloads for "all".
    pub machines: usize,
    /// In the order of [`POLICIES`].
    pub policies: Vec<PolicySummary>,
}

/// Compares all policies on machines drawn around the profiles.
///
/// Each workload runs on `per_profile` machines of each profile, which take turns in their kinds;
/// machine i of a profile has the seed `seed + i`. The last row sums up all workloads.
///
/// # Errors
/// The first error of [`compete`].
pub fn compare(
    profiles: &[Machine],
    works: &[&str],
    per_profile: u64,
    seed: u64,
) -> Result<Vec<WorkSummary>, AdaptError> {
    let mut cases = Vec::new();
    for (row, name) in works.iter().enumerate() {
        for (profile, at) in profiles.iter().zip(0_u64..) {
            let Some(work) = TieringWork::new(name, profile)? else {
                continue;
            };
            for i in 0..per_profile {
                // Profiles begin with different kinds, so that few machines show many of them.
                let kind = KINDS[((i + 3 * at) % KINDS.len() as u64) as usize];
                let machine = TrueMachine::new(kind, profile, seed.wrapping_add(i))?;
                cases.push((row, profile, machine, work.clone(), seed.wrapping_add(i)));
            }
        }
    }
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((row, profile, machine, work, seed)) = cases.get(index) else {
                break;
            };
            let times = compete(profile, machine, work, *seed);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push((index, *row, times));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..threads.min(cases.len())).for_each(|_| {
            scope.spawn(run);
        });
    });
    let mut by_work: Vec<Vec<Vec<PolicyTime>>> = vec![Vec::new(); works.len()];
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Sums depend on the order of their terms, which must not depend on threads.
    found.sort_by_key(|(index, ..)| *index);
    for (_, row, times) in found {
        by_work[row].push(times?);
    }
    let named = works.iter().zip(&by_work);
    let mut rows: Vec<WorkSummary> = named
        .map(|(work, runs)| summary(work, &runs.iter().collect::<Vec<_>>()))
        .collect();
    rows.push(summary(
        "all",
        &by_work.iter().flatten().collect::<Vec<_>>(),
    ));
    Ok(rows)
}

fn summary(work: &str, runs: &[&Vec<PolicyTime>]) -> WorkSummary {
    let count = runs.len().max(1) as f64;
    let of = |(at, policy): (usize, &'static str)| {
        let times = || runs.iter().filter_map(|run| run.get(at));
        PolicySummary {
            policy,
            mean: (times().map(|t| t.settled.ln()).sum::<f64>() / count).exp(),
            worst: times().map(|t| t.settled).fold(0.0, f64::max),
            with_learning: (times().map(|t| t.with_learning.ln()).sum::<f64>() / count).exp(),
        }
    };
    WorkSummary {
        work: work.to_owned(),
        machines: runs.len(),
        policies: POLICIES.into_iter().enumerate().map(of).collect(),
    }
}
