//! Walks an executed plan from the root and collects its pipelines.
//!
//! A breaker (build side, final aggregation, sort) closes the pipeline below it and starts a new
//! one. Where a plan node has no metrics, its input's row count is used.

use super::counted::CountedWalk;
use super::pipeline::{Pending, Pipeline};
use super::{Captured, HostCosts, LINE_BYTES, OperatorWork};
use crate::counting::CountedStep;
use crate::operators::{AggregateRole, Role};
use crate::scan::{PlacedScanExec, ROWS_SCANNED};
use crate::star::{StarExec, StarObserved};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinOnRef;
use datafusion::physical_plan::metrics::MetricValue;
use std::sync::Arc;
use tierloom_model::{Op, Pattern, PhaseKind, StructureClass};

/// Bytes per group beyond keys and aggregates: hash, index and free buckets.
const GROUP_OVERHEAD_BYTES: u64 = 32;

pub(super) struct CaptureWalk {
    host: HostCosts,
    found: Captured,
    counted: CountedWalk,
}

impl CaptureWalk {
    pub fn new(host: HostCosts) -> Self {
        CaptureWalk {
            host,
            found: Captured::default(),
            counted: CountedWalk::default(),
        }
    }

    pub fn run(mut self, plan: &Arc<dyn ExecutionPlan>) -> Captured {
        let root = self.visit(plan);
        self.close(root);
        Captured {
            counted: self.counted.finish(),
            ..self.found
        }
    }

    fn close(&mut self, mut pipeline: Pipeline) {
        // Columns that no operator has asked for are part of the result and are read whole.
        self.read_rest(&mut pipeline, 1.0);
        let (cpu_ns, counts) = (pipeline.cpu_ns, pipeline.counts);
        let operators = std::mem::take(&mut pipeline.counted);
        if let Some(phase) = pipeline.finish(&self.host) {
            self.found.phases.push(phase);
            self.found.phases_cpu_ns.push(cpu_ns);
            self.counted.phase(counts, operators);
        }
    }

    fn visit(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Pipeline {
        let role = Role::of(plan);
        // What a hash join did first belongs to its build phase, which is closed by then.
        let steps: &[CountedStep] = match role {
            Role::HashJoin(_) => &[CountedStep::Probe],
            _ => &[CountedStep::First, CountedStep::Probe],
        };
        let mut pipeline = self.visit_role(plan, role);
        let name = operator_name(plan.name());
        self.counted.add(plan.as_ref(), steps, name, &mut pipeline);
        pipeline
    }

    fn visit_role(&mut self, plan: &Arc<dyn ExecutionPlan>, role: Role<'_>) -> Pipeline {
        match role {
            Role::Scan(scan) => self.scan(scan),
            Role::Filter(filter) => self.filter(filter),
            Role::HashJoin(join) => self.join(plan, join.on()),
            Role::Aggregate(aggregate) => self.aggregate(plan, &aggregate),
            Role::Star(star) => match star.observed() {
                Some(seen) if seen.fell_back.is_none() => self.star(plan, star, &seen),
                // It ran as DataFusion's operators, which are among its children.
                _ => self.other(plan),
            },
            Role::Sort => self.sort(plan),
            Role::Other => self.other(plan),
        }
    }

    fn scan(&mut self, scan: &PlacedScanExec) -> Pipeline {
        let (rows, kept_rows) = (metric(scan, ROWS_SCANNED), output_rows(scan));
        let mut pipeline = Pipeline::new(scan.table().name().into(), PhaseKind::Scan, rows as f64);
        pipeline.cpu_ns = cpu_ns(scan);
        let scanned = rows as f64 / scan.table().rows().max(1) as f64;
        let filtering = scan.filter_columns();
        for &index in scan.projection() {
            let column = &scan.table().columns()[index];
            let width = column.size_bytes() as f64 / column.rows().max(1) as f64;
            let pending = Pending {
                structure: format!("{}.{}", scan.table().name(), column.name()),
                bytes: column.size_bytes() as f64 * scanned,
                // At least a bit per value: a column with a single value has codes of zero bytes.
                values_per_line: LINE_BYTES / width.max(0.125),
            };
            pipeline.pending.insert(column.name().into(), pending);
            if filtering.contains(&index) {
                self.read(&mut pipeline, column.name(), 1.0);
            } else if !filtering.is_empty() {
                // The scan filters by codes and reads the other columns for surviving rows only.
                self.read(&mut pipeline, column.name(), share(kept_rows, rows));
            } else if scan.table().is_staged(index) || !column.is_zero_copy() {
                // Columns that the scan copies or decodes are read whole.
                self.read(&mut pipeline, column.name(), 1.0);
            }
        }
        self.note(
            format!("scan {}", scan.table().name()),
            &pipeline.name,
            rows,
            kept_rows,
            pipeline.cpu_ns,
        );
        pipeline
    }

    fn filter(&mut self, filter: &FilterExec) -> Pipeline {
        let mut pipeline = self.visit(filter.input());
        let (input, output) = (output_rows(filter.input().as_ref()), output_rows(filter));
        for column in collect_columns(filter.predicate()) {
            self.read(&mut pipeline, column.name(), 1.0);
        }
        self.read_rest(&mut pipeline, share(output, input));
        pipeline.cpu_ns += cpu_ns(filter);
        if pipeline.kind == PhaseKind::Scan {
            pipeline.kind = PhaseKind::Filter;
        }
        self.note(
            format!("filter {}", pipeline.name),
            &pipeline.name,
            input,
            output,
            cpu_ns(filter),
        );
        pipeline
    }

    fn join(&mut self, plan: &Arc<dyn ExecutionPlan>, on: JoinOnRef<'_>) -> Pipeline {
        let join = plan.as_ref();
        let (left, right) = (plan.children()[0], plan.children()[1]);
        let first = (self.found.operators.len(), self.counted.operators());
        let mut build = self.visit(left);
        let dimension = build.name.clone();
        let table = format!("hash({dimension})");
        let table_bytes = metric(join, "build_mem_used").max(1);
        let build_rows = metric(join, "build_input_rows");
        // `build_time` contains the time of the build side's own operators, which are polled inside
        // it.
        let build_ns = (metric(join, "build_time") as f64 - subtree_cpu_ns(left.as_ref())).max(0.0);
        build.name = format!("build {dimension}");
        build.kind = PhaseKind::Build;
        // The operators of the build side were recorded under the scan's name; they belong to the
        // build phase.
        self.rename(first, &dimension, &build.name);
        let name = format!("build of {}", operator_name(plan.name()));
        self.counted
            .add(join, &[CountedStep::First], name, &mut build);
        build.cpu_ns += build_ns;
        build.access(
            &table,
            StructureClass::HashTable,
            Pattern::Random,
            Op::Update,
            build_rows as f64 * 2.0,
            table_bytes,
        );
        self.note(
            format!("build {dimension}"),
            &build.name,
            build_rows,
            build_rows,
            build_ns,
        );
        self.close(build);

        let mut probe = self.visit(right);
        let (input, output) = (metric(join, "input_rows"), output_rows(join));
        for (_, key) in on {
            for column in collect_columns(key) {
                self.read(&mut probe, column.name(), 1.0);
            }
        }
        self.read_rest(&mut probe, share(output, input));
        let perfect = metric(join, "array_map_created_count") > 0;
        let lines = input as f64 + output as f64 * if perfect { 1.0 } else { 2.0 };
        probe.access(
            &table,
            StructureClass::HashTable,
            Pattern::Random,
            Op::Read,
            lines,
            table_bytes,
        );
        let probe_ns = metric(join, "join_time") as f64;
        probe.cpu_ns += probe_ns;
        probe.kind = PhaseKind::Probe;
        self.note(
            format!("probe {dimension}"),
            &probe.name,
            input,
            output,
            probe_ns,
        );
        probe
    }

    /// A fused star join: a build phase per dimension, one probe phase over the fact table.
    fn star(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        star: &StarExec,
        seen: &StarObserved,
    ) -> Pipeline {
        for child in plan.children() {
            let first = (self.found.operators.len(), self.counted.operators());
            let mut build = self.visit(child);
            let dimension = build.name.clone();
            build.name = format!("build {dimension}");
            self.rename(first, &dimension, &build.name);
            build.kind = PhaseKind::Build;
            self.close(build);
        }
        let fact = star.fact();
        let mut pipeline = Pipeline::new(fact.name().into(), PhaseKind::Probe, seen.rows as f64);
        pipeline.cpu_ns = seen.cpu.as_nanos() as f64;
        let filtered = seen.filters.iter().map(|(column, ..)| column);
        for &index in filtered.chain(&seen.late_columns) {
            let column = &fact.columns()[index];
            let width = column.size_bytes() as f64 / column.rows().max(1) as f64;
            let pending = Pending {
                structure: format!("{}.{}", fact.name(), column.name()),
                bytes: column.size_bytes() as f64,
                values_per_line: LINE_BYTES / width.max(0.125),
            };
            pipeline.pending.insert(column.name().into(), pending);
        }
        for (index, rows_in, rows_out, table_bytes) in &seen.filters {
            let column = fact.columns()[*index].name();
            let kept = if fact.is_staged(*index) {
                1.0
            } else {
                share(*rows_in, seen.rows)
            };
            // Filters run one after the other, so each reads its column only for rows that passed
            // the earlier ones.
            self.read(&mut pipeline, column, kept);
            if *table_bytes > 0 {
                pipeline.access(
                    &format!("lookup({column})"),
                    StructureClass::HashTable,
                    Pattern::Random,
                    Op::Read,
                    *rows_in as f64,
                    *table_bytes,
                );
            }
            self.note(
                format!("filter {column}"),
                fact.name(),
                *rows_in,
                *rows_out,
                0.0,
            );
        }
        for index in &seen.late_columns {
            let kept = if fact.is_staged(*index) {
                1.0
            } else {
                share(seen.passed, seen.rows)
            };
            self.read(&mut pipeline, fact.columns()[*index].name(), kept);
        }
        pipeline.access(
            "groups",
            StructureClass::GroupTable,
            Pattern::Random,
            Op::Update,
            seen.passed as f64,
            seen.group_bytes.max(1),
        );
        self.note(
            "star join".into(),
            fact.name(),
            seen.rows,
            output_rows(star),
            pipeline.cpu_ns,
        );
        pipeline
    }

    fn aggregate(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        aggregate: &AggregateRole<'_>,
    ) -> Pipeline {
        // Metrics and input are those of the operator that ran, which may have replaced
        // `aggregate`.
        let below = plan.children()[0];
        let child = self.visit(below);
        let (input, output) = (output_rows(below.as_ref()), output_rows(plan.as_ref()));
        // A final aggregation reads repartitioned states and starts a pipeline; a partial one is
        // part of the scan's.
        let mut pipeline = if aggregate.is_final {
            self.close(child);
            Pipeline::new("merge groups".into(), PhaseKind::Aggregate, input as f64)
        } else {
            child
        };
        self.read_rest(&mut pipeline, 1.0);
        pipeline.cpu_ns += cpu_ns(plan.as_ref());
        let bytes = output * (GROUP_OVERHEAD_BYTES + 16 * plan.schema().fields().len() as u64);
        if !aggregate.plan.group_expr().is_empty() {
            pipeline.access(
                "groups",
                StructureClass::GroupTable,
                Pattern::Random,
                Op::Update,
                input as f64,
                bytes.max(1),
            );
        }
        if matches!(pipeline.kind, PhaseKind::Scan | PhaseKind::Filter) {
            pipeline.kind = PhaseKind::Aggregate;
        }
        self.note(
            "aggregate".into(),
            &pipeline.name,
            input,
            output,
            cpu_ns(plan.as_ref()),
        );
        pipeline
    }

    fn sort(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Pipeline {
        let child = self.through_children(plan);
        let input = plan
            .children()
            .first()
            .map_or(0, |c| output_rows(c.as_ref()));
        self.close(child);
        let mut pipeline = Pipeline::new("sort".into(), PhaseKind::Sort, input as f64);
        pipeline.cpu_ns = cpu_ns(plan.as_ref());
        self.note(
            "sort".into(),
            &pipeline.name,
            input,
            output_rows(plan.as_ref()),
            pipeline.cpu_ns,
        );
        pipeline
    }

    /// Operators that only pass rows on, such as projection, repartition and limit.
    ///
    /// Their CPU time counts, their batches stay in cache.
    fn other(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Pipeline {
        let mut pipeline = self.through_children(plan);
        pipeline.cpu_ns += cpu_ns(plan.as_ref());
        let input = plan
            .children()
            .first()
            .map_or(0, |c| output_rows(c.as_ref()));
        self.note(
            operator_name(plan.name()),
            &pipeline.name,
            input,
            output_rows(plan.as_ref()),
            cpu_ns(plan.as_ref()),
        );
        pipeline
    }

    /// Continues in the last child; the pipelines of the others (unions, other joins) end here.
    fn through_children(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Pipeline {
        let mut last = None;
        for child in plan.children() {
            let pipeline = self.visit(child);
            if let Some(earlier) = last.replace(pipeline) {
                self.close(earlier);
            }
        }
        last.unwrap_or_else(|| {
            Pipeline::new(
                operator_name(plan.name()),
                PhaseKind::Other,
                output_rows(plan.as_ref()) as f64,
            )
        })
    }

    /// Operators from `first` on that are in phase `from` are in phase `to`.
    ///
    /// Those of a build side were recorded under the name of its scan.
    fn rename(&mut self, (first, first_counted): (usize, usize), from: &str, to: &str) {
        let operators = self.found.operators[first..].iter_mut();
        operators
            .filter(|operator| operator.phase == from)
            .for_each(|operator| operator.phase = to.to_owned());
        self.counted.rename(first_counted, from, to);
    }

    fn read(&mut self, pipeline: &mut Pipeline, column: &str, kept: f64) {
        if let Some((structure, bytes)) = pipeline.read_column(column, kept) {
            *self.found.column_reads.entry(structure).or_default() += bytes;
        }
    }

    fn read_rest(&mut self, pipeline: &mut Pipeline, kept: f64) {
        let names: Vec<String> = pipeline.pending.keys().cloned().collect();
        for name in names {
            self.read(pipeline, &name, kept);
        }
    }

    fn note(
        &mut self,
        operator: String,
        phase: &str,
        input_rows: u64,
        output_rows: u64,
        cpu_ns: f64,
    ) {
        self.found.operators.push(OperatorWork {
            operator,
            phase: phase.into(),
            input_rows,
            output_rows,
            cpu_ns: cpu_ns as u64,
        });
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn operator_name(exec: &str) -> String {
    let name = exec.strip_suffix("Exec").unwrap_or(exec);
    let mut words = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

fn output_rows(plan: &dyn ExecutionPlan) -> u64 {
    match plan.metrics().and_then(|m| m.output_rows()) {
        Some(rows) => rows as u64,
        // An operator without metrics is assumed to pass its input on.
        None => plan
            .children()
            .first()
            .map_or(0, |c| output_rows(c.as_ref())),
    }
}

fn cpu_ns(plan: &dyn ExecutionPlan) -> f64 {
    plan.metrics()
        .and_then(|m| m.elapsed_compute())
        .unwrap_or(0) as f64
}

/// CPU time of `plan` and everything below it, ns.
fn subtree_cpu_ns(plan: &dyn ExecutionPlan) -> f64 {
    cpu_ns(plan)
        + plan
            .children()
            .iter()
            .map(|c| subtree_cpu_ns(c.as_ref()))
            .sum::<f64>()
}

/// The metric `name` summed over partitions; 0 if the operator does not have it.
fn metric(plan: &dyn ExecutionPlan, name: &str) -> u64 {
    let Some(metrics) = plan.metrics() else {
        return 0;
    };
    metrics
        .sum(|m| m.value().name() == name)
        .as_ref()
        .map_or(0, |value: &MetricValue| value.as_usize() as u64)
}
