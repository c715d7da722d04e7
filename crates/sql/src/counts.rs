//! `SET tierloom.counters = on`: what statements do to the processors, in `tierloom_counters`.
//!
//! The rows are those of the last statement of the session that read a table. Each says where its
//! value is from: *counted* by hardware, *timed* by a clock, *computed* from the plan and the rows
//! that passed its operators, or *modelled* on the profile `tierloom.machine`.

use super::adaptive::reads_columns;
use super::error::SqlError;
use super::settings::CountersMode;
use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tierloom_counters::latencies::{LatencyReader, LatencySource, Others};
use tierloom_counters::stalls::StallSource;
use tierloom_counters::{ActiveCounters, Counters, Reading, Selection};
use tierloom_engine::SystemRows;
use tierloom_engine::capture::Captured;
use tierloom_engine::counting::{CounterRow, Counting, counter_rows};
use tierloom_metrics::CountedSum;
use tierloom_model::profiles;
use tierloom_topology::{SysRoot, Topology};

/// What a session counts with, and what it counted last; shared with its system table.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedCounts {
    state: Arc<Mutex<CountsState>>,
    /// Sums over all sessions of the engine.
    sums: Arc<Mutex<CountedSums>>,
}

/// What counted statements add up to, by quantity, for metrics.
type CountedSums = BTreeMap<String, f64>;

#[derive(Debug, Default)]
struct CountsState {
    counting: Option<Arc<Counting>>,
    /// Counters of the machine, open while they are wanted: opening them takes milliseconds.
    machine: Option<MachineCounters>,
    /// The last statement and its rows.
    statement: String,
    rows: Vec<CounterRow>,
}

/// Counters that count all programs.
#[derive(Debug)]
struct MachineCounters {
    traffic: ActiveCounters,
    others: Others,
    /// Those of the latencies of memory, or why there are none.
    latencies: Result<Box<dyn LatencyReader>, String>,
}

impl MachineCounters {
    /// Opens them on this machine.
    fn open(topology: &Topology) -> Self {
        let root = SysRoot::host();
        let mut traffic = Counters::probe(&root).open(Selection::MACHINE);
        traffic.resume();
        let others = Others::of(topology);
        MachineCounters {
            traffic,
            others,
            latencies: LatencySource::probe(&root, others).open(),
        }
    }

    /// Traffic so far; latencies are those from now on.
    fn begin(&mut self) -> Vec<Reading> {
        if let Ok(reader) = &mut self.latencies {
            // Where this fails, the next read fails too.
            let _ = reader.read();
        }
        self.traffic.readings()
    }

    /// What was counted in `seconds` since `before`.
    fn since(&mut self, before: &[Reading], seconds: f64) -> Vec<CounterRow> {
        let mut rows = traffic(before, &self.traffic.readings(), seconds);
        let read = match &mut self.latencies {
            Ok(reader) => reader.read().map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        for (at, name) in ["dram", self.others.name()].into_iter().enumerate() {
            let latency = read.as_ref().map(|reads| reads[at].latency_ns());
            let note = match &latency {
                Err(why) => format!("not available: {why}"),
                Ok(None) => "nothing was read from it".to_owned(),
                Ok(Some(_)) => "mean of reads that no cache served, of all programs".to_owned(),
            };
            rows.push(CounterRow {
                level: "machine",
                quantity: format!("{name}/read_latency"),
                value: latency.ok().flatten(),
                unit: "ns".to_owned(),
                source: "counted",
                note: Some(note),
                ..CounterRow::default()
            });
        }
        rows
    }
}

/// A statement that is being counted.
pub(super) struct BegunCount {
    counts: SharedCounts,
    counting: Arc<Counting>,
    before: Vec<Reading>,
    start: Instant,
}

impl SharedCounts {
    /// Those of another session of the same engine.
    pub(super) fn beside(&self) -> Self {
        SharedCounts {
            state: Arc::default(),
            sums: Arc::clone(&self.sums),
        }
    }

    /// What counted statements of all sessions have added up to.
    pub(super) fn sums(&self) -> Vec<CountedSum> {
        let sums = locked(&self.sums);
        let known = sums.iter().map(|(quantity, value)| CountedSum {
            quantity: quantity.clone(),
            value: *value,
        });
        known.collect()
    }

    fn state(&self) -> MutexGuard<'_, CountsState> {
        locked(&self.state)
    }

    /// Counts statements from now on as `mode` says, with the events of this machine.
    ///
    /// The tiers are those of `topology`.
    pub(super) fn set(&self, mode: CountersMode, topology: &Topology) {
        let machine = || MachineCounters::open(topology);
        let mut state = self.state();
        *state = CountsState {
            counting: (mode != CountersMode::Off).then(host_counting),
            machine: (mode == CountersMode::Machine).then(machine),
            ..CountsState::default()
        };
    }

    /// Begins to count an execution of `plan`, if it is wanted and the plan reads a table.
    pub(super) fn begin(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<BegunCount> {
        let mut state = self.state();
        let counting = state.counting.clone()?;
        if !reads_columns(plan) {
            return None;
        }
        let before = state.machine.as_mut().map(MachineCounters::begin);
        Some(BegunCount {
            counts: self.clone(),
            counting,
            before: before.unwrap_or_default(),
            start: Instant::now(),
        })
    }
}

impl BegunCount {
    /// What the execution is counted with.
    pub(super) fn counting(&self) -> &Arc<Counting> {
        &self.counting
    }

    /// Keeps what was counted of `statement`; its phases are modelled on `machine` if there is one.
    pub(super) fn finish(
        self,
        statement: &str,
        captured: &Captured,
        workers: usize,
        machine: Option<&str>,
    ) -> Result<(), SqlError> {
        let seconds = self.start.elapsed().as_secs_f64();
        let profile = machine.map(profiles::load).transpose();
        let profile = profile.map_err(SqlError::input)?;
        let mut rows = counter_rows(captured, profile.as_ref(), workers);
        add_statement(&mut locked(&self.counts.sums), &rows);
        let mut state = self.counts.state();
        if let Some(machine) = &mut state.machine {
            rows.extend(machine.since(&self.before, seconds));
        }
        statement.clone_into(&mut state.statement);
        state.rows = rows;
        Ok(())
    }
}

/// Values are only replaced as a whole, so a panic elsewhere leaves them consistent.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the rows of a whole statement to `sums`.
///
/// Shares do not add up, so they are added as the cycles that they are of the statement's: divided
/// by the sum of cycles, they are the share of all statements.
fn add_statement(sums: &mut CountedSums, rows: &[CounterRow]) {
    let whole = || rows.iter().filter(|row| row.level == "query");
    let cycles = whole().find(|row| row.quantity == "cycles");
    let cycles = cycles.and_then(|row| row.value);
    let mut add = |quantity: String, value: f64| *sums.entry(quantity).or_default() += value;
    add("statements".to_owned(), 1.0);
    for row in whole() {
        let Some(value) = row.value else { continue };
        match (&*row.unit, cycles) {
            ("ns", _) => add("busy_seconds".to_owned(), value / 1e9),
            (unit, Some(cycles)) if unit.starts_with('%') => {
                add(format!("{}_cycles", row.quantity), value / 100.0 * cycles);
            }
            (unit, None) if unit.starts_with('%') => {}
            _ => add(row.quantity.clone(), value),
        }
    }
}

/// The events of this machine, which sessions share: threads keep their counters open from one
/// statement to the next. If there were none, permission may have been given since.
fn host_counting() -> Arc<Counting> {
    static HOST: Mutex<Option<Arc<Counting>>> = Mutex::new(None);
    let mut host = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let known = host.take().filter(|counting| counting.problem().is_none());
    let counting = known.unwrap_or_else(|| Counting::new(StallSource::probe(&SysRoot::host())));
    Arc::clone(host.insert(counting))
}

/// The traffic of the machine's devices while a statement ran.
fn traffic(before: &[Reading], after: &[Reading], seconds: f64) -> Vec<CounterRow> {
    let mut rows = Vec::new();
    // Bandwidths of readings are those since the counters were opened.
    let counts = after.iter();
    for reading in counts.filter(|reading| !reading.name.ends_with("_bandwidth")) {
        let earlier = before.iter().find(|earlier| earlier.name == reading.name);
        let from = earlier.and_then(|earlier| earlier.value);
        let value = reading.value.zip(from).map(|(to, from)| to - from);
        let row = CounterRow {
            level: "machine",
            quantity: reading.name.clone(),
            value,
            unit: reading.unit.clone(),
            source: "counted",
            note: reading.note.clone(),
            ..CounterRow::default()
        };
        rows.push(row.clone());
        if let Some(bytes) = value.filter(|_| reading.unit == "bytes" && seconds > 0.0) {
            rows.push(CounterRow {
                quantity: format!("{}_bandwidth_gbps", reading.name),
                value: Some(bytes / seconds / 1e9),
                unit: "GB/s".to_owned(),
                note: Some("everything that ran meanwhile included".to_owned()),
                ..row
            });
        }
    }
    rows
}

/// System table `tierloom_counters`.
impl SystemRows for SharedCounts {
    fn schema(&self) -> SchemaRef {
        let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
        Arc::new(Schema::new(vec![
            text("statement", false),
            text("level", false),
            text("phase", true),
            text("operator", true),
            text("quantity", false),
            Field::new("value", DataType::Float64, true),
            text("unit", false),
            text("source", false),
            text("note", true),
        ]))
    }

    fn rows(&self) -> Result<RecordBatch> {
        let state = self.state();
        let rows = &state.rows;
        let text = |of: &dyn Fn(&CounterRow) -> Option<&str>| -> ArrayRef {
            let values: Vec<Option<&str>> = rows.iter().map(of).collect();
            Arc::new(StringArray::from(values))
        };
        let statements = vec![Some(state.statement.as_str()); rows.len()];
        let values: Float64Array = rows.iter().map(|row| row.value).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(statements)),
            text(&|row| Some(row.level)),
            text(&|row| row.phase.as_deref()),
            text(&|row| row.operator.as_deref()),
            text(&|row| Some(&row.quantity)),
            Arc::new(values),
            text(&|row| Some(&row.unit)),
            text(&|row| Some(row.source)),
            text(&|row| row.note.as_deref()),
        ];
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_statements_weigh_by_their_cycles_and_only_whole_statements_are_added() {
        let row = |level, quantity: &str, value, unit: &str| CounterRow {
            level,
            quantity: quantity.to_owned(),
            value,
            unit: unit.to_owned(),
            ..CounterRow::default()
        };
        let statement = |cycles: Option<f64>, share| {
            vec![
                row("query", "busy_ns", Some(5e8), "ns"),
                row("query", "cycles", cycles, "1"),
                row("query", "memory_bound", Some(share), "% of slots"),
                row("query", "dram_read_bytes", None, "bytes"),
                row("phase", "cycles", Some(7.0), "1"),
            ]
        };
        let mut sums = CountedSums::new();
        add_statement(&mut sums, &statement(Some(1_000.0), 10.0));
        add_statement(&mut sums, &statement(Some(3_000.0), 50.0));
        add_statement(&mut sums, &statement(None, 50.0));
        let found: Vec<(&str, f64)> = sums.iter().map(|(name, sum)| (&**name, *sum)).collect();
        let expected = [
            ("busy_seconds", 1.5),
            ("cycles", 4_000.0),
            ("memory_bound_cycles", 1_600.0),
            ("statements", 3.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn traffic_is_that_of_the_statement_and_what_is_missing_stays_unknown() {
        let reading = |name: &str, value: Option<f64>, note: Option<&str>| Reading {
            name: name.to_owned(),
            value,
            unit: "bytes".to_owned(),
            note: note.map(str::to_owned),
        };
        let before = [
            reading("dram/socket0/read", Some(1e9), None),
            reading("cxl/mem0/read", None, Some("no permission")),
        ];
        let after = [
            reading("dram/socket0/read", Some(4e9), None),
            reading("dram/socket0/read_bandwidth", Some(7.0), None),
            reading("cxl/mem0/read", None, Some("no permission")),
        ];
        let rows = traffic(&before, &after, 0.5);
        let found: Vec<_> = rows
            .iter()
            .map(|r| (r.quantity.as_str(), r.value))
            .collect();
        let expected = [
            ("dram/socket0/read", Some(3e9)),
            ("dram/socket0/read_bandwidth_gbps", Some(6.0)),
            ("cxl/mem0/read", None),
        ];
        assert_eq!(found, expected);
        assert_eq!(rows[2].note.as_deref(), Some("no permission"));
    }
}
