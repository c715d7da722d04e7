//! Operator tasks: what is checked before they run, and after.

use std::path::Path;

use tierloom_operators::{Job, Operator};

use super::BenchError;
use super::crew::Crew;
use super::execute::OperatorOutcome;
use super::task::{ReadyTask, Spec};
use crate::plan::{Amount, MemoryPlan, RegionPlan, TaskPlan, Work};

impl ReadyTask<'_> {
    /// Checks what an operator left in its structures, as [`Self::check_data`] does.
    pub(super) fn check_operator(
        &self,
        outcome: &OperatorOutcome,
    ) -> Option<Result<String, String>> {
        if let Some(wrong) = &outcome.wrong {
            return Some(Err(wrong.clone()));
        }
        let slices: Vec<&[u8]> = self.regions.iter().map(|r| r.region.as_slice()).collect();
        let threads = self.spec.plan.workers.threads as usize;
        let filled = self.filled.as_ref().filter(|_| outcome.complete)?;
        Some(filled.check(&slices, threads))
    }
}

impl Spec<'_> {
    /// The operator, if the task is one.
    pub(super) fn operator(&self) -> Option<&Operator> {
        match &self.plan.work {
            Work::Operator { operator } => Some(operator),
            _ => None,
        }
    }

    /// What the threads of an operator share.
    pub(super) fn crew<'a>(&self, job: Box<dyn Job + 'a>) -> Crew<'a> {
        let threads = self.plan.workers.threads;
        let tuples = self
            .operator()
            .map_or(0, |operator| operator.tuples(threads));
        let passes = match self.plan.amount {
            Amount::Passes(passes) => passes,
            _ => 1,
        };
        Crew::new(job, tuples, passes, self.plan.workers.threads)
    }
}

/// The name of region `index` of a task: that of an operator's structure, or `m0`, `m1`.
pub(super) fn region_name(plan: &TaskPlan, index: usize) -> String {
    let structures = match &plan.work {
        Work::Operator { operator } => operator.structures(plan.workers.threads),
        _ => Vec::new(),
    };
    match structures.get(index) {
        Some(structure) => structure.name.to_owned(),
        None => format!("m{index}"),
    }
}

/// Checks that the regions of an operator fit its structures, and its parameters.
pub(super) fn check_operator(
    plan: &TaskPlan,
    operator: &Operator,
    place: &str,
) -> Result<(), BenchError> {
    operator
        .check()
        .and_then(|()| operator.check_processor())
        .map_err(|error| BenchError::plan(place, error))?;
    if !matches!(plan.amount, Amount::Passes(1..)) || plan.rate_gbps.is_some() {
        let problem = "an operator makes whole passes at full speed; give it `passes` alone";
        return Err(BenchError::plan(place, problem));
    }
    let structures = operator.structures(plan.workers.threads);
    if structures.len() != plan.regions.len() {
        let (needed, found) = (structures.len(), plan.regions.len());
        let problem = format!("{} needs {needed} regions, found {found}", operator.name());
        return Err(BenchError::plan(place, problem));
    }
    for (structure, region) in structures.iter().zip(&plan.regions) {
        if region.size_bytes < structure.size_bytes {
            let (needed, found) = (structure.size_bytes, region.size_bytes);
            let problem = format!("{} needs {needed} bytes, found {found}", structure.name);
            return Err(BenchError::plan(place, problem));
        }
    }
    Ok(())
}

/// Checks that several regions in one file find it: a new one is made with the size of the first.
pub(super) fn check_new_files(plan: &TaskPlan, place: &str) -> Result<(), BenchError> {
    let path_of = |region: &RegionPlan| match &region.memory {
        MemoryPlan::File { path, .. } => Some(path.clone()),
        _ => None,
    };
    let paths: Vec<String> = plan.regions.iter().filter_map(path_of).collect();
    let shared = |path: &&String| paths.iter().filter(|other| other == path).count() > 1;
    match paths.iter().filter(shared).find(|p| !Path::new(p).exists()) {
        Some(path) => Err(BenchError::plan(
            place,
            format!(
                "{path} does not exist and would hold several structures; name a folder, or make the file first (fallocate -l SIZE FILE) and add --overwrite"
            ),
        )),
        None => Ok(()),
    }
}
