//! Rates of whole queries: the suite of `tierloom run` under each set of weights.

use crate::invocation::open_session;
use crate::stop;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tierloom_memory::router::Class;
use tierloom_model::search::Weights;
use tierloom_record::{QueryRecord, Record};
use tierloom_suite::{
    ErrorKind, Event, Observer, RunError, SuitePlan, SuiteRequest, Workload, workload,
};
use tierloom_topology::Topology;
use tierloom_tune::measure::{Benchmark, MeasureError, QueryRuns, RateSource, Reading, Setup};

/// Seed of generated data, the same for all weights.
const SEED: u64 = 42;

/// An engine with the data of a benchmark, which is generated anew for each set of weights.
pub struct QueryTiers<'a> {
    runs: &'a QueryRuns,
    setup: &'a Setup,
    topology: &'a Topology,
    records: Vec<Record>,
}

impl<'a> QueryTiers<'a> {
    pub fn new(runs: &'a QueryRuns, setup: &'a Setup, topology: &'a Topology) -> Self {
        QueryTiers {
            runs,
            setup,
            topology,
            records: Vec::new(),
        }
    }

    /// The records of all runs.
    pub fn into_records(self) -> Vec<Record> {
        self.records
    }

    fn workload(&self) -> Result<Arc<dyn Workload>, RunError> {
        match self.runs.benchmark {
            Benchmark::Ssb => workload::ssb(self.runs.scale_factor, SEED),
            Benchmark::Tpch => workload::tpch(self.runs.scale_factor, None),
        }
    }

    fn request(&self, placement: &str) -> SuiteRequest {
        let classes = Class::ALL.iter();
        let everywhere: Vec<String> = classes.map(|c| format!("{c}=[{placement}]")).collect();
        SuiteRequest {
            queries: self.runs.queries.clone(),
            threads: Some(self.setup.workers() as usize),
            repeat: self.setup.repeat,
            operator_memory: Some(everywhere.join(",")),
            ..SuiteRequest::new(placement.to_owned(), self.setup.page_size.to_string())
        }
    }

    fn run(&mut self, placement: &str) -> Result<Vec<QueryRecord>, RunError> {
        let request = self.request(placement);
        let plan = SuitePlan::resolve(self.workload()?, &request, self.topology.clone())?;
        let mut queries = Vec::new();
        let records = &mut self.records;
        let mut sink = |record: Record| {
            if let Record::Query(query) = &record {
                queries.push(query.as_ref().clone());
            }
            records.push(record);
            Ok(())
        };
        // Each set of weights is a run of its own among the records.
        tierloom_suite::run(&plan, &open_session(), None, &Quiet, &mut sink)?;
        Ok(queries)
    }
}

impl RateSource for QueryTiers<'_> {
    fn measure(&mut self, weights: &Weights) -> Result<Reading, MeasureError> {
        let placement = QueryRuns::placement(weights);
        let queries = self
            .run(&placement)
            .map_err(|error| MeasureError::Queries {
                message: error.to_string(),
                is_bad_input: error.kind() == ErrorKind::BadInput,
                is_stopped: error.kind() == ErrorKind::Interrupted,
            })?;
        let rate = self.runs.rate(&queries, &placement);
        let tuples_per_s = rate.ok_or_else(|| MeasureError::Invalid {
            weights: weights.to_string(),
            remarks: "no query was measured".to_owned(),
        })?;
        Ok(Reading { tuples_per_s })
    }
}

/// Stops when the user asks to, and shows nothing: the search has lines of its own.
struct Quiet;

impl Observer for Quiet {
    fn stop(&self) -> &AtomicBool {
        stop::flag()
    }

    fn event(&self, _: Event<'_>) {}
}
