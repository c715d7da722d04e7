//! Counts of the operators of a plan, by phase.

use super::pipeline::Pipeline;
use crate::counting::{CountedOperator, CountedRun, CountedStep, Counting, OperatorId};
use crate::routing::tallies_of;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::HashMap;
use std::sync::Arc;
use tierloom_counters::stalls::StallCounts;

/// What a walk has found so far.
#[derive(Default)]
pub(super) struct CountedWalk {
    counting: Option<Arc<Counting>>,
    whole: StallCounts,
    phases: Vec<StallCounts>,
    operators: Vec<CountedOperator>,
    phase_of: HashMap<OperatorId, usize>,
}

impl CountedWalk {
    /// Adds what `plan` did itself in `steps` to its pipeline; nothing if it was not counted.
    pub(super) fn add(
        &mut self,
        plan: &dyn ExecutionPlan,
        steps: &[CountedStep],
        operator: String,
        pipeline: &mut Pipeline,
    ) {
        let Some((counting, tallies)) = tallies_of(plan) else {
            return;
        };
        let counts = tallies.counts(steps);
        pipeline.counts.add(&counts);
        let ids = steps.iter().map(|step| OperatorId::of(tallies, *step));
        pipeline.counted.extend(ids);
        self.whole.add(&counts);
        self.operators.push(CountedOperator {
            operator,
            phase: pipeline.name.clone(),
            counts,
        });
        self.counting.get_or_insert_with(|| Arc::clone(counting));
    }

    /// Adds the phase of `operators`, after those that finished before.
    pub(super) fn phase(&mut self, counts: StallCounts, operators: Vec<OperatorId>) {
        let phase = self.phases.len();
        let operators = operators.into_iter();
        self.phase_of.extend(operators.map(|id| (id, phase)));
        self.phases.push(counts);
    }

    /// Number of operators so far.
    pub(super) fn operators(&self) -> usize {
        self.operators.len()
    }

    /// Operators from `first` on that are in phase `from` are in phase `to`.
    pub(super) fn rename(&mut self, first: usize, from: &str, to: &str) {
        for operator in &mut self.operators[first..] {
            if operator.phase == from {
                to.clone_into(&mut operator.phase);
            }
        }
    }

    /// What was found; `None` if nothing was counted.
    pub(super) fn finish(self) -> Option<CountedRun> {
        let counting = self.counting?;
        Some(CountedRun {
            plan: Arc::clone(counting.plan()),
            problem: counting.problem().map(str::to_owned),
            whole: self.whole,
            phases: self.phases,
            operators: self.operators,
            phase_of: self.phase_of,
        })
    }
}
