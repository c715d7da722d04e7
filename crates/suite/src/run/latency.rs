//! Measures and models queries one by one.
//!
//! Placements are measured in turn on the same data, which is migrated in between; then the work
//! captured under the reference placement is priced on every machine profile. An interruption keeps
//! the finished records.

use super::measure::{self, Measured};
use super::operator_memory::QueryPeak;
use super::pooled::Pooled;
use super::price::Pricer;
use super::session::Session;
use super::{Sink, adaptive, cards, memory, summary};
use crate::adaptive::is_adaptive;
use crate::{Event, PlannedPlacement, RunError, Stage, SuitePlan};
use std::time::Instant;
use tierloom_engine::adapt::Driver;
use tierloom_engine::capture::{Captured, HostCosts, probe};
use tierloom_placement::ColumnUse;
use tierloom_record::{
    AuditRecord, EngineKind, HERE, MemoryUse, OperatorRecord, PlacementCard, Provenance,
    QueryRecord, REFERENCE, Record, RunRecord, Spread, SummaryRecord, TimeBreakdown,
};

/// Measures and models; `started` is when the run began.
///
/// # Errors
/// The first failure; a summary of what was finished goes to `sink` before it is returned.
pub fn run(
    session: &Session<'_>,
    pooled: Pooled<'_>,
    started: Instant,
    sink: &mut Sink<'_>,
) -> Result<(), RunError> {
    let mut run = LatencyRun::new(session, pooled, started, sink)?;
    let ended = run.measure_all().and_then(|()| run.model_all());
    let memory = &session.plan.operator_memory;
    let ended = ended.and_then(|()| memory.finish(&run.peaks, session.observer));
    session.observer.event(Event::End);
    match ended {
        Ok(()) => run.finish(false),
        Err(RunError::Interrupted(_)) => run.finish(true),
        Err(other) => {
            // Finished records are kept; a failure to hand them out must not hide the original
            // failure.
            let _ = run.finish(true);
            Err(other)
        }
    }
}

struct LatencyRun<'a> {
    plan: &'a SuitePlan,
    session: &'a Session<'a>,
    pooled: Pooled<'a>,
    started: Instant,
    times: TimeBreakdown,
    opened: RunRecord,
    host: HostCosts,
    sink: &'a mut Sink<'a>,
    /// Measured executions, one entry per query, placement and engine.
    measured: Vec<Measured>,
    uses: Vec<ColumnUse>,
    placements: Vec<PlacementCard>,
    records: Vec<QueryRecord>,
    /// Findings about adaptive placement.
    adapted: Vec<String>,
    /// Peaks of operator memory, by query and placement.
    peaks: Vec<QueryPeak>,
}

impl<'a> LatencyRun<'a> {
    fn new(
        session: &'a Session<'a>,
        pooled: Pooled<'a>,
        started: Instant,
        sink: &'a mut Sink<'a>,
    ) -> Result<Self, RunError> {
        let plan = session.plan;
        let mut times = TimeBreakdown {
            generate_s: session.data.times.generating.as_secs_f64(),
            place_s: session.data.times.placing.as_secs_f64(),
            ..TimeBreakdown::default()
        };
        times.plan_s = session
            .queries
            .iter()
            .chain(session.baseline.iter().flat_map(|(_, q)| q))
            .map(|q| q.planning.as_secs_f64())
            .sum();
        // The probe needs the loaded data; it gives the cost of a streamed byte that splits
        // measured time into compute and memory.
        let tables = &session.data.tables;
        let probe = timed(&mut times.probe_s, || probe(tables, plan.threads));
        let opened = cards::run(session, &probe);
        sink(Record::Run(Box::new(opened.clone())))?;
        let host = HostCosts::of(&probe, tables, plan.threads);
        let steps = plan.measured().count() * plan.queries.len();
        let stage = Event::Begin(Stage::Measuring, steps as u64);
        session.observer.event(stage);
        Ok(LatencyRun {
            plan,
            session,
            pooled,
            started,
            times,
            opened,
            host,
            sink,
            measured: Vec::new(),
            uses: Vec::new(),
            placements: Vec::new(),
            records: Vec::new(),
            adapted: Vec::new(),
            peaks: Vec::new(),
        })
    }

    fn measure_all(&mut self) -> Result<(), RunError> {
        let first = Instant::now();
        let seen = measure::first_pass(self.session, &self.host)?;
        self.times.execute_s += first.elapsed().as_secs_f64();
        self.learn_heat(&seen);
        let mut order: Vec<&PlannedPlacement> = self.plan.measured().collect();
        // The placement that the data was loaded under comes first: it needs no migration.
        order.sort_by_key(|p| p.text != self.session.loaded_as);
        for placement in order {
            self.measure_placement(placement)?;
        }
        Ok(())
    }

    /// Sums the bytes that one round of the queries reads from each column, and from that the
    /// working set: only columns that are read compete for caches.
    fn learn_heat(&mut self, seen: &[Captured]) {
        self.uses = measure::column_uses(self.session, seen);
        self.host.working_set_bytes = self
            .uses
            .iter()
            .filter(|u| u.read_bytes > 0)
            .map(|u| u.size_bytes)
            .sum();
    }

    fn measure_placement(&mut self, placement: &PlannedPlacement) -> Result<(), RunError> {
        let decisions = placement.policy.decide(&self.uses);
        let in_pool = timed(&mut self.times.place_s, || self.pooled.session(placement))?;
        let session = in_pool.as_deref().unwrap_or(self.session);
        if in_pool.is_none() {
            timed(&mut self.times.place_s, || {
                session.place(&decisions, "while measuring")
            })?;
        }
        let mut card = cards::placement(placement, &decisions, &self.uses);
        card.audit_before = self.audit(session)?;
        self.placements.push(card);
        // dram was measured before, so its repeats show how noisy this machine is.
        let noise = adaptive::noise(&self.records);
        let driver = adaptive::driver_under(placement, session, self.host, noise)?;
        let measured = self.measure_queries(session, placement, driver.as_ref());
        if let (Some(driver), Some(adaptive)) = (&driver, &self.plan.adaptive) {
            self.adapted = adaptive::findings(driver);
            self.tell_columns();
            adaptive.finish(driver, self.session.observer)?;
        }
        // Audited even if the queries failed: the records of the finished ones need it.
        let audit = self.audit(session);
        if let (Some(card), Ok(audit)) = (self.placements.last_mut(), &audit) {
            card.audit_after.clone_from(audit);
        }
        measured.and(audit.map(drop))
    }

    /// Writes into the current placement's card where adaptive placement last placed each column.
    fn tell_columns(&mut self) {
        let Some(card) = self.placements.last_mut() else {
            return;
        };
        let columns = self.session.data.tables.iter();
        let columns = columns.flat_map(|t| t.columns().iter().map(move |c| (t.name(), c)));
        for (table, column) in columns {
            let name = format!("{table}.{}", column.name());
            let told = card.columns.iter_mut().find(|c| c.column == name);
            if let (Some(told), Some(region)) = (told, column.regions().first()) {
                told.placement = format!("nodes {} at the end", region.placement());
            }
        }
    }

    fn measure_queries(
        &mut self,
        session: &Session<'_>,
        placement: &PlannedPlacement,
        driver: Option<&Driver>,
    ) -> Result<(), RunError> {
        let memory = &self.plan.operator_memory;
        // Takes the peak so far, so that it is not attributed to this placement's first query.
        self.peaks
            .extend(memory.peak_of("first pass", &placement.text));
        for index in 0..self.plan.queries.len() {
            let query = self.plan.queries[index].id;
            let at = format!("{} {query}", placement.text);
            self.session.observer.event(Event::At(&at));
            let (measured, stopped) = timed(&mut self.times.execute_s, || {
                measure::query(session, index, &placement.text, &self.host, driver)
            })?;
            for one in measured {
                self.push_measured(one)?;
            }
            self.peaks.extend(memory.peak_of(query, &placement.text));
            if let Some(stopped) = stopped {
                return Err(stopped);
            }
            self.session.observer.event(Event::Advanced(1));
        }
        Ok(())
    }

    fn audit(&mut self, session: &Session<'_>) -> Result<Option<AuditRecord>, RunError> {
        timed(&mut self.times.audit_s, || session.audit())
    }

    fn push_measured(&mut self, measured: Measured) -> Result<(), RunError> {
        let start = Instant::now();
        let Some(time_ms) = Spread::of(measured.times_ms.clone()) else {
            return Err(RunError::failed(format!(
                "{} has no time",
                measured.query.id
            )));
        };
        let typical = measured.captured.get(measured.captured.len() / 2);
        let record = QueryRecord {
            run_id: self.session.invocation.id.clone(),
            query: measured.query.id.into(),
            placement: measured.placement.clone(),
            machine: HERE.into(),
            provenance: Provenance::Measured,
            engine: measured.engine,
            time_ms,
            speedup_over_dram: None,
            plan_ms: Some(measured.plan_ms),
            text_ms: Spread::of(measured.text_ms.clone()),
            answer: Some(measured.answer.clone()),
            shares: None,
            bottleneck: None,
            tiers: Vec::new(),
            phases: typical
                .filter(|_| measured.placement == self.session.loaded_as)
                .map(|c| c.phases.clone())
                .unwrap_or_default(),
            operators: typical.map(operators).unwrap_or_default(),
            counters: measured.counters.clone(),
        };
        self.measured.push(measured);
        self.push(record)?;
        self.times.record_s += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Adds a record after setting its speed-up over DRAM.
    fn push(&mut self, mut record: QueryRecord) -> Result<(), RunError> {
        record.speedup_over_dram = tierloom_record::speedup_over_dram(&record, &self.records);
        self.records.push(record.clone());
        (self.sink)(Record::Query(Box::new(record)))
    }

    /// Prices the work captured under the reference placement for every machine and placement.
    fn model_all(&mut self) -> Result<(), RunError> {
        let start = Instant::now();
        let run_id = &self.session.invocation.id;
        let mut priced = Vec::new();
        for machine in &self.plan.machines {
            let pricer = Pricer::new(self.plan, machine, &self.uses);
            let works: Vec<_> = self.reference_work().map(|m| pricer.work(m)).collect();
            // An adaptive placement has no fixed shares that could be priced.
            let standing = self.plan.placements.iter();
            for placement in standing.filter(|p| !is_adaptive(p)) {
                let placed = pricer.place(&placement.policy)?;
                for work in &works {
                    priced.push(pricer.record(run_id, work, placement, &placed)?);
                }
            }
        }
        // Sorted so that DRAM comes first: `push` looks for it among the earlier records.
        priced.sort_by_key(|r| r.placement != REFERENCE);
        priced
            .into_iter()
            .try_for_each(|record| self.push(record))?;
        let missing: Vec<&PlannedPlacement> = self
            .plan
            .placements
            .iter()
            .filter(|p| p.why_not_here.is_some())
            .collect();
        self.placements.extend(
            missing
                .into_iter()
                .map(|p| cards::placement(p, &p.policy.decide(&self.uses), &self.uses)),
        );
        self.times.model_s += start.elapsed().as_secs_f64();
        Ok(())
    }

    fn reference_work(&self) -> impl Iterator<Item = &Measured> {
        self.measured
            .iter()
            .filter(|m| m.engine == EngineKind::Tierloom && m.placement == self.session.loaded_as)
    }

    fn finish(mut self, interrupted: bool) -> Result<(), RunError> {
        let start = Instant::now();
        let reference: Vec<&Measured> = self.reference_work().collect();
        let intensity = summary::intensity(self.plan, &reference, &self.uses)?;
        self.times.model_s += start.elapsed().as_secs_f64();
        let mut notes = std::mem::take(&mut self.adapted);
        let literature = |machine| self.plan.workload.literature(machine);
        notes.extend(self.plan.machines.iter().filter_map(literature));
        let standing = self.plan.placements.iter();
        let standing = standing.filter(|p| !is_adaptive(p)).count();
        // Figures that a complete run has: each placement measured per engine, and modelled per
        // machine.
        let engines = 1 + u32::from(self.plan.baseline);
        let planned = (self.plan.measured().count() as u32 * engines
            + (self.plan.machines.len() * standing) as u32)
            * self.plan.queries.len() as u32;
        self.times.total_s = self.started.elapsed().as_secs_f64();
        let summary = SummaryRecord {
            run_id: self.session.invocation.id.clone(),
            interrupted,
            finished: self.records.len() as u32,
            planned,
            means: tierloom_record::means(&self.records),
            placements: std::mem::take(&mut self.placements),
            intensity,
            notes,
            findings: Vec::new(),
            times: self.times,
            memory: MemoryUse {
                peak_resident_bytes: memory::resident("VmHWM"),
                ..self.session.memory
            },
        };
        let finished = summary.finished;
        let summary = summary::concluded(self.opened, self.records, Vec::new(), summary);
        (self.sink)(Record::Summary(Box::new(summary)))?;
        if interrupted {
            return Err(RunError::Interrupted(format!(
                "{finished} of {planned} figures were finished; their records are kept"
            )));
        }
        Ok(())
    }
}

fn operators(captured: &Captured) -> Vec<OperatorRecord> {
    let of = |o: &tierloom_engine::capture::OperatorWork| OperatorRecord {
        operator: o.operator.clone(),
        phase: o.phase.clone(),
        input_rows: o.input_rows,
        output_rows: o.output_rows,
        selectivity: (o.input_rows > 0).then(|| o.output_rows as f64 / o.input_rows as f64),
        cpu_ms: o.cpu_ns as f64 / 1e6,
    };
    captured.operators.iter().map(of).collect()
}

fn timed<T>(into: &mut f64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    *into += start.elapsed().as_secs_f64();
    done
}
