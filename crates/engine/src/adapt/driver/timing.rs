//! Converts the times of a run to what the controller learns.
//!
//! Everything is CPU time per worker, so that parts of a phase can be compared although workers
//! overlap. Trials are scaled by the time that their rows take in a pass without trials.

use super::trials::PlannedTrial;
use crate::star::MorselTimes;
use std::fmt;
use tierloom_model::Phase;
use tierloom_placement::adaptive::{Measured, PhaseDecision, Trial};

/// Supplies the times of phases; on a real machine, those measured.
///
/// Tests and studies implement it to simulate another machine: pages are placed and the query runs
/// here, and the time comes from a model of the other machine.
pub trait Timing: Send + Sync + fmt::Debug {
    /// The times of a phase that ran as decided.
    ///
    /// `measured` has the time of the part under the decided layout and of each timed trial, in the
    /// order of the decision's trials.
    fn of_phase(&self, phase: &Phase, decision: &PhaseDecision, measured: Measured) -> Measured;

    /// The phases of a run, whose computing time per row is measured too.
    ///
    /// The default is what was measured; a simulated machine has its own.
    fn of_run(&self, phases: Vec<Phase>) -> Vec<Phase> {
        phases
    }
}

/// Returns measured times unchanged.
#[derive(Debug, Default, Clone, Copy)]
pub struct AsMeasured;

impl Timing for AsMeasured {
    fn of_phase(&self, _: &Phase, _: &PhaseDecision, measured: Measured) -> Measured {
        measured
    }
}

/// The measured times of a phase; `None` if one of them is not positive.
///
/// Time is CPU time divided by the workers, which are all busy from the begin of a phase to its
/// end. The time of the trials is subtracted from the phase, and each is scaled to the share that
/// was decided. With a control part, that part's time is scaled to the whole phase.
pub(super) fn measured(
    decision: &PhaseDecision,
    cpu_ns: f64,
    times: Option<&MorselTimes>,
    trials: &[PlannedTrial],
    control: Option<&PlannedTrial>,
    workers: usize,
) -> Option<Measured> {
    let workers = times.map_or(workers, |t| t.workers).max(1) as f64;
    let time =
        |part: &PlannedTrial| times.map_or(0.0, |times| times.of(&part.rows).as_nanos() as f64);
    let tried_ns: Vec<f64> = trials.iter().map(time).collect();
    let pass_ns = times.map_or(0.0, |t| t.of(&(0..t.rows)).as_nanos() as f64);
    let share: f64 = trials.iter().map(|t| t.time_share).sum();
    // CPU time of the phase outside of the timed morsels.
    let beside_ns = (cpu_ns - pass_ns).max(0.0);
    let rest_ns = match control {
        Some(part) => time(part) / part.time_share + beside_ns,
        // The rest of the pass is scaled up by the time that the trial rows take without a trial.
        None => (cpu_ns - tried_ns.iter().sum::<f64>()) / (1.0 - share).max(f64::EPSILON),
    };
    let of_trial = |((trial, ns), decided): ((&PlannedTrial, &f64), &Trial)| {
        (ns / trial.time_share + beside_ns) / workers * decided.share
    };
    let measured = Measured {
        time_ns: rest_ns / workers * decision.rest(),
        trials_ns: trials
            .iter()
            .zip(&tried_ns)
            .zip(&decision.trials)
            .map(of_trial)
            .collect(),
        latencies: None,
    };
    let possible = |ns: &f64| ns.is_finite() && *ns > 0.0;
    // A time of zero means that the clock did not resolve the part.
    (possible(&measured.time_ns) && measured.trials_ns.iter().all(possible)).then_some(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind, profiles};
    use tierloom_placement::adaptive::{Controller, Layout, Settings};

    fn decision() -> PhaseDecision {
        let machine = profiles::load("nus24").unwrap();
        let mut controller = Controller::new(&machine, Settings::new(2)).unwrap();
        let phase = Phase::new("t", PhaseKind::Probe, 1e8).access(Access::sequential_read(
            "t.a",
            8.0,
            800_000_000,
        ));
        let decided = controller.plan("q", &[phase]).unwrap().remove(0);
        PhaseDecision {
            trials: vec![Trial {
                layout: Layout::on("cxl").unwrap(),
                share: 0.1,
            }],
            ..decided
        }
    }

    #[test]
    fn a_part_that_was_always_cheap_is_no_gain_and_a_slower_one_is_a_loss() {
        let rows = 10 * MorselTimes::ROWS;
        let times = |first_ns: u64| {
            let mut morsels_ns = vec![100; 10];
            morsels_ns[0] = first_ns;
            MorselTimes {
                rows,
                morsels_ns,
                workers: 2,
            }
        };
        let before = times(20);
        let trial = PlannedTrial {
            rows: 0..MorselTimes::ROWS,
            time_share: before.of(&(0..MorselTimes::ROWS)).as_nanos() as f64
                / before.of(&(0..rows)).as_nanos() as f64,
            parts: Vec::new(),
        };
        let of = |first_ns: u64| {
            let times = times(first_ns);
            let cpu = times.of(&(0..rows)).as_nanos() as f64;
            let trials = std::slice::from_ref(&trial);
            measured(&decision(), cpu, Some(&times), trials, None, 2).unwrap()
        };
        // 920 ns over two workers: the whole phase would take 460 ns either way.
        let same = of(20);
        assert!((same.time_ns - 0.9 * 460.0).abs() < 1e-6, "{same:?}");
        assert!((same.trials_ns[0] - 0.1 * 460.0).abs() < 1e-6, "{same:?}");
        let slower = of(30);
        assert!((slower.time_ns - 0.9 * 460.0).abs() < 1e-6, "{slower:?}");
        assert!(
            (slower.trials_ns[0] - 0.1 * 690.0).abs() < 1e-6,
            "{slower:?}"
        );
    }

    #[test]
    fn no_time_is_no_measurement() {
        assert_eq!(measured(&decision(), 0.0, None, &[], None, 2), None);
    }

    #[test]
    fn a_part_that_lies_as_decided_stands_for_the_whole() {
        let rows = 10 * MorselTimes::ROWS;
        let mut morsels_ns = vec![100; 10];
        // The first morsel is placed as decided, the others on memory four times as slow.
        morsels_ns[0] = 25;
        let times = MorselTimes {
            rows,
            morsels_ns,
            workers: 2,
        };
        let control = PlannedTrial {
            rows: 0..MorselTimes::ROWS,
            time_share: 0.1,
            parts: Vec::new(),
        };
        let cpu = times.of(&(0..rows)).as_nanos() as f64;
        let found = measured(&decision(), cpu, Some(&times), &[], Some(&control), 2).unwrap();
        assert!((found.time_ns - 0.9 * 125.0).abs() < 1e-6, "{found:?}");
    }
}
