//! `--placement adaptive`: the controller of `tierloom_placement` steers one placement of a run.
//!
//! This module checks the options, creates the driver that places data before each query, gives it
//! the prefetchers' switch where that was requested, and writes the decision log. The decisions
//! themselves are made in `tierloom_engine::adapt` and `tierloom_placement::adaptive`.

use super::args::RunOptions;
use super::plan::PlannedPlacement;
use crate::failure::Failure;
use crate::machine;
use std::path::PathBuf;
use tierloom_model::Machine;
use tierloom_placement::Policy;
use tierloom_text::Bytes;
use tierloom_topology::{TierKind, Topology};

/// Settings of adaptive placement.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "only the SQL engine carries plans out")
)]
pub struct Adaptive {
    /// The machine profile that placements are priced on.
    pub machine: Machine,
    /// Limit on the bytes of columns migrated before one run of a query.
    pub migration_bytes: Option<u64>,
    /// Limit on the bytes of columns in dram.
    pub dram_bytes: Option<u64>,
    /// File for the decision log.
    pub decisions: Option<PathBuf>,
    /// Profile of this machine with its prefetchers off, if they may be switched.
    pub prefetch_off: Option<Machine>,
}

impl Adaptive {
    /// Checks the options; `None` if no placement is adaptive.
    ///
    /// # Errors
    /// Bad input: options that require adaptive placement, no profile or several, a limit that
    /// cannot be enforced, or streams without a limit (their times cannot be learned from).
    pub fn resolve(
        args: &RunOptions,
        placements: &[PlannedPlacement],
        topology: &Topology,
        streams: bool,
    ) -> Result<Option<Self>, Failure> {
        let budget = placements.iter().find_map(|p| match p.policy {
            Policy::Adaptive(budget) => Some(budget),
            _ => None,
        });
        let Some(migration_bytes) = budget else {
            // An option without effect is refused rather than ignored.
            let given = [
                ("--decisions", args.decisions.is_some()),
                ("--dram-limit", args.dram_limit.is_some()),
                ("--prefetch-off", args.prefetch_off.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                Some((option, _)) => Err(Failure::input(format!(
                    "{option} belongs to adaptive placement; add --placement adaptive"
                ))),
                None => Ok(None),
            };
        };
        let adapting = placements.iter().filter(|p| is_adaptive(p)).count();
        if adapting > 1 {
            return Err(Failure::input(
                "--placement: adaptive is named twice with different budgets; one controller learns in a run",
            ));
        }
        let dram_bytes = limit(args, topology)?;
        if streams && dram_bytes.is_none() {
            return Err(Failure::input(
                "--placement adaptive learns from times of queries, and streams disturb one another's; leave --streams out, or cap dram (--dram-limit SIZE) so that columns go by heat",
            ));
        }
        Ok(Some(Adaptive {
            machine: profile(&args.machine)?,
            migration_bytes,
            dram_bytes,
            decisions: args.decisions.clone(),
            prefetch_off: args
                .prefetch_off
                .as_deref()
                .map(|name| machine::load(name.trim()))
                .transpose()?,
        }))
    }

    /// As text, for `--dry-run`.
    pub fn describe(&self) -> String {
        let log = self.decisions.as_ref();
        let mut log = log.map_or_else(String::new, |f| format!("; decisions to {}", f.display()));
        if let Some(off) = &self.prefetch_off {
            log = format!("; prefetchers off where {} is faster{log}", off.name);
        }
        match self.dram_bytes {
            Some(bytes) => format!(
                "columns by heat, {} of them in dram{log}",
                Bytes(bytes).rounded()
            ),
            None => format!(
                "priced on {}, corrected by what is measured{log}",
                self.machine.name
            ),
        }
    }
}

/// Whether a placement changes while it is measured.
pub fn is_adaptive(placement: &PlannedPlacement) -> bool {
    matches!(placement.policy, Policy::Adaptive(_))
}

fn profile(names: &[String]) -> Result<Machine, Failure> {
    match names {
        [name] => machine::load(name.trim()),
        [] => Err(Failure::input(
            "--placement adaptive needs a profile of this machine to begin with; add --machine NAME or FILE.yaml (`tierloom machines` lists those built in, `tierloom characterize` makes one of this machine)",
        )),
        several => Err(Failure::input(format!(
            "--placement adaptive begins with one machine profile, and --machine names {}; name the one that is most like this machine",
            several.len()
        ))),
    }
}

fn limit(args: &RunOptions, topology: &Topology) -> Result<Option<u64>, Failure> {
    let Some(text) = &args.dram_limit else {
        return Ok(None);
    };
    let Bytes(bytes) = text
        .parse()
        .map_err(|e| Failure::input(format!("--dram-limit: {e}")))?;
    if bytes == 0 {
        return Err(Failure::input(format!(
            "--dram-limit {text}: expected a size above 0, as in 512MiB or 1.5GiB"
        )));
    }
    if topology.tier(TierKind::Cxl).is_none() {
        return Err(Failure::input(format!(
            "--dram-limit {text}: this machine has no cxl tier that columns could go to (see `tierloom topology`; --tiers names tiers yourself)"
        )));
    }
    Ok(Some(bytes))
}

#[cfg(feature = "sql")]
mod engine {
    use super::super::data::Session;
    use super::super::plan::{PlannedPlacement, REFERENCE, RunPlan};
    use super::{Adaptive, is_adaptive};
    use crate::failure::Failure;
    use crate::output;
    use std::fmt;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::SystemTime;
    use tierloom_engine::EngineError;
    use tierloom_engine::adapt::{Driver, DriverOptions, PrefetchSwitch};
    use tierloom_engine::capture::HostCosts;
    use tierloom_placement::adaptive::{Prefetching, Settings};
    use tierloom_record::{EngineKind, Provenance, QueryRecord, Spread};
    use tierloom_topology::SysRoot;
    use tierloom_tune::apply::StateFile;
    use tierloom_tune::prefetch::{PrefetchGuard, Prefetchers, state_file};

    /// The driver that places data while queries run under `placement`, if that is adaptive; see
    /// [`Adaptive::driver`].
    ///
    /// # Errors
    /// Same as [`Adaptive::driver`].
    pub fn driver_under(
        placement: &PlannedPlacement,
        plan: &RunPlan,
        session: &Session,
        host: HostCosts,
        noise: Option<f64>,
    ) -> Result<Option<Driver>, Failure> {
        let adaptive = plan.adaptive.as_ref();
        let adaptive = adaptive.filter(|_| is_adaptive(placement));
        adaptive
            .map(|a| a.driver(plan, session, host, noise))
            .transpose()
    }

    impl Adaptive {
        /// A driver for the session's queries, where repeats of a query differ by about `noise`.
        ///
        /// Says on stderr if nothing can be moved on this machine.
        ///
        /// # Errors
        /// Bad input: a profile whose first tier this machine does not have.
        fn driver(
            &self,
            plan: &RunPlan,
            session: &Session,
            host: HostCosts,
            noise: Option<f64>,
        ) -> Result<Driver, Failure> {
            let mut settings = Settings::new(plan.threads as u32);
            if let Some(noise) = noise.filter(|n| *n > settings.noise) {
                // A trial is shorter than a run and so noisier: both limits grow by the same
                // factor, which keeps their default ratio.
                settings.trial_noise *= noise / settings.noise;
                settings.noise = noise;
            }
            settings.migration_bytes_per_run = self
                .migration_bytes
                .unwrap_or(settings.migration_bytes_per_run);
            let options = DriverOptions {
                settings,
                host,
                routing: Some(plan.operator_memory.routing(&plan.topology)),
                dram_bytes: self.dram_bytes,
                ..DriverOptions::new(self.machine.clone(), plan.topology.clone(), plan.threads)
            };
            let tables = session.data.tables.clone();
            let driver = Driver::new(tables, options).map_err(|e| match e {
                // The user chose the profile, so a profile that does not fit this machine is bad
                // input.
                EngineError::Adaptive { .. } | EngineError::Adapt(_) => Failure::input(e),
                other => Failure::runtime(other),
            })?;
            if let Some(why) = driver.cannot_move() {
                note!(
                    "adaptive: everything stays in dram and nothing can be moved here, because {why}"
                );
            }
            Ok(self.with_prefetchers(driver))
        }

        /// The driver with control over the machine's prefetchers, if `--prefetch-off` was given.
        ///
        /// If the machine refuses, the run continues without and stderr says so.
        fn with_prefetchers(&self, driver: Driver) -> Driver {
            let Some(off) = &self.prefetch_off else {
                return driver;
            };
            let root = SysRoot::host();
            let weights = StateFile::usual(&root, true, |name| std::env::var(name).ok());
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            match PrefetchGuard::ready(Arc::new(root), state_file(&weights), &now) {
                Ok(guard) => {
                    let profiles = Prefetching {
                        on: self.machine.clone(),
                        off: off.clone(),
                    };
                    driver.with_prefetchers(profiles, Box::new(Switch(Mutex::new(guard))))
                }
                Err(refused) => {
                    note!("adaptive: prefetchers stay as they are: {refused}");
                    driver
                }
            }
        }

        /// Writes the decision log, if one was requested.
        ///
        /// # Errors
        /// The file cannot be written.
        pub fn finish(&self, driver: &Driver) -> Result<(), Failure> {
            if let Some(why) = driver.mover_failure() {
                note!("adaptive: columns stopped moving: {why}");
            }
            match &self.decisions {
                Some(file) => output::write_file(file, driver.take_log().as_bytes()),
                None => Ok(()),
            }
        }
    }

    /// The prefetchers of all CPUs.
    ///
    /// Dropping it restores their previous state; after a crash `tierloom tune --restore` does.
    struct Switch(Mutex<PrefetchGuard>);

    impl fmt::Debug for Switch {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("prefetchers of all CPUs")
        }
    }

    impl PrefetchSwitch for Switch {
        fn set(&self, on: bool) -> Result<(), String> {
            // A panic elsewhere does not invalidate the guard: it keeps the previous state until
            // that is written back.
            let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            guard.set(on).map_err(|refused| refused.to_string())
        }
    }

    /// How much repeats of a query differ on this machine: the median over queries of the standard
    /// deviation of their times under `dram`, relative to their mean. `None` if no query was
    /// repeated.
    pub fn noise(records: &[QueryRecord]) -> Option<f64> {
        let measured = records.iter().filter(|r| {
            r.provenance == Provenance::Measured
                && r.engine == EngineKind::Tierloom
                && r.placement == REFERENCE
        });
        let deviation = |times: &[f64]| {
            let count = times.len() as f64;
            let mean = times.iter().sum::<f64>() / count;
            let squares = times.iter().map(|t| (t - mean).powi(2)).sum::<f64>();
            (count > 1.0).then(|| (squares / (count - 1.0)).sqrt() / mean)
        };
        let deviations = measured.filter_map(|r| deviation(&r.time_ms.values));
        Spread::of(deviations.collect()).map(|spread| spread.median)
    }

    /// The decisions, as sentences for the summary.
    pub fn findings(driver: &Driver) -> Vec<String> {
        let decisions = driver.decisions();
        let mut found = Vec::new();
        if let Some(why) = driver.cannot_move() {
            found.push(format!("Adaptive: nothing was moved, because {why}."));
        }
        let Some(runs) = decisions.last().map(|d| d.run) else {
            return found;
        };
        let changed = decisions.iter().filter(|d| d.action != "keep").count();
        let tried = decisions.iter().filter(|d| !d.tried.is_empty()).count();
        let learned = decisions.iter().filter(|d| d.learned).count();
        found.push(format!(
            "Adaptive: {runs} runs, {changed} changes of a phase's placement, {tried} times a part tried another one; {learned} of {} phase times were learned from.",
            decisions.len()
        ));
        // Most notes repeat, so the summary quotes the first and counts the rest.
        let mut notes: Vec<&str> = decisions.iter().map(|d| d.note.as_str()).collect();
        notes.retain(|note| note.starts_with("not tried") || note.contains("cannot be tried"));
        if let Some(note) = notes.first() {
            found.push(format!(
                "Adaptive: {} trials could not be made; the first: {note}.",
                notes.len()
            ));
        }
        found
    }
}

#[cfg(feature = "sql")]
pub use engine::{driver_under, findings, noise};
