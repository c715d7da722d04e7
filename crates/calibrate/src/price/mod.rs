//! Computes the modelled value of a figure.
//!
//! Translates the figure's experiment into phases, placements and options of the solver, and the
//! solution into the figure's quantity. Nothing is fitted here.

mod share;

use crate::error::CalibrateError;
use crate::figures::{Experiment, FigurePoint, Quantity};
use crate::library::Library;
use std::sync::LazyLock;
use tierloom_model::reference::ssb::ssb_queries;
use tierloom_model::reference::work::Work;
use tierloom_model::{
    Domain, Machine, ModelError, Options, Phase, QuerySolution, Solution, solve_all, solve_together,
};

/// Names of the SSB queries that "all" comprises.
static QUERIES: LazyLock<Vec<String>> = LazyLock::new(|| {
    ssb_queries(1.0, 4, 0.0)
        .into_iter()
        .map(|(name, _)| name)
        .collect()
});

/// Modelled value of a figure, in the unit of its quantity.
///
/// Its background load and `options.background` add up.
///
/// - Rates are those of [`solve_all`] (phases one after the other), multiplied by the constants of
///   `tool`; the constants of `compute` add to the compute time per tuple.
/// - With groups, each group runs with its own workers on the whole machine while all tiers are
///   shared ([`solve_together`]). Every worker does the same amount of work; the time is the mean
///   over workers, and the rate is the work over that time.
/// - Ratios and gains of the SSB query "all" are geometric means over the queries; its other
///   quantities use the sum of the times.
/// - The best share is searched in steps of 1 % of the structures in `moves` (of all if it is
///   empty) on `tier`.
///
/// # Errors
/// [`CalibrateError`] if the library lacks a machine or constant, the model rejects the experiment,
/// or the work has no such quantity.
pub fn price(
    figure: &FigurePoint,
    library: &Library,
    options: &Options,
) -> Result<f64, CalibrateError> {
    Pricer::new(figure, library, options).price(Search::Steps)
}

/// The same for fits: the best share is refined beyond whole per cent, so that it is a smooth
/// function of the parameters.
pub(crate) fn price_smoothly(
    figure: &FigurePoint,
    library: &Library,
    options: &Options,
) -> Result<f64, CalibrateError> {
    Pricer::new(figure, library, options).price(Search::Refined)
}

/// Rate with the published share over the rate with the modelled best share, for figures of the
/// best share.
///
/// It shows what following the publication would cost, according to the model.
///
/// # Errors
/// Same as [`price`].
pub fn rate_at_share(
    figure: &FigurePoint,
    share_percent: f64,
    library: &Library,
    options: &Options,
) -> Result<f64, CalibrateError> {
    let pricer = Pricer::new(figure, library, options);
    let setting = &figure.setting;
    let at = |share: f64| pricer.rate_with_share(setting, share);
    let (best, _) = pricer.best_share(setting, Search::Steps)?;
    Ok(at(share_percent / 100.0)? / at(best)?)
}

/// Phases of a figure's work with their solutions; those of the first group if there are several.
///
/// # Errors
/// Same as [`price`].
pub fn solution(
    figure: &FigurePoint,
    library: &Library,
    options: &Options,
) -> Result<QuerySolution, CalibrateError> {
    let pricer = Pricer::new(figure, library, options);
    let mut setting = figure.setting.clone();
    if let Some(group) = setting.groups.first() {
        setting.threads = Some(group.threads);
        setting.placement = group.placement.clone();
        setting.work = group.work.clone().unwrap_or(setting.work);
    }
    if matches!(
        figure.quantity,
        Quantity::BestShare | Quantity::BestGainPercent | Quantity::BestAddedShare
    ) {
        let (best, _) = pricer.best_share(&setting, Search::Steps)?;
        setting.placement = pricer.shared(&setting, best)?;
    }
    pricer.solved(&setting, &setting.work)
}

#[derive(Clone, Copy, PartialEq)]
enum Search {
    Steps,
    Refined,
}

struct Pricer<'a> {
    figure: &'a FigurePoint,
    library: &'a Library,
    options: &'a Options,
}

impl<'a> Pricer<'a> {
    fn new(figure: &'a FigurePoint, library: &'a Library, options: &'a Options) -> Self {
        Pricer {
            figure,
            library,
            options,
        }
    }

    fn price(&self, search: Search) -> Result<f64, CalibrateError> {
        let value = self.value(search)?;
        if value.is_finite() {
            return Ok(value);
        }
        let problem = format!("the model gives {value}: the work takes no time");
        Err(self.no_quantity(
            problem,
            "give it processor time, or more bytes than the private caches hold",
        ))
    }

    fn value(&self, search: Search) -> Result<f64, CalibrateError> {
        let setting = &self.figure.setting;
        Ok(match self.figure.quantity {
            Quantity::Gbps => self.tuples_per_ns(setting)? * self.bytes(setting)?,
            Quantity::MeanGbps => self.rate(setting, &setting.work)? * self.bytes(setting)?,
            Quantity::Mops => self.tuples_per_ns(setting)? * 1e3,
            Quantity::LatencyNs => self.latency_ns(setting)?,
            Quantity::TierLatencyNs => self.tier_latency(setting)?.0,
            Quantity::LatencyRatio => {
                let (loaded, idle) = self.tier_latency(setting)?;
                loaded / idle
            }
            Quantity::Utilisation => self.utilisation(setting)?,
            Quantity::Ratio => self.speed_up()?,
            Quantity::GainPercent => (self.speed_up()? - 1.0) * 100.0,
            Quantity::BestShare => self.best_share(setting, search)?.0 * 100.0,
            Quantity::BestGainPercent => {
                let (_, best) = self.best_share(setting, search)?;
                let other = match &self.figure.versus {
                    Some(versus) => self.rate(versus, &versus.work)?,
                    None => self.rate_with_share(setting, 0.0)?,
                };
                (best / other - 1.0) * 100.0
            }
            Quantity::BestAddedShare => {
                let (_, best) = self.best_share(setting, search)?;
                let first = self.rate_with_share(setting, 0.0)?;
                (best - first) / self.rate_with_share(setting, 1.0)? * 100.0
            }
        })
    }

    fn machine(&self, setting: &Experiment) -> Result<&Machine, CalibrateError> {
        self.library.machine(&setting.machine, self.figure)
    }

    fn threads(&self, setting: &Experiment) -> Result<u32, CalibrateError> {
        let cores = self.machine(setting)?.cores.value;
        Ok(setting.threads.unwrap_or(cores as u32))
    }

    fn options(&self, setting: &Experiment) -> Options {
        let mut options = self.options.clone();
        options
            .background
            .extend(setting.background.iter().cloned());
        options
    }

    fn model(&self, source: ModelError) -> CalibrateError {
        CalibrateError::Price {
            file: self.figure.file.clone(),
            line: self.figure.line,
            id: self.figure.id.clone(),
            source: Box::new(source),
        }
    }

    fn no_quantity(&self, problem: impl Into<String>, hint: &str) -> CalibrateError {
        CalibrateError::Quantity {
            file: self.figure.file.clone(),
            line: self.figure.line,
            id: self.figure.id.clone(),
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    fn bytes(&self, setting: &Experiment) -> Result<f64, CalibrateError> {
        let bytes = setting.work.bytes_per_tuple();
        bytes.ok_or_else(|| {
            let problem = format!("{} counts operations, no bytes", setting.work.name());
            self.no_quantity(problem, "use mops, latency_ns, ratio or gain_percent")
        })
    }

    /// Product of the constants of the tool.
    fn tool(&self, setting: &Experiment) -> Result<f64, CalibrateError> {
        let factors = setting
            .tool
            .iter()
            .map(|name| self.library.constant(name, self.figure));
        factors.product()
    }

    fn phases(
        &self,
        setting: &Experiment,
        work: &Work,
        threads: u32,
    ) -> Result<Vec<Phase>, CalibrateError> {
        let more = setting
            .compute
            .iter()
            .map(|name| self.library.constant(name, self.figure));
        let more_ns: f64 = more.sum::<Result<f64, _>>()?;
        let work = work.clone().with_compute_ns(more_ns);
        work.phases(threads).map_err(|e| self.model(e))
    }

    fn solved(&self, setting: &Experiment, work: &Work) -> Result<QuerySolution, CalibrateError> {
        let threads = self.threads(setting)?;
        let phases = self.phases(setting, work, threads)?;
        let machine = self.machine(setting)?;
        solve_all(
            machine,
            &phases,
            &setting.placement,
            threads,
            &self.options(setting),
        )
        .map_err(|e| self.model(e))
    }

    /// For each group while all of them run: time per tuple, ns, and number of workers.
    fn grouped(
        &self,
        setting: &Experiment,
        work: &Work,
    ) -> Result<Vec<(f64, f64)>, CalibrateError> {
        let machine = self.machine(setting)?;
        let tiers: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
        let mut phases = Vec::new();
        for group in &setting.groups {
            let work = group.work.as_ref().unwrap_or(work);
            phases.push(self.phases(setting, work, group.threads)?);
        }
        let steps = phases.first().map_or(0, Vec::len);
        if phases.iter().any(|p| p.len() != steps) {
            let problem = "its groups have different numbers of phases";
            return Err(self.no_quantity(problem, "give all groups works of as many phases"));
        }
        let options = self.options(setting);
        let mut times: Vec<(f64, f64)> = setting
            .groups
            .iter()
            .map(|g| (0.0, f64::from(g.threads)))
            .collect();
        let all: u32 = setting.groups.iter().map(|g| g.threads).sum();
        // All groups are in the same phase at the same time; how they drift apart is not modelled.
        for step in 0..steps {
            let domains: Vec<Domain<'_>> = setting
                .groups
                .iter()
                .zip(&phases)
                .map(|(group, phases)| Domain {
                    machine,
                    phase: &phases[step],
                    placement: &group.placement,
                    workers: group.threads,
                    // All groups run on the cores of the one machine.
                    neighbours: all - group.threads,
                })
                .collect();
            let solved: Vec<Solution> =
                solve_together(&domains, &tiers, &options).map_err(|e| self.model(e))?;
            for ((time, solution), (index, group)) in times
                .iter_mut()
                .zip(&solved)
                .zip(setting.groups.iter().enumerate())
            {
                let tuples = group.work.as_ref().unwrap_or(work).tuples();
                // Per tuple of the work: a phase may process another number of tuples than the work
                // counts.
                time.0 += phases[index][step].tuples / tuples / solution.tuples_per_s * 1e9;
            }
        }
        Ok(times)
    }

    /// Tuples per ns from the mean time of the workers, multiplied by the tool's constants.
    fn rate(&self, setting: &Experiment, work: &Work) -> Result<f64, CalibrateError> {
        let tool = self.tool(setting)?;
        if setting.groups.is_empty() {
            return Ok(tool * work.tuples() / self.solved(setting, work)?.time_ns);
        }
        // If a group of w workers takes t ns per tuple, each of its workers takes t * w.
        let groups = self.grouped(setting, work)?;
        let workers: f64 = groups.iter().map(|(_, w)| w).sum();
        let mean: f64 = groups.iter().map(|(time, w)| time * w * w).sum::<f64>() / workers;
        Ok(tool * workers / mean)
    }

    /// Tuples per ns of all groups together, multiplied by the tool's constants.
    fn tuples_per_ns(&self, setting: &Experiment) -> Result<f64, CalibrateError> {
        if setting.groups.is_empty() {
            return self.rate(setting, &setting.work);
        }
        let groups = self.grouped(setting, &setting.work)?;
        let sum: f64 = groups.iter().map(|(time, _)| 1.0 / time).sum();
        Ok(self.tool(setting)? * sum)
    }

    /// Time of one tuple on one worker, ns.
    fn latency_ns(&self, setting: &Experiment) -> Result<f64, CalibrateError> {
        let tool = self.tool(setting)?;
        if setting.groups.is_empty() {
            // Workers run in parallel, so the time of one tuple on its worker is `workers` times
            // the mean interval between tuples.
            let workers = f64::from(self.threads(setting)?);
            let solved = self.solved(setting, &setting.work)?;
            return Ok(tool * workers * solved.time_ns / setting.work.tuples());
        }
        let groups = self.grouped(setting, &setting.work)?;
        let workers: f64 = groups.iter().map(|(_, w)| w).sum();
        Ok(tool * groups.iter().map(|(time, w)| time * w * w).sum::<f64>() / workers)
    }

    fn no_groups(&self, setting: &Experiment) -> Result<(), CalibrateError> {
        if setting.groups.is_empty() {
            return Ok(());
        }
        Err(self.no_quantity(
            "several groups have no one latency or utilisation",
            "use gbps, mean_gbps, ratio or gain_percent, or one group",
        ))
    }

    /// Loaded latency of the tier, averaged by time, and its idle latency, ns; both with switches.
    fn tier_latency(&self, setting: &Experiment) -> Result<(f64, f64), CalibrateError> {
        self.no_groups(setting)?;
        let index = self.tier_index(setting)?;
        let solved = self.solved(setting, &setting.work)?;
        let weighted = solved
            .phases
            .iter()
            .map(|p| p.solution.tiers[index].latency_ns * p.solution.time_ns);
        let tier = &self.machine(setting)?.tiers[index];
        let switch = if self.options.terms.switches {
            tier.switch_ns.as_ref().map_or(0.0, |v| v.value)
        } else {
            0.0
        };
        let idle = tier.idle_latency_ns.value + switch;
        // Work that stays in the private caches takes no time and causes no load.
        let loaded = if solved.time_ns > 0.0 {
            weighted.sum::<f64>() / solved.time_ns
        } else {
            idle
        };
        Ok((self.tool(setting)? * loaded, idle))
    }

    fn utilisation(&self, setting: &Experiment) -> Result<f64, CalibrateError> {
        self.no_groups(setting)?;
        let index = self.tier_index(setting)?;
        let solved = self.solved(setting, &setting.work)?;
        Ok(self.tool(setting)? * solved.tiers[index].utilisation)
    }

    fn tier_index(&self, setting: &Experiment) -> Result<usize, CalibrateError> {
        let tiers = &self.machine(setting)?.tiers;
        tiers
            .iter()
            .position(|t| t.name == setting.tier)
            .ok_or_else(|| {
                let known: Vec<&str> = tiers.iter().map(|t| t.name.as_str()).collect();
                let problem = format!("machine {} has no tier {:?}", setting.machine, setting.tier);
                self.no_quantity(problem, &format!("use {}", known.join(" or ")))
            })
    }

    /// Rate over that of the reference experiment; the geometric mean over queries for all of SSB.
    fn speed_up(&self) -> Result<f64, CalibrateError> {
        let (setting, versus) = (&self.figure.setting, self.figure.versus.as_ref());
        let Some(versus) = versus else {
            return Err(self.no_quantity("it is compared with nothing", "add `versus`"));
        };
        let (Work::Ssb(mine), Work::Ssb(other)) = (&setting.work, &versus.work) else {
            return Ok(self.rate(setting, &setting.work)? / self.rate(versus, &versus.work)?);
        };
        if mine.query != "all" || other.query != "all" {
            return Ok(self.rate(setting, &setting.work)? / self.rate(versus, &versus.work)?);
        }
        // The geometric mean is the mean of speed-ups that does not depend on which of the two
        // experiments is the reference.
        let mut logarithms = 0.0;
        for query in QUERIES.iter() {
            let (mut a, mut b) = (mine.clone(), other.clone());
            (a.query, b.query) = (query.clone(), query.clone());
            logarithms +=
                (self.rate(setting, &Work::Ssb(a))? / self.rate(versus, &Work::Ssb(b))?).ln();
        }
        Ok((logarithms / QUERIES.len() as f64).exp())
    }
}
