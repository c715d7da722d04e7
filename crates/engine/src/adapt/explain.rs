//! `EXPLAIN PLACEMENT`: wanted placement, actual placement and modelled cost of every structure.
//!
//! Nothing runs and nothing moves: sizes are the planner's estimates and times are the model's.
//! `EXPLAIN ANALYZE PLACEMENT`, with measured memory of a run, is in [`crate::routing`].

use super::describe::{Described, describe};
use crate::{Engine, EngineError, PlacedColumn, PlacedTable};
use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use std::sync::Arc;
use tierloom_model::search::{Moved, Problem, best};
use tierloom_model::{
    Access, Machine, ModelError, Options, Phase, Placement, StructureClass, TierShares, solve,
};
use tierloom_placement::{AdaptError, ColumnUse, Policy, tier_shares};

/// Smallest modelled gain for which columns are proposed elsewhere than in DRAM.
const MIN_GAIN: f64 = 0.01;

/// Plans `sql` and describes the placement of every structure, without running it.
///
/// There is a row per pipeline and structure: operators, access pattern, bytes, the placement that
/// `policy` proposes on `machine`, the actual placement on this machine, the modelled time of the
/// pipeline with everything in DRAM and as proposed, and the reason. Sizes and rows are the
/// planner's estimates; times are *modelled* on the profile with assumed CPU time, see
/// [`super::describe`].
///
/// # Errors
/// DataFusion's for a statement that does not parse or plan; [`EngineError::Adapt`] and
/// [`EngineError::Policy`] if the machine cannot follow the policy.
pub fn explain_placement(
    engine: &Engine,
    sql: &str,
    machine: &Machine,
    policy: &Policy,
) -> Result<RecordBatch, EngineError> {
    let planned = engine.plan("the statement to explain", sql)?;
    let workers = machine.cores.value as u32;
    let mut rows = ResultColumns::default();
    for described in describe(planned.plan()) {
        let requested = requested(&described.phase, machine, policy, workers)?;
        // The baseline: everything on the machine's first tier.
        let dram = Placement::new(TierShares::all(first(machine)));
        let dram_ns = time_ns(machine, &described.phase, &dram, workers)?;
        let requested_ns = time_ns(machine, &described.phase, &requested.placement, workers)?;
        for access in &described.phase.accesses {
            rows.phase.push(described.phase.name.clone());
            rows.operators.push(described.operators.join(" > "));
            rows.structure.push(access.structure.clone());
            rows.pattern
                .push(format!("{:?} {:?}", access.pattern, access.op).to_lowercase());
            rows.bytes.push(access.footprint_bytes);
            rows.requested
                .push(requested.placement.shares(access).to_string());
            rows.actual.push(actual(&described, access));
            rows.dram_ms.push(dram_ns / 1e6);
            rows.requested_ms.push(requested_ns / 1e6);
            rows.why.push(requested.why.clone());
        }
    }
    rows.batch(&machine.name)
}

struct Wanted {
    placement: Placement,
    why: String,
}

fn first(machine: &Machine) -> &str {
    machine.tiers.first().map_or("dram", |t| t.name.as_str())
}

fn time_ns(
    machine: &Machine,
    phase: &Phase,
    placement: &Placement,
    workers: u32,
) -> Result<f64, EngineError> {
    let solved = solve(machine, phase, placement, workers, &Options::default());
    Ok(solved.map_err(AdaptError::from)?.time_ns)
}

fn requested(
    phase: &Phase,
    machine: &Machine,
    policy: &Policy,
    workers: u32,
) -> Result<Wanted, EngineError> {
    match policy {
        Policy::Adaptive(_) => {
            modelled(phase, machine, workers).map_err(|e| AdaptError::from(e).into())
        }
        policy => by_policy(phase, machine, policy),
    }
}

/// The model's proposal for the columns of a phase; operator memory stays in DRAM.
fn modelled(phase: &Phase, machine: &Machine, workers: u32) -> Result<Wanted, ModelError> {
    let home = Placement::new(TierShares::all(first(machine)));
    // Only columns are moved, so without one there is nothing to optimise.
    let has_columns = phase
        .accesses
        .iter()
        .any(|a| a.class == StructureClass::Column);
    if !has_columns {
        let why = "reads no column".into();
        return Ok(Wanted {
            placement: home,
            why,
        });
    }
    let options = Options::default();
    let problem = Problem {
        // Operator memory stays on the first tier.
        moved: Moved::Classes(vec![StructureClass::Column]),
        ..Problem::new(machine, std::slice::from_ref(phase), workers, &options)
    };
    let found = best(&problem)?;
    let gain = found.gain_over_dram() - 1.0;
    if gain < MIN_GAIN {
        let why = format!(
            "limited by {}; no weights gain 1% over dram",
            found.bottleneck
        );
        return Ok(Wanted {
            placement: home,
            why,
        });
    }
    Ok(Wanted {
        placement: problem.placement(&found.weights)?,
        why: format!(
            "columns at {} gain {:.1}% over dram, then limited by {}; adopted once a part of a run has shown it",
            found.weights,
            100.0 * gain,
            found.bottleneck
        ),
    })
}

/// The proposal of a policy that does not use the model.
fn by_policy(phase: &Phase, machine: &Machine, policy: &Policy) -> Result<Wanted, EngineError> {
    let columns = phase
        .accesses
        .iter()
        .filter(|a| a.class == StructureClass::Column);
    let uses: Vec<ColumnUse> = columns
        .map(|a| ColumnUse {
            column: a.structure.clone(),
            size_bytes: a.footprint_bytes,
            // The plan has not run, so reads are derived from the modelled cache lines.
            read_bytes: (phase.tuples * a.lines_per_tuple * 64.0) as u64,
        })
        .collect();
    let mut placement = Placement::new(TierShares::all(first(machine)));
    for decision in policy.decide(&uses) {
        let shares = tier_shares(&decision.placement, machine)?;
        placement.by_structure.insert(decision.column, shares);
    }
    let why = policy.meaning();
    Ok(Wanted { placement, why })
}

/// Actual placement of a column. Operator memory exists only during a run and has none yet.
fn actual(described: &Described, access: &Access) -> String {
    let columns = described
        .table
        .iter()
        .flat_map(|t| t.columns().iter().map(move |c| (t, c)));
    let named = |(table, column): &(&Arc<PlacedTable>, &PlacedColumn)| {
        format!("{}.{}", table.name(), column.name()) == access.structure
    };
    let mut columns = columns;
    let column = columns.find(named).map(|(_, column)| column);
    let Some(column) = column.filter(|_| access.class == StructureClass::Column) else {
        return "made while running".into();
    };
    let mut places: Vec<String> = column
        .regions()
        .iter()
        .map(|r| r.placement().to_string())
        .collect();
    // The regions of a column usually have the same placement.
    places.dedup();
    format!("nodes {}", places.join(" and "))
}

/// Columns of the result.
#[derive(Default)]
struct ResultColumns {
    phase: Vec<String>,
    operators: Vec<String>,
    structure: Vec<String>,
    pattern: Vec<String>,
    bytes: Vec<u64>,
    requested: Vec<String>,
    actual: Vec<String>,
    dram_ms: Vec<f64>,
    requested_ms: Vec<f64>,
    why: Vec<String>,
}

impl ResultColumns {
    fn batch(self, machine: &str) -> Result<RecordBatch, EngineError> {
        let text = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
        let number = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        let machines = vec![machine.to_owned(); self.phase.len()];
        Ok(RecordBatch::try_from_iter([
            ("phase", text(self.phase)),
            ("operators", text(self.operators)),
            ("structure", text(self.structure)),
            ("pattern", text(self.pattern)),
            (
                "size_bytes",
                Arc::new(UInt64Array::from(self.bytes)) as ArrayRef,
            ),
            ("wanted", text(self.requested)),
            ("actual", text(self.actual)),
            ("modelled_dram_ms", number(self.dram_ms)),
            ("modelled_wanted_ms", number(self.requested_ms)),
            ("modelled_on", text(machines)),
            ("why", text(self.why)),
        ])?)
    }
}
