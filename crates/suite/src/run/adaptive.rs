//! The driver of adaptive placement: creates it, gives it the prefetchers' switch where that was
//! requested, writes the decision log and sums up the decisions.

use super::session::Session;
use crate::adaptive::is_adaptive;
use crate::{Adaptive, Observer, PlannedPlacement, RunError};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tierloom_engine::EngineError;
use tierloom_engine::adapt::{Driver, DriverOptions, PrefetchSwitch};
use tierloom_engine::capture::HostCosts;
use tierloom_placement::adaptive::Prefetching;
use tierloom_record::{EngineKind, Provenance, QueryRecord, REFERENCE, Spread};
use tierloom_topology::SysRoot;
use tierloom_tune::apply::usual_state_file;
use tierloom_tune::prefetch::{PrefetchGuard, Prefetchers, state_file};

/// The driver that places data while queries run under `placement`, if that is adaptive; see
/// [`Adaptive::driver`].
///
/// # Errors
/// Same as [`Adaptive::driver`].
pub fn driver_under(
    placement: &PlannedPlacement,
    session: &Session<'_>,
    host: HostCosts,
    noise: Option<f64>,
) -> Result<Option<Driver>, RunError> {
    let adaptive = session.plan.adaptive.as_ref();
    let adaptive = adaptive.filter(|_| is_adaptive(placement));
    adaptive.map(|a| a.driver(session, host, noise)).transpose()
}

impl Adaptive {
    /// A driver for the session's queries, where repeats of a query differ by about `noise`.
    ///
    /// Notes if nothing can be moved on this machine.
    ///
    /// # Errors
    /// Bad input: a profile whose first tier this machine does not have.
    fn driver(
        &self,
        session: &Session<'_>,
        host: HostCosts,
        noise: Option<f64>,
    ) -> Result<Driver, RunError> {
        let plan = session.plan;
        let mut options = DriverOptions::for_engine(
            self.machine.clone(),
            plan.topology.clone(),
            session.engine.options(),
            self.migration_bytes,
            self.dram_bytes,
        );
        options.host = host;
        let settings = &mut options.settings;
        if let Some(noise) = noise.filter(|n| *n > settings.noise) {
            // A trial is shorter than a run and so noisier: both limits grow by the same
            // factor, which keeps their default ratio.
            settings.trial_noise *= noise / settings.noise;
            settings.noise = noise;
        }
        let tables = session.data.tables.clone();
        let driver = Driver::new(tables, options).map_err(|e| match e {
            // The user chose the profile, so a profile that does not fit this machine is bad
            // input.
            EngineError::Adaptive { .. } | EngineError::Adapt(_) => RunError::refused(e),
            other => other.into(),
        })?;
        if let Some(why) = driver.cannot_move() {
            session.observer.note(&format!(
                "adaptive: everything stays in dram and nothing can be moved here, because {why}"
            ));
        }
        if let Some(why) = driver.no_latencies() {
            session.observer.note(&format!(
                "adaptive: latencies of the tiers are not measured, so phases move by their times \
                 alone: {why}"
            ));
        }
        Ok(self.with_prefetchers(driver, session.observer))
    }

    /// The driver with control over the machine's prefetchers, if `--prefetch-off` was given.
    ///
    /// If the machine refuses, the run continues without and notes it.
    fn with_prefetchers(&self, driver: Driver, observer: &dyn Observer) -> Driver {
        let Some(off) = &self.prefetch_off else {
            return driver;
        };
        let root = SysRoot::host();
        let weights = usual_state_file(&root, true, |name| std::env::var(name).ok());
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
                observer.note(&format!(
                    "adaptive: prefetchers stay as they are: {refused}"
                ));
                driver
            }
        }
    }

    /// Writes the decision log, if one was requested.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, driver: &Driver, observer: &dyn Observer) -> Result<(), RunError> {
        if let Some(why) = driver.mover_failure() {
            observer.note(&format!("adaptive: columns stopped moving: {why}"));
        }
        match &self.decisions {
            Some(file) => super::write_file(file, &driver.take_log(), observer),
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
