//! Describes a physical plan that has not run as the phases that the model prices.
//!
//! Row counts are the planner's estimates. A scan is assumed to read its columns whole, because the
//! share of cache lines that a filter leaves untouched is unknown before the run. CPU time per
//! tuple comes from [`Engine`]'s defaults. After a run, `capture` replaces both by measured
//! numbers.

use crate::operators::Role;
use crate::star::StarExec;
use crate::table::PlacedTable;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use std::sync::Arc;
use tierloom_model::{Access, Op, Phase, PhaseKind, StructureClass};
use tierloom_placement::mixes::Engine;

/// Bytes per entry of a hash table or group table beyond its values: hash, chain and free slots.
const ENTRY_BYTES: f64 = 32.0;

/// One pipeline of a plan.
#[derive(Debug, Clone)]
pub struct Described {
    /// The phase as the model prices it.
    pub phase: Phase,
    /// Operators of the pipeline, from the scan upwards.
    pub operators: Vec<String>,
    /// The table that the pipeline scans; `None` if its source is something else.
    pub table: Option<Arc<PlacedTable>>,
}

/// Lists the pipelines of a plan in the order in which they finish.
pub fn describe(plan: &Arc<dyn ExecutionPlan>) -> Vec<Described> {
    let mut walk = DescribeWalk {
        engine: Engine::default(),
        done: Vec::new(),
    };
    let root = walk.visit(plan);
    walk.done.push(root.described);
    // Idle phases have nothing to place.
    walk.done.retain(|d| !d.phase.is_idle());
    walk.done
}

/// A pipeline whose upper operators have not been visited yet.
struct Open {
    described: Described,
    /// Share of the scanned tuples that reach the current operator.
    kept: f64,
}

impl Open {
    fn touch(&mut self, structure: String, class: StructureClass, op: Op, bytes: f64, ns: f64) {
        let access = Access::probe(structure, self.kept, bytes.max(64.0) as u64)
            .with_class(class)
            .with_op(op);
        self.described.phase.accesses.push(access);
        self.described.phase.compute_ns_per_tuple += self.kept * ns;
    }

    fn rows(&self) -> f64 {
        self.described.phase.tuples * self.kept
    }
}

struct DescribeWalk {
    engine: Engine,
    done: Vec<Described>,
}

impl DescribeWalk {
    fn visit(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Open {
        let role = Role::of(plan);
        match role {
            Role::Scan(scan) => return self.scan(scan.table(), scan.projection(), "scan"),
            Role::Star(star) => return self.star(star, plan),
            Role::HashJoin(_) => return self.join(plan),
            _ => {}
        }
        let mut open = self.inputs(plan);
        if let Role::Filter(_) = role {
            // Without an estimate the filter is assumed to keep every row.
            let share = estimated_rows(plan).map_or(1.0, |rows| rows / open.rows().max(1.0));
            open.described.phase.compute_ns_per_tuple += open.kept * self.engine.value_ns;
            open.kept *= share.clamp(0.0, 1.0);
            if open.described.phase.kind == PhaseKind::Scan {
                open.described.phase.kind = PhaseKind::Filter;
            }
        } else if let Role::Aggregate(_) = role {
            // Without statistics the estimate may exceed the input; groups cannot.
            let groups = estimated_rows(plan)
                .unwrap_or_else(|| open.rows())
                .min(open.rows());
            let (class, ns) = (StructureClass::GroupTable, self.engine.group_ns);
            open.touch(
                "groups".into(),
                class,
                Op::Update,
                groups * 2.0 * ENTRY_BYTES,
                ns,
            );
            // Operators above see one row per group.
            open.kept = groups / open.described.phase.tuples.max(1.0);
            open.described.phase.kind = PhaseKind::Aggregate;
        } else if let Role::Sort = role {
            let bytes = open.rows() * ENTRY_BYTES;
            let (class, ns) = (StructureClass::SortRun, self.engine.probe_ns);
            open.touch("sort run".into(), class, Op::Write, bytes, ns);
            open.described.phase.kind = PhaseKind::Sort;
        }
        open.described.operators.push(plan.name().to_owned());
        open
    }

    /// Visits the inputs: the last one's pipeline continues, those of the others end here.
    fn inputs(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Open {
        let mut last = None;
        // All inputs but the last are taken as finished before it starts. The plan does not say
        // which input an unknown operator streams.
        for child in plan.children() {
            let open = self.visit(child);
            if let Some(Open { described, .. }) = last.replace(open) {
                self.done.push(described);
            }
        }
        last.unwrap_or_else(|| Open {
            described: Described {
                phase: Phase::new(plan.name(), PhaseKind::Other, 0.0),
                operators: Vec::new(),
                table: None,
            },
            kept: 1.0,
        })
    }

    fn scan(&mut self, table: &Arc<PlacedTable>, columns: &[usize], operator: &str) -> Open {
        let mut phase = Phase::new(table.name(), PhaseKind::Scan, table.rows() as f64);
        for column in columns
            .iter()
            .filter_map(|index| table.columns().get(*index))
        {
            let bytes = column.size_bytes();
            let width = bytes as f64 / column.rows().max(1) as f64;
            let name = format!("{}.{}", table.name(), column.name());
            phase = phase.access(Access::sequential_read(name, width, bytes).vectorised());
            phase.compute_ns_per_tuple += self.engine.value_ns;
        }
        Open {
            described: Described {
                phase,
                operators: vec![format!("{operator} {}", table.name())],
                table: Some(Arc::clone(table)),
            },
            kept: 1.0,
        }
    }

    fn join(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Open {
        let (left, right) = (plan.children()[0], plan.children()[1]);
        let mut build = self.visit(left);
        let name = format!("hash({})", build.described.phase.name);
        let bytes = build.rows() * 2.0 * ENTRY_BYTES;
        let (class, ns) = (StructureClass::HashTable, self.engine.probe_ns);
        build.touch(name.clone(), class, Op::Update, bytes, ns);
        build.described.phase.kind = PhaseKind::Build;
        build.described.operators.push("build".into());
        self.done.push(build.described);
        let mut probe = self.visit(right);
        probe.touch(name.clone(), class, Op::Read, bytes, ns);
        probe.described.phase.kind = PhaseKind::Probe;
        probe.described.operators.push(format!("probe {name}"));
        probe
    }

    /// Describes a fused star join: a build pipeline per dimension, then one probe pipeline.
    ///
    /// The probe pipeline reads the fact columns of the operator.
    fn star(&mut self, star: &StarExec, plan: &Arc<dyn ExecutionPlan>) -> Open {
        let mut tables = Vec::new();
        for child in plan.children() {
            let mut dimension = self.visit(child);
            let name = format!("hash({})", dimension.described.phase.name);
            let bytes = dimension.rows() * ENTRY_BYTES;
            let (class, ns) = (StructureClass::HashTable, self.engine.probe_ns);
            dimension.touch(name.clone(), class, Op::Update, bytes, ns);
            dimension.described.phase.kind = PhaseKind::Build;
            // Dimensions run before the pass over the fact table, so their pipelines end first.
            self.done.push(dimension.described);
            tables.push((name, bytes));
        }
        let fact = star.fact();
        let columns = star.fact_columns();
        let mut open = self.scan(fact, columns, "star join over");
        for (name, bytes) in tables {
            let (class, ns) = (StructureClass::HashTable, self.engine.value_ns);
            open.touch(name, class, Op::Read, bytes, ns);
        }
        open.described.phase.kind = PhaseKind::Probe;
        open
    }
}

/// The planner's row estimate, exact or not; `None` if it has none.
fn estimated_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    let context = StatisticsContext::new();
    let statistics = context
        .compute(plan.as_ref(), &StatisticsArgs::new())
        .ok()?;
    statistics.num_rows.get_value().map(|rows| *rows as f64)
}
