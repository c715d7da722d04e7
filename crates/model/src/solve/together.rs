//! Groups of workers that run at the same time on one machine, or on hosts that share a device.
//!
//! Finds the fixed point of the traffic that the groups impose on each other, by damped iteration.
//! It models contention for tiers and cores; groups do not share caches.

use super::{Background, Options, Solution, solve};
use crate::error::ModelError;
use crate::machine::Machine;
use crate::work::{Phase, Placement};

/// A group of workers with the same view of the machine.
///
/// For example the workers of one sub-NUMA cluster or socket, or one host of a shared device.
#[derive(Debug, Clone)]
pub struct Domain<'a> {
    /// The machine as this group sees it: its local DRAM and its latencies.
    pub machine: &'a Machine,
    /// Work of the group.
    pub phase: &'a Phase,
    /// Placement of the group's data on the tiers of `machine`.
    pub placement: &'a Placement,
    /// Workers of this group, at least 1.
    pub workers: u32,
    /// Workers of other groups on the same cores; 0 if each group has separate cores.
    pub neighbours: u32,
}

/// Rounds of the damped iteration.
///
/// Each about halves the distance to the fixed point, and 2^-30 is about 1 part in 10^9.
const ROUNDS: u32 = 30;

/// Solves groups that run at the same time and share the tiers named in `shared`, such as a CXL
/// device behind several hosts.
///
/// Tiers that are not named are private to each group. On the shared ones, each group sees the
/// traffic of the others as background load that it can push back to their share of all workers,
/// because requests are served in proportion to their number. The first round solves every group
/// alone; each round then moves the traffic half way towards the new solution, since a full step
/// would oscillate between groups that all retreat and all return.
///
/// # Errors
/// Same as [`solve()`], for any group.
pub fn solve_together(
    domains: &[Domain<'_>],
    shared: &[&str],
    options: &Options,
) -> Result<Vec<Solution>, ModelError> {
    let workers: Vec<u32> = domains.iter().map(|domain| domain.workers).collect();
    balance(&workers, shared, |index, background| {
        let domain = &domains[index];
        let mut seen = options.clone();
        seen.neighbours += domain.neighbours;
        seen.background.extend(background);
        let (m, p, w) = (domain.machine, domain.phase, domain.workers);
        let solution = solve(m, p, domain.placement, w, &seen)?;
        let traffic = shared.iter().map(|tier| {
            let found = solution.tiers.iter().find(|t| t.name == *tier);
            found.map_or((0.0, 0.0), |t| (t.read_gbps, t.write_gbps))
        });
        let traffic = traffic.collect();
        Ok((solution, traffic))
    })
}

/// Solves groups of so many `workers` each that run at the same time and share `tiers`, whatever
/// their work is made of.
///
/// `solve` solves the group of an index with the traffic of the others as background load, and
/// returns its solution and its own traffic on each of `tiers`: reads and writes, GB/s, averaged
/// over its time. See [`solve_together`] for what the groups do to each other.
///
/// # Errors
/// Those of `solve`.
pub fn balance<S, E>(
    workers: &[u32],
    tiers: &[&str],
    mut solve: impl FnMut(usize, Vec<Background>) -> Result<(S, Vec<(f64, f64)>), E>,
) -> Result<Vec<S>, E> {
    let everybody: f64 = workers.iter().map(|workers| f64::from(*workers)).sum();
    // Read and write traffic of each group on each shared tier, GB/s.
    let mut traffic = vec![vec![(0.0, 0.0); tiers.len()]; workers.len()];
    let mut solutions = Vec::new();
    for _ in 0..ROUNDS {
        solutions.clear();
        let mut found = Vec::with_capacity(workers.len());
        for (index, own) in workers.iter().enumerate() {
            let background = tiers.iter().enumerate().map(|(slot, tier)| {
                let others = traffic.iter().enumerate().filter(|(i, _)| *i != index);
                let (read_gbps, write_gbps) = others
                    .map(|(_, t)| t[slot])
                    .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
                Background {
                    tier: (*tier).into(),
                    read_gbps,
                    write_gbps,
                    own_share: f64::from(*own) / everybody.max(1.0),
                }
            });
            let (solution, now) = solve(index, background.collect())?;
            solutions.push(solution);
            found.push(now);
        }
        // All groups are updated from the same traffic (Jacobi iteration), so their order does not
        // matter.
        for (before, now) in traffic
            .iter_mut()
            .flatten()
            .zip(found.into_iter().flatten())
        {
            *before = (
                f64::midpoint(before.0, now.0),
                f64::midpoint(before.1, now.1),
            );
        }
    }
    Ok(solutions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, PhaseKind, TierShares, profiles, solve_all};

    #[test]
    fn two_hosts_share_a_full_device_equally_and_an_idle_one_not_at_all() {
        let machine = profiles::load("hpi25-1dev").unwrap();
        let scan = Phase::new("scan", PhaseKind::Scan, 1e9)
            .access(Access::sequential_read("c", 64.0, 1 << 40).vectorised());
        let on_cxl = Placement::new(TierShares::all("cxl"));
        let host = |workers| Domain {
            machine: &machine,
            phase: &scan,
            placement: &on_cxl,
            workers,
            neighbours: 0,
        };
        let options = Options::default();
        let alone = solve(&machine, &scan, &on_cxl, 24, &options).unwrap();
        let both = solve_together(&[host(24), host(24)], &["cxl"], &options).unwrap();
        for host in &both {
            let half = host.tuples_per_s / alone.tuples_per_s;
            assert!((half - 0.5).abs() < 0.01, "{half}");
        }
        let apart = solve_together(&[host(24), host(24)], &[], &options).unwrap();
        assert_eq!(apart[0].tuples_per_s, alone.tuples_per_s);
    }

    #[test]
    fn groups_of_several_phases_press_on_each_other_with_their_average_traffic() {
        let machine = profiles::load("hpi25-1dev").unwrap();
        let scan = Phase::new("scan", PhaseKind::Scan, 1e9)
            .access(Access::sequential_read("c", 64.0, 1 << 40).vectorised());
        let think = Phase::new("think", PhaseKind::Other, 1e9).compute_ns(500.0);
        let on_cxl = Placement::new(TierShares::all("cxl"));
        let rates = |phases: [&[Phase]; 2]| {
            let solved = balance(&[12, 12], &["cxl"], |index, background| {
                let options = Options {
                    background,
                    ..Options::default()
                };
                let solved = solve_all(&machine, phases[index], &on_cxl, 12, &options)?;
                let traffic = vec![solved.read_write_gbps("cxl")];
                Ok::<_, ModelError>((solved, traffic))
            });
            solved
                .unwrap()
                .iter()
                .map(|s| 1e9 / s.time_ns)
                .collect::<Vec<f64>>()
        };
        let (scans, both) = (std::slice::from_ref(&scan), [scan.clone(), think]);
        let alike = rates([scans, scans]);
        assert!((alike[0] / alike[1] - 1.0).abs() < 1e-6, "{alike:?}");
        // One that also computes leaves more to the other.
        let mixed = rates([scans, &both]);
        assert!(mixed[0] > 1.1 * alike[0], "{mixed:?} {alike:?}");
    }
}
