//! Trials: a part of the fact table's rows under another placement, timed separately.
//!
//! ```text
//!   rows of the fact table   | trial 1 | trial 2 |            the rest             |
//!   pages of its columns     | trial   | trial   |     as decided for the phase    |
//!   the cursor hands out      first -------------------------------------------> last
//! ```
//! Rows are not alike: in a table loaded in date order a filter drops whole ranges. The time of a
//! part is therefore compared with what the same morsels took in an earlier pass without trials,
//! not with its share of the rows.
//!
//! A phase whose columns follow another phase's claim is measured on a part too: its first rows are
//! placed as decided for it, and their time is scaled to the whole (the control part).

use super::pages::{Columns, PageRange, pages_of_rows};
use super::tiers::{NEAR, Pages, Tiers, add, distance};
use crate::star::{MorselTimes, StarExec};
use datafusion::physical_plan::ExecutionPlan;
use std::ops::Range;
use std::sync::Arc;
use tierloom_memory::Placement;
use tierloom_model::{Phase, PhaseKind, StructureClass};
use tierloom_placement::adaptive::{PhaseDecision, Trial};

/// The only star join pass over the fact table that a phase describes; `None` if there are several.
pub(super) fn pass_of<'a>(plan: &'a Arc<dyn ExecutionPlan>, phase: &Phase) -> Option<&'a StarExec> {
    if phase.kind != PhaseKind::Probe {
        return None;
    }
    let mut found = Vec::new();
    passes(plan, &mut found);
    found.retain(|star| star.fact().name() == phase.name);
    // Two passes over one table have the same phase name and cannot be distinguished.
    match found.as_slice() {
        [star] => Some(star),
        _ => None,
    }
}

fn passes<'a>(plan: &'a Arc<dyn ExecutionPlan>, found: &mut Vec<&'a StarExec>) {
    found.extend(plan.downcast_ref::<StarExec>());
    for child in plan.children() {
        passes(child, found);
    }
}

/// A trial or control part that can be carried out.
#[derive(Debug)]
pub(super) struct PlannedTrial {
    /// Rows whose pages are placed separately.
    pub rows: Range<usize>,
    /// Share of the pass's time that these rows take without the trial.
    pub time_share: f64,
    /// Pages and their trial placement.
    pub parts: Vec<(PageRange, Placement)>,
}

/// Inputs for planning trials.
pub(super) struct TrialInputs<'a> {
    pub columns: &'a Columns,
    pub tiers: &'a Tiers,
    /// Morsel times of an earlier pass without trials.
    pub before: Option<&'a MorselTimes>,
    /// Shortest part that can be timed, ns.
    pub min_time_ns: f64,
}

/// Plans the trials of a phase from row `start` on.
///
/// Stops at the first trial that cannot be made and says why.
pub(super) fn plan(
    phase: &Phase,
    decision: &PhaseDecision,
    mut start: usize,
    place: &TrialInputs<'_>,
) -> (Vec<PlannedTrial>, Option<String>) {
    let mut planned = Vec::new();
    for trial in &decision.trials {
        match one(phase, trial, start, place) {
            Ok(found) => {
                start = found.rows.end;
                planned.push(found);
            }
            Err(why) => return (planned, Some(why)),
        }
    }
    (planned, None)
}

/// Plans the control part of a phase whose columns are not placed as decided.
pub(super) fn control(
    phase: &Phase,
    decision: &PhaseDecision,
    share: f64,
    place: &TrialInputs<'_>,
) -> Result<PlannedTrial, String> {
    let as_decided = Trial {
        layout: decision.layout.clone(),
        share,
    };
    one(phase, &as_decided, 0, place)
}

fn one(
    phase: &Phase,
    trial: &Trial,
    start: usize,
    place: &TrialInputs<'_>,
) -> Result<PlannedTrial, String> {
    let TrialInputs { columns, tiers, .. } = *place;
    let Some(before) = place.before else {
        return Err("what its parts cost without a trial is not known yet".into());
    };
    let columns_text = &trial.layout.columns;
    let wanted_rows = trial.share * before.rows as f64;
    // Time is measured per morsel, so a part consists of whole ones.
    let morsels = (wanted_rows / MorselTimes::ROWS as f64).round() as usize;
    let rows = start..start + morsels * MorselTimes::ROWS;
    if morsels == 0 || rows.end >= before.rows {
        return Err(format!(
            "{columns_text} cannot be tried: {wanted_rows:.0} of {} rows are no whole morsel",
            before.rows
        ));
    }
    let (part, whole) = (before.of(&rows), before.of(&(0..before.rows)));
    // The time as if all workers had worked on this part only.
    let alone_ns = part.as_nanos() as f64 / before.workers.max(1) as f64;
    if part.is_zero() || alone_ns < place.min_time_ns {
        return Err(format!(
            "{columns_text} cannot be tried: its part takes {:.0} us, less than can be timed",
            alone_ns / 1e3
        ));
    }
    let mut parts = Vec::new();
    let mut bytes = Pages::new();
    let read = phase.accesses.iter();
    // Pages are matched to rows by the width of the codes; a column in Arrow's own layout has no
    // such mapping.
    for access in read.filter(|a| a.class == StructureClass::Column) {
        let column = columns.find(&access.structure);
        let pages = column.and_then(|c| Some((c.coded()?, pages_of_rows(c, &rows)?)));
        let Some((coded, pages)) = pages else {
            return Err(format!("{} is not kept as codes", access.structure));
        };
        if pages.is_empty() {
            continue;
        }
        let to = tiers
            .placement(columns_text, pages.end - pages.start)
            .map_err(|e| e.to_string())?;
        add(&mut bytes, tiers.pages(coded.region(), &to, pages.clone()));
        let part = PageRange {
            column: access.structure.clone(),
            region: Arc::clone(coded.region()),
            pages,
        };
        parts.push((part, to));
    }
    // Few pages cannot be divided finely enough to represent the weights.
    if parts.is_empty() || distance(&bytes, columns_text) > NEAR {
        return Err(format!(
            "{columns_text} cannot be tried: the pages of {} rows are too few for these weights",
            rows.len()
        ));
    }
    Ok(PlannedTrial {
        rows,
        time_share: part.as_secs_f64() / whole.as_secs_f64(),
        parts,
    })
}
