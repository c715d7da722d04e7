//! Further levers of a phase: number of workers, and hardware prefetching. Both use the model only.

use serde::{Deserialize, Serialize};
use tierloom_model::{Machine, ModelError, Options, Phase, Placement, solve};

/// Relative loss of time accepted in exchange for fewer workers.
pub const NEARLY: f64 = 0.01;

/// The fewest workers, 1 to `most`, whose modelled time is within [`NEARLY`] of the best.
///
/// Beyond that, more workers only wait for a saturated tier.
///
/// # Errors
/// Same as [`solve()`].
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
    // Not a bisection, which would rely on times that never rise with the number of workers.
    for workers in 1..=most.max(1) {
        times.push(time(workers)?);
    }
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let enough = times.iter().position(|t| *t <= best * (1.0 + NEARLY));
    Ok(enough.map_or(most.max(1), |at| at as u32 + 1))
}

/// Profiles of one machine with its hardware prefetchers on and off.
#[derive(Debug, Clone, PartialEq)]
pub struct Prefetching {
    /// Profile with prefetchers on.
    pub on: Machine,
    /// Profile with prefetchers off.
    pub off: Machine,
}

/// Whether hardware prefetching is on during a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefetch {
    /// Left as configured on the machine.
    On,
    /// Switched off during the phase.
    Off,
}

impl Prefetching {
    /// The faster setting for a phase, and its gain over prefetching.
    ///
    /// The gain is a ratio of times, at least 1.
    ///
    /// Prefetching is switched off only for a modelled gain of at least `min_gain`.
    ///
    /// # Errors
    /// Same as [`solve()`].
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
        assert!(
            (2..16).contains(&few),
            "one channel is full with few: {few}"
        );
        let options = Options::default();
        let time = |n| {
            solve(&machine, &scan, &dram(), n, &options)
                .unwrap()
                .time_ns
        };
        // Not that of all threads: a full tier delivers less to them.
        let best = (1..=32).map(time).fold(f64::INFINITY, f64::min);
        assert!(time(few) <= best * 1.0101 && time(few - 1) > best * 1.01);
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

    /// Every built-in profile with both DRAM and CXL.
    fn published() -> Vec<Machine> {
        let names = profiles::builtin_names().into_iter();
        let all = names.map(|name| profiles::load(name).unwrap());
        all.filter(|m| m.tier("dram").is_some() && m.tier("cxl").is_some())
            .collect()
    }

    fn spread() -> Placement {
        Placement::new(TierShares::from_weights(&[("dram", 3.0), ("cxl", 1.0)]).unwrap())
    }

    /// A stream, a probe of a table larger than any cache, and a compute-bound scan.
    fn phases() -> Vec<Phase> {
        let column = || Access::sequential_read("t.c", 8.0, 80_000_000_000).vectorised();
        vec![
            Phase::new("stream", PhaseKind::Scan, 1e9).access(column()),
            Phase::new("probe", PhaseKind::Probe, 1e9)
                .compute_ns(5.0)
                .access(column())
                .access(Access::probe("hash(t)", 1.0, 20_000_000_000)),
            Phase::new("compute", PhaseKind::Filter, 1e9)
                .compute_ns(50.0)
                .access(column()),
        ]
    }

    #[test]
    fn on_published_machines_one_worker_fewer_is_too_slow_and_no_number_is_much_faster() {
        for machine in published() {
            let most = (machine.cores.value * machine.smt.value) as u32;
            for (phase, placement) in phases().iter().flat_map(|p| [(p, dram()), (p, spread())]) {
                let time = |n: u32| {
                    solve(&machine, phase, &placement, n, &Options::default())
                        .unwrap()
                        .time_ns
                };
                let fewest = fewest_workers(&machine, phase, &placement, most).unwrap();
                let best = (1..=most).map(time).fold(f64::INFINITY, f64::min);
                let at = format!("{}, {}: {fewest} of {most}", machine.name, phase.name);
                assert!((1..=most).contains(&fewest), "{at}");
                assert!(time(fewest) <= best * (1.0 + NEARLY), "{at}");
                let fewer = (1..fewest).map(time).fold(f64::INFINITY, f64::min);
                assert!(fewer > best * (1.0 + NEARLY), "{at}");
            }
        }
    }

    #[test]
    fn cxl_beside_dram_lets_more_workers_stream() {
        // A second tier adds bandwidth, so saturation needs as many workers or more.
        let more = published().iter().any(|machine| {
            let most = machine.cores.value as u32;
            let stream = &phases()[0];
            let fewest = |p: &Placement| fewest_workers(machine, stream, p, most).unwrap();
            fewest(&spread()) > fewest(&dram())
        });
        assert!(more);
    }

    #[test]
    fn the_choice_of_prefetching_is_the_faster_machine_on_all_published_pairs() {
        let mut kept = 0;
        for clustering in ["full", "snc2", "snc4"] {
            let load = |state| profiles::load(&format!("epfl25-{clustering}-pf-{state}")).unwrap();
            let pair = Prefetching {
                on: load("on"),
                off: load("off"),
            };
            let cores = pair.on.cores.value as u32;
            for (phase, workers) in phases().iter().flat_map(|p| [(p, 1), (p, cores)]) {
                let time = |machine| {
                    solve(machine, phase, &dram(), workers, &Options::default())
                        .unwrap()
                        .time_ns
                };
                let ratio = time(&pair.on) / time(&pair.off);
                let (choice, gain) = pair.choose(phase, &dram(), workers, 0.02).unwrap();
                let expected = if ratio >= 1.02 {
                    (Prefetch::Off, ratio)
                } else {
                    (Prefetch::On, 1.0)
                };
                assert_eq!((choice, gain), expected, "{clustering}, {}", phase.name);
                kept += usize::from(choice == Prefetch::On);
            }
            let nothing = Phase::new("idle", PhaseKind::Scan, 0.0);
            let idle = pair.choose(&nothing, &dram(), 4, 0.02).unwrap();
            assert_eq!(idle, (Prefetch::On, 1.0));
        }
        assert!(kept > 0, "streams want their prefetchers");
    }
}
