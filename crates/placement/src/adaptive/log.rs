//! Decision log: input and output of the controller, and a replay that checks them.
//!
//! A log is one JSON document per line. [`replay`] feeds the recorded input to a new controller and
//! compares its decisions with the recorded ones. It compares actions, placements, the layouts of
//! trials, gains and expected times, but not the shares of trials, moved bytes or reasons.

use super::{Controller, Measured, PhaseDecision, Settings};
use crate::AdaptError;
use serde::{Deserialize, Serialize};
use tierloom_model::{Machine, Phase};

/// Name and version of the log format; the first line is an [`Entry::Start`].
pub const SCHEMA: &str = "tierloom-decisions/1";

/// Relative difference up to which numbers are equal: the rounding of decimal digits.
const SAME: f64 = 1e-6;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// Initial state of the controller.
    Start {
        /// Always [`SCHEMA`]; a replay rejects others.
        schema: String,
        /// Machine profile that the controller started with.
        machine: Box<Machine>,
        /// Settings of the controller.
        settings: Settings,
    },
    /// A run was planned.
    Plan {
        /// Time of the caller's clock, s.
        at_s: f64,
        /// Name of the query.
        query: String,
        /// Phases of the query, in order.
        phases: Vec<Phase>,
        /// Decision for each phase, in order.
        decisions: Vec<PhaseDecision>,
    },
    /// How a planned run was executed; informative only, no decision depends on it.
    Ran {
        /// Time of the caller's clock, s.
        at_s: f64,
        /// Name of the query.
        query: String,
        /// How each phase was executed.
        phases: Vec<RanPhase>,
        /// Whether hardware prefetchers were switched off during the run.
        prefetch_off: bool,
        /// Bytes of columns that were moved before the run.
        moved_bytes: u64,
    },
    /// The measured times of a planned run.
    Learn {
        /// Time of the caller's clock, s.
        at_s: f64,
        /// Name of the query.
        query: String,
        /// Times of each phase; `None` for a phase that was not timed.
        measured: Vec<Option<Measured>>,
    },
}

/// How one phase was executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RanPhase {
    /// Name of the phase.
    pub phase: String,
    /// Workers that executed the phase.
    pub workers: u32,
    /// Number of trials executed: the first ones of the decision.
    pub trials: u32,
    /// What was not done as decided, and why; empty if all was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Source of the log's timestamps, in seconds from any origin.
pub trait Clock: Send {
    /// Seconds since the origin of this clock.
    fn now_s(&self) -> f64;
}

/// Monotonic time since the clock was created.
#[derive(Debug)]
pub struct SystemClock(std::time::Instant);

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock(std::time::Instant::now())
    }
}

impl Clock for SystemClock {
    fn now_s(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// A controller that logs its input and its decisions.
pub struct Logged {
    controller: Controller,
    clock: Box<dyn Clock>,
    lines: Vec<String>,
}

impl Logged {
    /// Creates a controller from a machine profile alone, and logs its start.
    ///
    /// # Errors
    /// Same as [`Controller::new`]; [`AdaptError::Log`] if the profile cannot be serialised.
    pub fn new(
        machine: &Machine,
        settings: Settings,
        clock: Box<dyn Clock>,
    ) -> Result<Self, AdaptError> {
        let mut logged = Logged {
            controller: Controller::new(machine, settings.clone())?,
            clock,
            lines: Vec::new(),
        };
        logged.note(&Entry::Start {
            schema: SCHEMA.into(),
            machine: Box::new(machine.clone()),
            settings,
        })?;
        Ok(logged)
    }

    /// The wrapped controller, for queries that need no log entry.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Calls [`Controller::plan`] and logs the decisions.
    ///
    /// # Errors
    /// Same as [`Controller::plan`]; [`AdaptError::Log`] if the entry cannot be serialised.
    pub fn plan(
        &mut self,
        query: &str,
        phases: &[Phase],
    ) -> Result<Vec<PhaseDecision>, AdaptError> {
        let decisions = self.controller.plan(query, phases)?;
        self.note(&Entry::Plan {
            at_s: self.clock.now_s(),
            query: query.into(),
            phases: phases.to_vec(),
            decisions: decisions.clone(),
        })?;
        Ok(decisions)
    }

    /// Logs how the last planned run of `query` was executed.
    ///
    /// # Errors
    /// [`AdaptError::Log`] if the entry cannot be serialised.
    pub fn ran(
        &mut self,
        query: &str,
        phases: Vec<RanPhase>,
        prefetch_off: bool,
        moved_bytes: u64,
    ) -> Result<(), AdaptError> {
        self.note(&Entry::Ran {
            at_s: self.clock.now_s(),
            query: query.into(),
            phases,
            prefetch_off,
            moved_bytes,
        })
    }

    /// Calls [`Controller::learn`] and logs the times.
    ///
    /// # Errors
    /// Same as [`Controller::learn`]; [`AdaptError::Log`] if the entry cannot be serialised.
    pub fn learn(&mut self, query: &str, measured: &[Option<Measured>]) -> Result<(), AdaptError> {
        self.controller.learn(query, measured)?;
        self.note(&Entry::Learn {
            at_s: self.clock.now_s(),
            query: query.into(),
            measured: measured.to_vec(),
        })
    }

    /// Lines since the last call, each with a newline; the caller appends them to a file.
    pub fn take_lines(&mut self) -> String {
        self.lines.drain(..).map(|line| line + "\n").collect()
    }

    fn note(&mut self, entry: &Entry) -> Result<(), AdaptError> {
        let line = serde_json::to_string(entry).map_err(|e| AdaptError::Log {
            line: self.lines.len() + 1,
            reason: e.to_string(),
        })?;
        self.lines.push(line);
        Ok(())
    }
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Number of plans in the log.
    pub plans: usize,
    /// Number of decisions that the replay reproduced.
    pub decisions: usize,
    /// Decisions that the replay did not reproduce.
    pub differing: Vec<Difference>,
}

/// A decision that the replay did not reproduce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Line number in the log, from 1.
    pub line: usize,
    /// Name of the phase; "all" where the number of decisions differs.
    pub phase: String,
    /// The logged and the replayed decision, as text.
    pub what: String,
}

/// Repeats every decision of a log from the input logged before it, and compares.
///
/// # Errors
/// [`AdaptError::Log`] with the line that cannot be parsed, has another schema, or is out of order;
/// otherwise same as [`Controller::plan`] and [`Controller::learn`].
pub fn replay(log: &str) -> Result<Replayed, AdaptError> {
    let mut controller: Option<Controller> = None;
    let mut replayed = Replayed {
        plans: 0,
        decisions: 0,
        differing: Vec::new(),
    };
    for (at, text) in log
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let line = at + 1;
        let wrong = |reason: String| AdaptError::Log { line, reason };
        let entry: Entry = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        match (entry, &mut controller) {
            (
                Entry::Start {
                    schema,
                    machine,
                    settings,
                },
                None,
            ) => {
                if schema != SCHEMA {
                    return Err(wrong(format!(
                        "it is of schema {schema:?}, this is {SCHEMA}"
                    )));
                }
                controller = Some(Controller::new(&machine, settings)?);
            }
            (Entry::Start { .. }, Some(_)) => {
                return Err(wrong("a log begins once; split the file here".into()));
            }
            (_, None) => {
                return Err(wrong(
                    "the log does not begin with an entry \"start\"".into(),
                ));
            }
            (
                Entry::Plan {
                    query,
                    phases,
                    decisions,
                    ..
                },
                Some(controller),
            ) => {
                let again = controller.plan(&query, &phases)?;
                replayed.plans += 1;
                replayed.compare(line, &decisions, &again);
            }
            (Entry::Ran { .. }, Some(_)) => {}
            (
                Entry::Learn {
                    query, measured, ..
                },
                Some(controller),
            ) => {
                controller.learn(&query, &measured)?;
            }
        }
    }
    Ok(replayed)
}

impl Replayed {
    fn compare(&mut self, line: usize, logged: &[PhaseDecision], again: &[PhaseDecision]) {
        if logged.len() != again.len() {
            self.differing.push(Difference {
                line,
                phase: "all".into(),
                what: format!("{} decisions logged, {} follow", logged.len(), again.len()),
            });
        }
        // If the numbers differ, the common decisions are compared nevertheless.
        for (logged, again) in logged.iter().zip(again) {
            match difference(logged, again) {
                None => self.decisions += 1,
                Some(what) => self.differing.push(Difference {
                    line,
                    phase: logged.phase.clone(),
                    what,
                }),
            }
        }
    }
}

fn difference(logged: &PhaseDecision, again: &PhaseDecision) -> Option<String> {
    // Layouts have to match exactly, numbers only up to rounding.
    let describe = |d: &PhaseDecision| {
        let trials = d.trials.iter().map(|t| format!(", tries {}", t.layout));
        format!(
            "{:?} {} (wants {}){}",
            d.action,
            d.layout,
            d.proposed,
            trials.collect::<String>()
        )
    };
    if describe(logged) != describe(again) {
        return Some(format!(
            "{} logged, {} follows",
            describe(logged),
            describe(again)
        ));
    }
    let numbers = [
        ("expected_ns", logged.expected_ns, again.expected_ns),
        ("gain", logged.gain, again.gain),
        ("doubt", logged.std_dev, again.std_dev),
    ];
    let apart = |a: f64, b: f64| (a - b).abs() > SAME * (1.0 + a.abs().max(b.abs()));
    let found = numbers.iter().find(|(_, a, b)| apart(*a, *b));
    found.map(|(name, a, b)| format!("{name} {a} logged, {b} follows"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind, profiles};

    struct Ticks;

    impl Clock for Ticks {
        fn now_s(&self) -> f64 {
            7.0
        }
    }

    fn log() -> String {
        let machine = profiles::load("nus24").unwrap();
        let phases = [Phase::new("scan", PhaseKind::Scan, 1e9)
            .compute_ns(1.3)
            .access(Access::sequential_read("t.c", 8.0, 8_000_000_000))];
        let mut logged = Logged::new(&machine, Settings::new(32), Box::new(Ticks)).unwrap();
        let mut text = String::new();
        for run in 0..6 {
            let decisions = logged.plan("q", &phases).unwrap();
            // An uneven factor, so that rounding of decimal digits shows.
            let factor = 1.0371 + 0.0017 * f64::from(run);
            let measured = Measured {
                time_ns: decisions[0].expected_ns * decisions[0].rest() * factor,
                trials_ns: decisions[0]
                    .trials
                    .iter()
                    .map(|t| 4.1e8 * t.share)
                    .collect(),
                latencies: None,
            };
            let carried_out = RanPhase {
                phase: "scan".into(),
                workers: 32,
                trials: decisions[0].trials.len() as u32,
                note: String::new(),
            };
            logged.ran("q", vec![carried_out], false, 0).unwrap();
            logged.learn("q", &[Some(measured)]).unwrap();
            text += &logged.take_lines();
        }
        text
    }

    #[test]
    fn every_decision_follows_from_the_log() {
        let log = log();
        assert_eq!(log.lines().count(), 1 + 18);
        let replayed = replay(&log).unwrap();
        assert_eq!((replayed.plans, replayed.decisions), (6, 6));
        assert_eq!(replayed.differing, []);
    }

    #[test]
    fn a_changed_measurement_or_decision_is_found() {
        let log = log();
        let changed: Vec<String> = log
            .lines()
            .map(|line| match line.contains("\"learn\"") {
                true => line.replacen("\"time_ns\":", "\"time_ns\":9", 1),
                false => line.to_owned(),
            })
            .collect();
        assert!(!replay(&changed.join("\n")).unwrap().differing.is_empty());
        let decided = log.replacen("\"action\":\"keep\"", "\"action\":\"return\"", 1);
        let found = replay(&decided).unwrap().differing;
        assert_eq!((found.len(), found[0].line), (1, 2), "{found:?}");
    }

    #[test]
    fn a_broken_log_names_its_line() {
        let log = log();
        let half = &log[..log.len() - 20];
        assert!(replay(half).unwrap_err().to_string().contains("line 19"));
        let headless: String = log.lines().skip(1).map(|l| format!("{l}\n")).collect();
        assert!(replay(&headless).unwrap_err().to_string().contains("start"));
        let other = log.replace(SCHEMA, "tierloom-decisions/9");
        assert!(
            replay(&other)
                .unwrap_err()
                .to_string()
                .contains("decisions/9")
        );
    }
}
