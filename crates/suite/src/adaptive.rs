//! `--placement adaptive`: the controller of `tierloom_placement` steers one placement of a run.
//!
//! This module checks the options; `run::adaptive` creates the driver from them. The decisions
//! themselves are made in `tierloom_engine::adapt` and `tierloom_placement::adaptive`.

use crate::machine;
use crate::{PlannedPlacement, RunError, SuiteRequest};
use std::path::PathBuf;
use tierloom_model::Machine;
use tierloom_placement::{DramLimitError, Policy, dram_limit};
use tierloom_text::Bytes;
use tierloom_topology::Topology;

/// Settings of adaptive placement.
#[derive(Debug, Clone)]
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
    pub(crate) fn resolve(
        args: &SuiteRequest,
        placements: &[PlannedPlacement],
        topology: &Topology,
    ) -> Result<Option<Self>, RunError> {
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
                Some((option, _)) => Err(RunError::refused(format!(
                    "{option} belongs to adaptive placement; add --placement adaptive"
                ))),
                None => Ok(None),
            };
        };
        let adapting = placements.iter().filter(|p| is_adaptive(p)).count();
        if adapting > 1 {
            return Err(RunError::refused(
                "--placement: adaptive is named twice with different budgets; one controller learns in a run",
            ));
        }
        let dram_bytes = limit(args, topology)?;
        if args.streams.is_some() && dram_bytes.is_none() {
            return Err(RunError::refused(
                "--placement adaptive learns from times of queries, and streams disturb one another's; leave --streams out, or cap dram (--dram-limit SIZE) so that columns go by heat",
            ));
        }
        Ok(Some(Adaptive {
            machine: profile(&args.machines)?,
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
    pub(crate) fn describe(&self) -> String {
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
pub(crate) fn is_adaptive(placement: &PlannedPlacement) -> bool {
    matches!(placement.policy, Policy::Adaptive(_))
}

fn profile(names: &[String]) -> Result<Machine, RunError> {
    match names {
        [name] => machine::load(name.trim()),
        [] => Err(RunError::refused(
            "--placement adaptive needs a profile of this machine to begin with; add --machine NAME or FILE.yaml (`tierloom machines` lists those built in, `tierloom characterize` makes one of this machine)",
        )),
        several => Err(RunError::refused(format!(
            "--placement adaptive begins with one machine profile, and --machine names {}; name the one that is most like this machine",
            several.len()
        ))),
    }
}

fn limit(args: &SuiteRequest, topology: &Topology) -> Result<Option<u64>, RunError> {
    let Some(text) = &args.dram_limit else {
        return Ok(None);
    };
    dram_limit(text, topology).map(Some).map_err(|error| {
        RunError::refused(match error {
            DramLimitError::Text(error) => format!("--dram-limit: {error}"),
            _ => format!("--dram-limit {text}: {error}"),
        })
    })
}
