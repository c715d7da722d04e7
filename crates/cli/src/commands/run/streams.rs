//! Measures throughput: several concurrent sessions, each running the queries in its own order.
//!
//! Sessions share the tables and the worker threads. Each plans its queries once, runs all of them
//! in its order and repeats until the time is up. A query that runs at that moment completes, so a
//! stream's rate is its queries over its own elapsed time; the throughput is the sum of the
//! streams' rates. Every answer is checked once, before the clock starts.

use super::data::{Session, failure, plan_all};
use super::measure::Runner;
use super::plan::{OutputMode, PlannedPlacement, RunPlan, StreamPlan};
use super::results::Results;
use super::{adaptive, cards, measure};
use crate::failure::Failure;
use crate::{output, stop};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tierloom_engine::PlannedQuery;
use tierloom_engine::capture::HostCosts;
use tierloom_engine::load::column_uses;
use tierloom_kernels::StreamProbe;
use tierloom_placement::ColumnUse;
use tierloom_record::{
    EngineKind, HERE, Provenance, Record, Spread, StreamRecord, ThroughputRecord,
};

/// Host costs for the captured work: not needed, because throughput is not modelled.
const UNPROBED: HostCosts = HostCosts {
    stream_ns_per_byte: 0.0,
    working_set_bytes: 0,
};

/// Loads the data and measures the streams under every placement that this machine has.
///
/// # Errors
/// The first failure; records that were finished are written before it is returned.
pub fn run(plan: &RunPlan, streams: StreamPlan) -> Result<(), Failure> {
    let session = Session::open(plan)?;
    // Throughput is not split into compute and memory time, so the machine is not probed.
    let unprobed = StreamProbe {
        read_gbps_one_thread: Vec::new(),
        read_gbps_all_threads: Vec::new(),
        footprint_bytes: 0,
    };
    let opened = cards::run(plan, &session, &unprobed);
    let mut run = Running {
        plan,
        streams,
        run_id: opened.run_id.clone(),
        session,
        results: Results::new(plan),
        finished: Vec::new(),
    };
    run.results.push(Record::Run(Box::new(opened)))?;
    let ended = run.measure_all();
    let ended = ended.and_then(|()| plan.operator_memory.finish(&[]));
    // Whatever ended the measurement, finished records are written first; a failure to write them
    // must not hide why it ended.
    let written = run.finish();
    match ended.and(written) {
        Err(Failure::Interrupted(_)) => Err(Failure::Interrupted(format!(
            "{} throughputs were finished; their records are kept",
            run.finished.len()
        ))),
        other => other,
    }
}

struct Running<'a> {
    plan: &'a RunPlan,
    streams: StreamPlan,
    run_id: String,
    session: Session,
    results: Results,
    finished: Vec<ThroughputRecord>,
}

impl Running<'_> {
    fn measure_all(&mut self) -> Result<(), Failure> {
        let uses = self.first_pass()?;
        for placement in self.plan.measured() {
            self.place(placement, &uses)?;
            let driver =
                adaptive::driver_under(placement, self.plan, &self.session, UNPROBED, None)?;
            for engine in [EngineKind::Tierloom, EngineKind::Datafusion] {
                let of = match (engine, &self.session.baseline) {
                    (EngineKind::Tierloom, _) => &self.session.engine,
                    (EngineKind::Datafusion, Some((baseline, _))) => baseline,
                    (EngineKind::Datafusion, None) => continue,
                };
                let runner = Runner {
                    engine: of,
                    driver: driver.as_ref().filter(|_| engine == EngineKind::Tierloom),
                };
                let record = self.throughput(runner, engine, placement)?;
                self.results
                    .push(Record::Throughput(Box::new(record.clone())))?;
                self.finished.push(record);
            }
            if let (Some(driver), Some(adaptive)) = (&driver, &self.plan.adaptive) {
                adaptive.finish(driver)?;
            }
        }
        Ok(())
    }

    /// Checks every answer and determines the bytes that one round of the queries reads.
    fn first_pass(&self) -> Result<Vec<ColumnUse>, Failure> {
        let mut reads: BTreeMap<String, u64> = BTreeMap::new();
        for captured in measure::first_pass(self.plan, &self.session, &UNPROBED)? {
            for (column, bytes) in captured.column_reads {
                *reads.entry(column).or_default() += bytes;
            }
        }
        // The baseline's answers are checked too: a wrong answer makes its throughput worthless.
        if let Some((baseline, planned)) = &self.session.baseline {
            for (query, planned) in self.plan.queries.iter().zip(planned) {
                let execution = measure::execute(Runner::of(baseline), query, planned)?;
                measure::check(self.plan, query, &execution)?;
            }
        }
        Ok(column_uses(&self.session.data.tables, &reads))
    }

    fn place(&self, placement: &PlannedPlacement, uses: &[ColumnUse]) -> Result<(), Failure> {
        let decisions = placement.policy.decide(uses);
        let tables = &self.session.data.tables;
        tables
            .iter()
            .try_for_each(|t| t.place(&decisions, &self.plan.topology, stop::flag()))
            .map_err(|e| failure(e, "while placing"))
    }

    fn throughput(
        &self,
        runner: Runner<'_>,
        kind: EngineKind,
        placement: &PlannedPlacement,
    ) -> Result<ThroughputRecord, Failure> {
        let count = self.streams.count;
        // Planned before the clock starts, so that throughput does not include planning.
        let plans = (0..count)
            .map(|_| plan_all(self.plan, runner.engine))
            .collect::<Result<Vec<_>, _>>()?;
        let bar = bar(self.streams.duration, format!("{} {kind}", placement.text));
        let failed = AtomicBool::new(false);
        let clock = Clock {
            start: Instant::now(),
            duration: self.streams.duration,
            failed: &failed,
            bar: &bar,
        };
        let ended: Vec<Result<StreamRecord, Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = plans
                .iter()
                .enumerate()
                .map(|(stream, planned)| {
                    let clock = &clock;
                    scope.spawn(move || one_stream(self.plan, runner, planned, stream, clock))
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                let panicked = |_| Err(Failure::runtime("a stream's thread panicked"));
                thread.join().unwrap_or_else(panicked)
            };
            threads.into_iter().map(join).collect()
        });
        bar.finish_and_clear();
        let streams = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.record(kind, placement, streams)
    }

    fn record(
        &self,
        engine: EngineKind,
        placement: &PlannedPlacement,
        streams: Vec<StreamRecord>,
    ) -> Result<ThroughputRecord, Failure> {
        let rates: Vec<f64> = streams.iter().map(|s| s.queries_per_hour).collect();
        let total = rates.iter().sum();
        let per_stream = Spread::of(rates).ok_or_else(|| {
            Failure::runtime("no stream finished a query; use a longer --duration")
        })?;
        Ok(ThroughputRecord {
            run_id: self.run_id.clone(),
            placement: placement.text.clone(),
            machine: HERE.into(),
            provenance: Provenance::Measured,
            engine,
            duration_s: self.streams.duration.as_secs_f64(),
            queries: streams.iter().map(|s| s.queries).sum(),
            queries_per_hour: total,
            per_stream_queries_per_hour: per_stream,
            streams,
        })
    }

    fn finish(&mut self) -> Result<(), Failure> {
        if self.plan.output == OutputMode::Tables && !self.finished.is_empty() {
            output::print(&table(self.plan, &self.finished))?;
        }
        self.results.write(self.plan)
    }
}

/// When streams end, and where they report progress.
struct Clock<'a> {
    start: Instant,
    duration: Duration,
    /// Set by the first stream that fails, so that the others stop.
    failed: &'a AtomicBool,
    bar: &'a ProgressBar,
}

impl Clock<'_> {
    fn is_up(&self) -> bool {
        self.start.elapsed() >= self.duration
    }

    fn stopped(&self) -> bool {
        stop::requested() || self.failed.load(Ordering::Relaxed)
    }
}

fn one_stream(
    plan: &RunPlan,
    runner: Runner<'_>,
    planned: &[PlannedQuery],
    stream: usize,
    clock: &Clock<'_>,
) -> Result<StreamRecord, Failure> {
    let order = tierloom_tpc::stream_order(stream, planned.len());
    let mut times_ms = Vec::new();
    for index in order.into_iter().cycle() {
        // Read between queries only, so that a running one completes.
        if clock.is_up() {
            break;
        }
        let executed = runner.run(plan.queries[index].id, &planned[index], &|| clock.stopped());
        let execution = executed.map_err(|e| {
            clock.failed.store(true, Ordering::Relaxed);
            failure(e, "while streams ran")
        })?;
        times_ms.push(execution.time.as_secs_f64() * 1e3);
        let elapsed = clock.start.elapsed().min(clock.duration);
        clock.bar.set_position(elapsed.as_secs());
    }
    // The stream's own time, which exceeds the duration by the rest of its last query.
    let elapsed_s = clock.start.elapsed().as_secs_f64();
    Ok(StreamRecord {
        stream: stream as u32,
        queries: times_ms.len() as u64,
        elapsed_s,
        queries_per_hour: times_ms.len() as f64 / elapsed_s * 3600.0,
        time_ms: Spread::of(times_ms),
    })
}

fn table(plan: &RunPlan, records: &[ThroughputRecord]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "placement",
        "engine",
        "queries",
        "queries/h",
        "per stream\nmedian [min..max]",
        "against dram",
    ]);
    for record in records {
        let dram = records
            .iter()
            .find(|r| r.placement == super::plan::REFERENCE && r.engine == record.engine);
        let spread = &record.per_stream_queries_per_hour;
        table.add_row([
            record.placement.clone(),
            record.engine.to_string(),
            record.queries.to_string(),
            format!("{:.0}", record.queries_per_hour),
            format!(
                "{:.0} [{:.0}..{:.0}]",
                spread.median, spread.min, spread.max
            ),
            dram.map_or("-".into(), |d| {
                format!("{:.2}x", record.queries_per_hour / d.queries_per_hour)
            }),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let streams = records.first().map_or(0, |r| r.streams.len());
    format!(
        "{}: {streams} streams on {} threads, this machine\nmeasured; every answer was checked before where one is stored\n{table}\n",
        plan.workload.title(),
        plan.threads,
    )
}

fn bar(duration: Duration, message: String) -> ProgressBar {
    let bar = ProgressBar::new(duration.as_secs());
    if let Ok(style) =
        ProgressStyle::with_template("streams [{bar:30}] {pos}/{len} s {msg}, {eta} left")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(message);
    bar
}
