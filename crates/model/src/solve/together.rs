//! Several groups of workers on one machine, or on several that share a device.

use super::{Background, Options, Solution, solve};
use crate::error::ModelError;
use crate::machine::Machine;
use crate::work::{Phase, Placement};

/// A group of workers that see the machine alike: those of one sub-NUMA cluster or socket, or one host of a shared device.
#[derive(Debug, Clone)]
pub struct Domain<'a> {
    /// The machine as this group sees it: its own DRAM, its latencies.
    pub machine: &'a Machine,
    /// What the group does.
    pub phase: &'a Phase,
    /// Where its data lies.
    pub placement: &'a Placement,
    /// Its workers.
    pub workers: u32,
    /// Workers of other groups that run on the same cores; 0 if each group has cores of its own.
    pub neighbours: u32,
}

/// Rounds of the fixed point; each halves the distance, so the answer is known to about 1 part in 10^9.
const ROUNDS: u32 = 30;

/// Prices groups that run at the same time and share the tiers called `shared` (a CXL device behind several clusters or hosts); all other
/// tiers are each group's own.
///
/// Each group sees the traffic of the others on the shared tiers as background that it can push back to its part of all workers (who asks
/// more often is served more often). Starting from every
/// group alone, traffic is moved half way towards the answer in each round until it stands.
///
/// # Errors
/// Those of [`solve()`], for any group.
pub fn solve_together(
    domains: &[Domain<'_>],
    shared: &[&str],
    options: &Options,
) -> Result<Vec<Solution>, ModelError> {
    let everybody: f64 = domains.iter().map(|d| f64::from(d.workers)).sum();
    // Read and write traffic of each group on each shared tier, GB/s.
    let mut traffic = vec![vec![(0.0, 0.0); shared.len()]; domains.len()];
    let mut solutions = Vec::new();
    for _ in 0..ROUNDS {
        solutions.clear();
        for (index, domain) in domains.iter().enumerate() {
            let mut seen = options.clone();
            seen.neighbours += domain.neighbours;
            for (slot, tier) in shared.iter().enumerate() {
                let others = traffic.iter().enumerate().filter(|(i, _)| *i != index);
                let (read_gbps, write_gbps) = others
                    .map(|(_, t)| t[slot])
                    .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
                seen.background.push(Background {
                    tier: (*tier).into(),
                    read_gbps,
                    write_gbps,
                    own_share: f64::from(domain.workers) / everybody.max(1.0),
                });
            }
            let (m, p, w) = (domain.machine, domain.phase, domain.workers);
            solutions.push(solve(m, p, domain.placement, w, &seen)?);
        }
        for (index, solution) in solutions.iter().enumerate() {
            for (slot, tier) in shared.iter().enumerate() {
                let found = solution.tiers.iter().find(|t| t.name == *tier);
                let now = found.map_or((0.0, 0.0), |t| (t.read_gbps, t.write_gbps));
                let before = &mut traffic[index][slot];
                *before = (
                    f64::midpoint(before.0, now.0),
                    f64::midpoint(before.1, now.1),
                );
            }
        }
    }
    Ok(solutions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, PhaseKind, TierShares, profiles};

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
}
