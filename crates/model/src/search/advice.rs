//! Warnings to show with a recommendation, for instance that interleaving does not pay.

use super::{Best, GainRange, Problem};
use crate::error::ModelError;
use crate::solve::QuerySolution;

/// Relative gain of rate below which spreading data is not worth it.
pub const NOT_WORTH_IT: f64 = 0.02;

/// Relative loss below which no warning is given.
const LOSS: f64 = 0.005;

/// Warnings and remarks as whole sentences, the most important first.
///
/// Everything in them is modelled.
///
/// # Errors
/// Same as [`Problem::solution`].
pub fn warnings(
    problem: &Problem<'_>,
    best: &Best,
    range: &GainRange,
) -> Result<Vec<String>, ModelError> {
    let first = problem.solution(&problem.on_first()?)?;
    let mut said = Vec::new();
    if problem.tiers.len() > 1 {
        said.extend(losing(problem, best, &first));
        said.extend(small_gain(problem, best));
        said.extend(uncertain(problem, best, range));
        said.extend(defaults(problem, best));
    }
    Ok(said)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Interleaving does not pay: reports the load of the first tier and the idle latencies of all.
fn losing(problem: &Problem<'_>, best: &Best, first: &QuerySolution) -> Option<String> {
    if best.share > 0.0 {
        return None;
    }
    let name = &problem.tiers[0];
    let load = first.tiers.iter().find(|t| t.name == *name);
    let used = load.map_or(0.0, |t| t.utilisation);
    let idle = |tier: &str| {
        problem
            .machine
            .tier(tier)
            .map_or(0.0, |t| t.idle_latency_ns.value)
    };
    let others: Vec<String> = problem.tiers[1..]
        .iter()
        .map(|t| format!("{t} {:.0} ns", idle(t)))
        .collect();
    Some(format!(
        "interleaving does not gain: {name} is used to {} and answers in {:.0} ns idle, {}; what limits the work is {}",
        percent(used),
        idle(name),
        others.join(", "),
        best.bottleneck,
    ))
}

fn small_gain(problem: &Problem<'_>, best: &Best) -> Option<String> {
    let gain = best.gain_over_dram() - 1.0;
    (best.share > 0.0 && gain < NOT_WORTH_IT).then(|| {
        format!(
            "the gain over {} only is {}: not worth spreading data for",
            problem.tiers[0],
            percent(gain)
        )
    })
}

fn uncertain(problem: &Problem<'_>, best: &Best, range: &GainRange) -> Option<String> {
    let decisive = range.decisive.as_ref().map_or(String::new(), |label| {
        format!("; {label} decides most, so measure that first")
    });
    if best.share > 0.0 && range.gain.0 < 1.0 - LOSS && best.gain_over_dram() > 1.0 {
        return Some(format!(
            "not certain: within the uncertainty of the profile {} is between {} and {} of the rate on {} only{decisive}",
            best.weights,
            percent(range.gain.0),
            percent(range.gain.1),
            problem.tiers[0],
        ));
    }
    if best.share == 0.0 && range.regret > NOT_WORTH_IT {
        return Some(format!(
            "not certain: within the uncertainty of the profile up to {} of the work's pages belong on other tiers, for up to {} more rate{decisive}",
            percent(range.best_share.1),
            percent(1.0 / (1.0 - range.regret) - 1.0),
        ));
    }
    (range.regret > 0.1).then(|| {
        format!(
            "within the uncertainty of the profile other weights are up to {} better{decisive}",
            percent(1.0 / (1.0 - range.regret) - 1.0)
        )
    })
}

/// Common choices that lose against leaving everything on the first tier.
fn defaults(problem: &Problem<'_>, best: &Best) -> Vec<String> {
    let usual = [
        (
            "the kernel's own weights",
            &best.kernel_weights,
            best.kernel_rate,
        ),
        ("equal weights", &best.equal_weights, best.equal_rate),
    ];
    let losing = usual
        .iter()
        .filter(|(_, _, rate)| *rate < best.dram_rate * (1.0 - LOSS));
    losing
        .map(|(what, weights, rate)| {
            format!(
                "{what} ({weights}) lose {} against {} only",
                percent(1.0 - rate / best.dram_rate),
                problem.tiers[0]
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::work::{Join, Stream, Work};
    use crate::search::{best, robust};
    use crate::{Options, profiles};

    fn remarks(machine: &str, work: &Work, workers: u32) -> Vec<String> {
        let machine = profiles::load(machine).unwrap();
        let (phases, options) = (work.phases(workers).unwrap(), Options::default());
        let problem = Problem::new(&machine, &phases, workers, &options);
        let found = best(&problem).unwrap();
        warnings(&problem, &found, &robust(&problem, &found).unwrap()).unwrap()
    }

    #[test]
    fn a_reader_is_told_where_interleaving_loses_and_that_defaults_do() {
        let remarks = remarks("epfl25-full-pf-on", &Work::Probe(Join::default()), 4);
        assert!(
            remarks[0].starts_with("interleaving does not gain: dram is used to"),
            "{remarks:?}"
        );
        assert!(remarks[0].contains("111 ns"), "{remarks:?}");
        assert!(
            remarks
                .iter()
                .any(|w| w.starts_with("the kernel's own weights")),
            "{remarks:?}"
        );
        assert!(
            remarks.iter().any(|w| w.starts_with("equal weights")),
            "{remarks:?}"
        );
    }

    #[test]
    fn a_clear_gain_comes_without_a_warning_of_loss() {
        let remarks = remarks("nus24", &Work::Read(Stream::default()), 32);
        assert!(
            remarks
                .iter()
                .all(|w| !w.contains("does not gain") && !w.contains("not certain")),
            "{remarks:?}"
        );
    }
}
