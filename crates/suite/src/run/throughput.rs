//! Measures throughput: several concurrent sessions, each running the queries in its own order.
//!
//! Sessions share the tables and the worker threads. Each plans its queries once, runs all of them
//! in its order and repeats until the time is up. A query that runs at that moment completes, so a
//! stream's rate is its queries over its own elapsed time; the throughput is the sum of the
//! streams' rates. Every answer is checked once, before the clock starts.

use super::clock::Clock;
use super::measure::Runner;
use super::pooled::Pooled;
use super::session::{Session, plan_all};
use super::{Sink, adaptive, capacity, cards, measure, memory, summary};
use crate::{Event, PlannedPlacement, RunError, Stage, StreamPlan, SuiteQuery};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tierloom_engine::PlannedQuery;
use tierloom_engine::capture::HostCosts;
use tierloom_kernels::StreamProbe;
use tierloom_placement::{ColumnUse, Policy};
use tierloom_record::{
    AuditRecord, CapacityChange, EngineKind, HERE, MemoryUse, PlacementCard, Provenance,
    RateWindow, Record, RunRecord, Spread, StreamRecord, SummaryRecord, ThroughputRecord,
    TimeBreakdown,
};

/// Host costs for the captured work: not needed, because throughput is not modelled.
const UNPROBED: HostCosts = HostCosts {
    stream_ns_per_byte: 0.0,
    working_set_bytes: 0,
};

/// Measures the streams under every placement that this machine has; `started` is when the run
/// began.
///
/// # Errors
/// The first failure; a summary of what was finished goes to `sink` before it is returned.
pub fn run(
    session: &Session<'_>,
    pooled: Pooled<'_>,
    streams: StreamPlan,
    started: Instant,
    sink: &mut Sink<'_>,
) -> Result<(), RunError> {
    // Throughput is not split into compute and memory time, so the machine is not probed.
    let unprobed = StreamProbe {
        read_gbps_one_thread: Vec::new(),
        read_gbps_all_threads: Vec::new(),
        footprint_bytes: 0,
    };
    let opened = cards::run(session, &unprobed);
    sink(Record::Run(Box::new(opened.clone())))?;
    let mut run = ThroughputRun {
        session,
        pooled,
        streams,
        started,
        times: TimeBreakdown {
            generate_s: session.data.times.generating.as_secs_f64(),
            place_s: session.data.times.placing.as_secs_f64(),
            ..TimeBreakdown::default()
        },
        opened,
        sink,
        placements: Vec::new(),
        finished: Vec::new(),
        notes: Vec::new(),
    };
    let ended = run.measure_all();
    let memory = &session.plan.operator_memory;
    let ended = ended.and_then(|()| memory.finish(&[], session.observer));
    let finished = run.finished.len();
    let summed = run.finish(ended.is_err());
    match ended {
        Ok(()) => summed,
        Err(RunError::Interrupted(_)) => Err(RunError::Interrupted(format!(
            "{finished} throughputs were finished; their records are kept"
        ))),
        // A failure to hand out the summary must not hide why the measurement ended.
        Err(other) => Err(other),
    }
}

struct ThroughputRun<'a> {
    session: &'a Session<'a>,
    pooled: Pooled<'a>,
    streams: StreamPlan,
    started: Instant,
    times: TimeBreakdown,
    opened: RunRecord,
    sink: &'a mut Sink<'a>,
    placements: Vec<PlacementCard>,
    finished: Vec<ThroughputRecord>,
    notes: Vec<String>,
}

impl ThroughputRun<'_> {
    fn measure_all(&mut self) -> Result<(), RunError> {
        let uses = self.first_pass()?;
        for placement in self.session.plan.measured() {
            let decisions = placement.policy.decide(&uses);
            let placing = Instant::now();
            let in_pool = self.pooled.session(placement)?;
            let session = in_pool.as_deref().unwrap_or(self.session);
            if in_pool.is_none() {
                session.place(&decisions, "while placing")?;
            }
            self.times.place_s += placing.elapsed().as_secs_f64();
            if in_pool.is_some() {
                // These are other tables than those whose answers were checked.
                measure::first_pass(session, &UNPROBED)?;
            }
            let mut card = cards::placement(placement, &decisions, &uses);
            card.audit_before = self.audit(session)?;
            self.placements.push(card);
            let driver = adaptive::driver_under(placement, session, UNPROBED, None)?;
            for engine in [EngineKind::Tierloom, EngineKind::Datafusion] {
                let of = match (engine, &session.baseline) {
                    (EngineKind::Tierloom, _) => &session.engine,
                    (EngineKind::Datafusion, Some((baseline, _))) => baseline,
                    (EngineKind::Datafusion, None) => continue,
                };
                let runner = Runner {
                    engine: of,
                    driver: driver.as_ref().filter(|_| engine == EngineKind::Tierloom),
                };
                let record = self.throughput(runner, engine, placement)?;
                let notes = capacity::notes(&record.capacity, &record.rates);
                self.notes.extend(notes);
                (self.sink)(Record::Throughput(Box::new(record.clone())))?;
                self.finished.push(record);
            }
            if let (Some(driver), Some(adaptive)) = (&driver, &session.plan.adaptive) {
                adaptive.finish(driver, session.observer)?;
            }
            let audit = self.audit(session)?;
            if let Some(card) = self.placements.last_mut() {
                card.audit_after = audit;
            }
        }
        Ok(())
    }

    fn audit(&mut self, session: &Session<'_>) -> Result<Option<AuditRecord>, RunError> {
        let start = Instant::now();
        let audit = session.audit();
        self.times.audit_s += start.elapsed().as_secs_f64();
        audit
    }

    fn finish(mut self, interrupted: bool) -> Result<(), RunError> {
        self.times.total_s = self.started.elapsed().as_secs_f64();
        let plan = self.session.plan;
        let engines = 1 + u32::from(plan.baseline);
        let summary = SummaryRecord {
            run_id: self.session.invocation.id.clone(),
            interrupted,
            finished: self.finished.len() as u32,
            planned: plan.measured().count() as u32 * engines,
            means: Vec::new(),
            placements: self.placements,
            intensity: Vec::new(),
            notes: self.notes,
            findings: Vec::new(),
            times: self.times,
            memory: MemoryUse {
                peak_resident_bytes: memory::resident("VmHWM"),
                ..self.session.memory
            },
        };
        let summary = summary::concluded(self.opened, Vec::new(), self.finished, summary);
        (self.sink)(Record::Summary(Box::new(summary)))
    }

    /// Checks every answer and determines the bytes that one round of the queries reads.
    fn first_pass(&self) -> Result<Vec<ColumnUse>, RunError> {
        let session = self.session;
        let seen = measure::first_pass(session, &UNPROBED)?;
        // The baseline's answers are checked too: a wrong answer makes its throughput worthless.
        if let Some((baseline, planned)) = &session.baseline {
            for (query, planned) in session.plan.queries.iter().zip(planned) {
                let execution = measure::execute(session, Runner::of(baseline), query, planned)?;
                measure::check(session, query, &execution)?;
            }
        }
        Ok(measure::column_uses(session, &seen))
    }

    fn throughput(
        &self,
        runner: Runner<'_>,
        kind: EngineKind,
        placement: &PlannedPlacement,
    ) -> Result<ThroughputRecord, RunError> {
        let count = self.streams.count;
        // Planned before the clock starts, so that throughput does not include planning.
        let plans = (0..count)
            .map(|_| plan_all(self.session.plan, runner.engine))
            .collect::<Result<Vec<_>, _>>()?;
        let observer = self.session.observer;
        let seconds = self.streams.duration.as_secs();
        observer.event(Event::Begin(Stage::Streaming, seconds));
        observer.event(Event::At(&format!("{} {kind}", placement.text)));
        let failed = AtomicBool::new(false);
        let clock = Clock {
            start: Instant::now(),
            duration: self.streams.duration,
            failed: &failed,
            observer,
        };
        // Only while Tierloom's engine runs on the tables of the pool.
        let in_pool = placement.policy == Policy::Pool && kind == EngineKind::Tierloom;
        let pool = self.pooled.pool().filter(|_| in_pool);
        let resizes = &self.session.plan.resizes;
        let (ended, changes) = std::thread::scope(|scope| {
            let clock = &clock;
            let resizer = pool.map(|p| scope.spawn(move || capacity::change(p, resizes, clock)));
            let ended = streams(&self.session.plan.queries, runner, &plans, clock);
            let changes =
                resizer.map_or_else(|| Ok(Vec::new()), std::thread::ScopedJoinHandle::join);
            (ended, changes)
        });
        observer.event(Event::End);
        let ended = ended?;
        let changes =
            changes.map_err(|_| RunError::failed("the thread that resizes the pool panicked"))?;
        let (streams, ends_s): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
        let duration_s = self.streams.duration.as_secs_f64();
        let rates = match changes.is_empty() {
            true => Vec::new(),
            false => capacity::windows(&changes, &ends_s.concat(), duration_s),
        };
        self.record(kind, placement, streams, changes, rates)
    }

    fn record(
        &self,
        engine: EngineKind,
        placement: &PlannedPlacement,
        streams: Vec<StreamRecord>,
        capacity: Vec<CapacityChange>,
        rates: Vec<RateWindow>,
    ) -> Result<ThroughputRecord, RunError> {
        let hourly: Vec<f64> = streams.iter().map(|s| s.queries_per_hour).collect();
        let total = hourly.iter().sum();
        let per_stream = Spread::of(hourly).ok_or_else(|| {
            RunError::failed("no stream finished a query; use a longer --duration")
        })?;
        Ok(ThroughputRecord {
            run_id: self.session.invocation.id.clone(),
            placement: placement.text.clone(),
            machine: HERE.into(),
            provenance: Provenance::Measured,
            engine,
            duration_s: self.streams.duration.as_secs_f64(),
            queries: streams.iter().map(|s| s.queries).sum(),
            queries_per_hour: total,
            per_stream_queries_per_hour: per_stream,
            streams,
            capacity,
            rates,
        })
    }
}

/// Runs streams at the same time, each with its own plans of `queries`; also returns when each of
/// their queries ended, s.
///
/// # Errors
/// The first failure, or an interruption.
pub fn streams(
    queries: &[SuiteQuery],
    runner: Runner<'_>,
    plans: &[Vec<PlannedQuery>],
    clock: &Clock<'_>,
) -> Result<Vec<(StreamRecord, Vec<f64>)>, RunError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = plans
            .iter()
            .enumerate()
            .map(|(stream, planned)| {
                scope.spawn(move || one_stream(queries, runner, planned, stream, clock))
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            let panicked = |_| Err(RunError::failed("a stream's thread panicked"));
            thread.join().unwrap_or_else(panicked)
        };
        // All are joined before the first failure is returned.
        let ended: Vec<Result<_, RunError>> = threads.into_iter().map(join).collect();
        ended.into_iter().collect()
    })
}

/// Runs one stream; also returns when each of its queries ended, s.
fn one_stream(
    queries: &[SuiteQuery],
    runner: Runner<'_>,
    planned: &[PlannedQuery],
    stream: usize,
    clock: &Clock<'_>,
) -> Result<(StreamRecord, Vec<f64>), RunError> {
    let order = tierloom_tpc::stream_order(stream, planned.len());
    let mut times_ms = Vec::new();
    let mut ends_s = Vec::new();
    for index in order.into_iter().cycle() {
        // Read between queries only, so that a running one completes.
        if clock.is_up() {
            break;
        }
        let executed = runner.run(queries[index].id, &planned[index], &|| clock.stopped());
        let execution = executed.map_err(|e| {
            clock.failed.store(true, Ordering::Relaxed);
            RunError::of_engine(e, "while streams ran")
        })?;
        times_ms.push(execution.time.as_secs_f64() * 1e3);
        ends_s.push(clock.elapsed().as_secs_f64());
        let elapsed = clock.elapsed().min(clock.duration);
        clock.observer.event(Event::Reached(elapsed.as_secs()));
    }
    // The stream's own time, which exceeds the duration by the rest of its last query.
    let elapsed_s = clock.elapsed().as_secs_f64();
    let record = StreamRecord {
        stream: stream as u32,
        queries: times_ms.len() as u64,
        elapsed_s,
        queries_per_hour: times_ms.len() as f64 / elapsed_s * 3600.0,
        time_ms: Spread::of(times_ms),
    };
    Ok((record, ends_s))
}
