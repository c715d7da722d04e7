//! What was counted of an execution, as rows: what each value is, and where it is from.

use super::CountedRun;
use crate::capture::{Captured, LINE_BYTES};
use tierloom_counters::stalls::{Breakdown, StallCounts};
use tierloom_model::{Machine, Op, Options, Phase, Placement, TierShares, solve};

/// One value of a query, a phase or an operator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CounterRow {
    /// "query", "phase", "operator" or, for devices of the machine, "machine".
    pub level: &'static str,
    /// Name of the phase, for phases and operators.
    pub phase: Option<String>,
    /// Name of the operator, for operators.
    pub operator: Option<String>,
    /// What the value is, such as "memory_bound"; docs/counters.md has all.
    pub quantity: String,
    /// The value; `None` if it is not available.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: String,
    /// "counted", "timed", "computed" or "modelled".
    pub source: &'static str,
    /// Why there is no value, or what is to be known about it.
    pub note: Option<String>,
}

/// The rows of an execution: of the whole, of its phases, and of its operators.
///
/// With a machine profile, phases have the modelled share of memory in the time of `workers` too.
#[must_use]
pub fn counter_rows(
    captured: &Captured,
    profile: Option<&Machine>,
    workers: usize,
) -> Vec<CounterRow> {
    let Some(run) = &captured.counted else {
        return vec![no_operators()];
    };
    let mut rows = Rows {
        run,
        rows: Vec::new(),
    };
    rows.counted(("query", "", ""), &run.whole);
    for (phase, counts) in captured.phases.iter().zip(&run.phases) {
        rows.phase(phase, counts);
        if let Some(profile) = profile {
            rows.modelled(phase, counts, profile, workers);
        }
    }
    for operator in &run.operators {
        let at = ("operator", &*operator.phase, &*operator.operator);
        rows.counted(at, &operator.counts);
    }
    rows.rows
}

/// The row of an execution whose operators could not be told apart.
fn no_operators() -> CounterRow {
    let why = "not available: operators are not accounted (SET tierloom.routing = on, in a program \
               whose allocator is a `TierAllocator`, as `tierloom` is)";
    CounterRow {
        level: "query",
        quantity: "busy_ns".to_owned(),
        unit: "ns".to_owned(),
        source: "timed",
        note: Some(why.to_owned()),
        ..CounterRow::default()
    }
}

/// Level, phase and operator; empty where there is none.
type At<'a> = (&'static str, &'a str, &'a str);

const CACHED: &str = "by the plan and the rows that passed; what caches serve included";

const ONE_THREAD: &str = "of one thread, while it was in this phase";

struct Rows<'r> {
    run: &'r CountedRun,
    rows: Vec<CounterRow>,
}

impl Rows<'_> {
    fn meaning(&self, counts: &StallCounts) -> Breakdown {
        Breakdown::of(counts, &self.run.plan, self.run.problem.as_deref())
    }

    fn add(&mut self, (level, phase, operator): At<'_>, row: CounterRow) {
        let some = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        self.rows.push(CounterRow {
            level,
            phase: some(phase),
            operator: some(operator),
            ..row
        });
    }

    /// What `counts` mean.
    fn counted(&mut self, at: At<'_>, counts: &StallCounts) {
        // What this machine cannot count is said once.
        let known = |value: Option<f64>| at.0 == "query" || value.is_some();
        let quantities = self.meaning(counts).quantities.into_iter();
        for quantity in quantities.filter(|quantity| known(quantity.value)) {
            let row = CounterRow {
                quantity: quantity.name.to_owned(),
                value: quantity.value,
                unit: quantity.unit.to_owned(),
                source: match quantity.unit {
                    "ns" => "timed",
                    _ => "counted",
                },
                note: quantity.note,
                ..CounterRow::default()
            };
            self.add(at, row);
        }
    }

    /// What was counted of a phase, and the bytes that it requested.
    fn phase(&mut self, phase: &Phase, counts: &StallCounts) {
        let at = ("phase", &*phase.name, "");
        self.counted(at, counts);
        let bytes = |ops: [Op; 2]| {
            let accesses = phase.accesses.iter();
            let lines = accesses.filter(|access| ops.contains(&access.op));
            let per_tuple = lines.fold(0.0, |sum, access| sum + access.lines_per_tuple);
            per_tuple * phase.tuples * LINE_BYTES
        };
        let read = bytes([Op::Read, Op::Update]);
        // Bytes per ns are GB/s.
        let rate = (counts.busy_ns > 0.0).then(|| read / counts.busy_ns);
        let written = bytes([Op::Write, Op::Update]);
        for (quantity, value, unit, note) in [
            ("requested_read_bytes", Some(read), "bytes", CACHED),
            ("requested_written_bytes", Some(written), "bytes", CACHED),
            ("requested_read_gbps", rate, "GB/s", ONE_THREAD),
        ] {
            let row = CounterRow {
                quantity: quantity.to_owned(),
                value,
                unit: unit.to_owned(),
                source: "computed",
                note: Some(note.to_owned()),
                ..CounterRow::default()
            };
            self.add(at, row);
        }
    }

    /// The share of memory in the time of a phase on `machine`, with everything on its first tier.
    fn modelled(&mut self, phase: &Phase, counts: &StallCounts, machine: &Machine, workers: usize) {
        let first = machine.tiers.first().map_or("dram", |t| t.name.as_str());
        let placement = Placement::new(TierShares::all(first));
        let workers = u32::try_from(workers).unwrap_or(u32::MAX);
        let solved = solve(machine, phase, &placement, workers, &Options::default());
        let (value, mut note) = match solved {
            Ok(solved) if solved.time_ns > 0.0 => {
                let compute = phase.compute_ns_per_tuple * phase.tuples / f64::from(workers.max(1));
                let share = (1.0 - compute / solved.time_ns).clamp(0.0, 1.0);
                let note = format!(
                    "on {} with everything in {first}, limited by {}",
                    machine.name, solved.bottleneck
                );
                (Some(100.0 * share), note)
            }
            Ok(_) => (None, "the phase takes no time in the model".to_owned()),
            Err(error) => (None, error.to_string()),
        };
        let counted = self.meaning(counts).value("memory_bound");
        if let Some((modelled, counted)) = value.zip(counted) {
            let points = modelled - counted;
            note = format!("{note}; {points:+.0} points from the counted share of slots");
        }
        let row = CounterRow {
            quantity: "memory_bound".to_owned(),
            value,
            unit: "% of time".to_owned(),
            source: "modelled",
            note: Some(note),
            ..CounterRow::default()
        };
        self.add(("phase", &phase.name, ""), row);
    }
}
