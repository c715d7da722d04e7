//! The other levers of a phase: how many threads it gets, and whether hardware prefetches.

use serde::{Deserialize, Serialize};
use tierloom_model::{Machine, ModelError, Options, Phase, Placement, solve};

/// Fewer threads are taken if they come this close to the time with all of them.
pub const NEARLY: f64 = 0.01;

/// The fewest workers, of at most `most`, with which a phase takes at most [`NEARLY`] longer than with the best number: more only wait for a full tier.
/// Modelled; at least 1.
///
/// # Errors
/// Those of [`solve()`].
pub fn fewest_workers(
    machine: &Machine,
    phase: &Phase,
    placement: &Placement,
    most: u32,
) -> Result<u32, ModelError> {
    let options = Options::default();
    let time = |workers| Ok(solve(machine, phase, placement, workers, &options)?.time_ns);
    if phase.is_idle() {
        return Ok(1);
    }
    let mut times = Vec::new();
    for workers in 1..=most.max(1) {
        times.push(time(workers)?);
    }
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let enough = times.iter().position(|t| *t <= best * (1.0 + NEARLY));
    Ok(enough.map_or(most.max(1), |at| at as u32 + 1))
}

/// One machine with its hardware prefetchers on and off.
#[derive(Debug, Clone, PartialEq)]
pub struct Prefetching {
    /// The profile with prefetchers on.
    pub on: Machine,
    /// The same machine with them off.
    pub off: Machine,
}

/// Whether a phase runs with hardware prefetching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefetch {
    /// As the machine has it.
    On,
    /// Switched off for the phase.
    Off,
}

impl Prefetching {
    /// What a phase should run with, and what that gains over prefetching (a ratio of times, at least 1). It is switched off only if that
    /// gains at least `min_gain`. Modelled.
    ///
    /// # Errors
    /// Those of [`solve()`].
    pub fn choose(
        &self,
        phase: &Phase,
        placement: &Placement,
        workers: u32,
        min_gain: f64,
    ) -> Result<(Prefetch, f64), ModelError> {
        if phase.is_idle() {
            return Ok((Prefetch::On, 1.0));
        }
        let options = Options::default();
        let time = |machine| Ok(solve(machine, phase, placement, workers, &options)?.time_ns);
        let gain = time(&self.on)? / time(&self.off)?;
        Ok(if gain >= 1.0 + min_gain {
            (Prefetch::Off, gain)
        } else {
            (Prefetch::On, 1.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, Pattern, PhaseKind, TierShares, profiles};

    fn dram() -> Placement {
        Placement::new(TierShares::all("dram"))
    }

    #[test]
    fn a_saturated_scan_needs_few_threads_and_a_computing_one_all() {
        let machine = profiles::load("nus24").unwrap();
        let scan = Phase::new("scan", PhaseKind::Scan, 1e9)
            .access(Access::sequential_read("t.c", 64.0, 64_000_000_000).vectorised());
        let few = fewest_workers(&machine, &scan, &dram(), 32).unwrap();
        assert!((2..8).contains(&few), "one channel is full with few: {few}");
        let options = Options::default();
        let time = |n| {
            solve(&machine, &scan, &dram(), n, &options)
                .unwrap()
                .time_ns
        };
        assert!(time(few) <= time(32) * 1.0101 && time(few - 1) > time(32) * 1.01);
        let computing = scan.compute_ns(1e5);
        assert_eq!(
            fewest_workers(&machine, &computing, &dram(), 32).unwrap(),
            32
        );
    }

    #[test]
    fn prefetching_goes_off_only_where_that_gains() {
        let prefetching = Prefetching {
            on: profiles::load("epfl25-full-pf-on").unwrap(),
            off: profiles::load("epfl25-full-pf-off").unwrap(),
        };
        let stream = Phase::new("scan", PhaseKind::Scan, 1e9)
            .access(Access::sequential_read("t.c", 64.0, 64_000_000_000).vectorised());
        let choose = |phase: &Phase| prefetching.choose(phase, &dram(), 4, 0.02).unwrap();
        assert_eq!(choose(&stream).0, Prefetch::On);
        let strided = Phase::new("strided", PhaseKind::Scan, 1e9).access(Access {
            pattern: Pattern::Strided { lines: 3 },
            lines_per_tuple: 1.0,
            ..Access::sequential_read("t.c", 64.0, 64_000_000_000).vectorised()
        });
        let all = prefetching.choose(&strided, &dram(), 48, 0.02).unwrap();
        assert_eq!(
            all.0,
            Prefetch::Off,
            "lines fetched in vain fill the channels"
        );
        assert!(all.1 > 1.02);
    }
}
