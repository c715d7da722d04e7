//! Times of the queries on each cluster that is asked for.

use super::queries::queries_of;
use super::request::ClusterRequest;
use crate::question::RequestedWork;
use crate::{PredictError, Request, placement, works};
use tierloom_calibrate::{Asked, Known};
use tierloom_model::cluster::{
    ClusterRun, ClusterSetup, LastOn, ModelledBackend, PricedOn, SpreadQuery, StatementTimes,
    StatementWork, simulate,
};
use tierloom_model::sensitivity::{self, Uncertainty};
use tierloom_model::{Machine, ModelError, Options, Phase, Placement};

/// The answers for one machine.
pub struct ClusterPrediction {
    /// The machine; all nodes are alike.
    pub machine: Machine,
    /// Workers of each node.
    pub workers: u32,
    /// The placement on each node, as given.
    pub placement: String,
    /// One answer for each number of nodes.
    pub sizes: Vec<ClusterSize>,
    /// What checks show about rates of this kind of work on one machine.
    pub known: Known,
}

/// The answer for one number of nodes.
pub struct ClusterSize {
    /// The cluster.
    pub setup: ClusterSetup,
    /// The queries, each asked alone.
    pub queries: Vec<QueryOnCluster>,
    /// All queries once, one after the other.
    pub round: ClusterRun,
    /// All queries once in each of `streams` clients at the same time.
    pub loaded: ClusterRun,
    /// Number of these clients.
    pub streams: u32,
}

/// A query on a cluster.
pub struct QueryOnCluster {
    /// Its parts.
    pub work: StatementWork,
    /// When its parts end; the sum over its statements.
    pub times: StatementTimes,
    /// Time until the answer in ms, with the range over the profile's uncertainty, what checks
    /// miss, and costs that were measured elsewhere.
    pub time_ms: Uncertainty,
}

impl QueryOnCluster {
    /// Of the time until all node plans were known to have ended: that of the node plan itself, ns.
    pub fn node_plan_ns(&self) -> f64 {
        self.work
            .parts
            .iter()
            .map(|p| p.work_ns)
            .fold(0.0, f64::max)
    }

    /// Who does the final plan.
    pub fn last_on(&self) -> &'static str {
        match self.work.last_on {
            None => "nobody",
            Some(LastOn::Client) => "client",
            Some(LastOn::OneNode) => "one node",
            Some(LastOn::AllNodes) => "all nodes",
        }
    }

    /// Bytes that all nodes send or keep for the final plan.
    pub fn sent_bytes(&self) -> f64 {
        let parts = self.work.parts.iter();
        parts.map(|p| f64::from(p.nodes) * p.sent_bytes).sum()
    }

    /// The rest of that time: giving out tasks, and noting their ends, ns.
    pub fn giving_out_ns(&self) -> f64 {
        (self.times.nodes_ns - self.node_plan_ns()).max(0.0)
    }
}

/// What takes longest, or what is busiest.
pub(super) fn largest(parts: &[(&'static str, f64)]) -> &'static str {
    let most = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.map_or("", |(name, _)| name)
}

impl ClusterSize {
    /// Sum of the times of all queries in ms: the answer, and its range.
    pub fn round_ms(&self) -> (f64, f64, f64) {
        let sum = |of: fn(&Uncertainty) -> f64| self.queries.iter().map(|q| of(&q.time_ms)).sum();
        (sum(|t| t.answer), sum(|t| t.low), sum(|t| t.high))
    }

    /// Sum of the times of all queries in one process on one node, ms.
    pub fn alone_ms(&self) -> f64 {
        self.queries.iter().map(|q| q.work.alone_ns / 1e6).sum()
    }

    /// The part of the time of all queries that is largest.
    pub fn longest_part(&self) -> &'static str {
        let sum = |of: &dyn Fn(&QueryOnCluster) -> f64| self.queries.iter().map(of).sum::<f64>();
        largest(&[
            ("node plans", sum(&QueryOnCluster::node_plan_ns)),
            ("giving out tasks", sum(&QueryOnCluster::giving_out_ns)),
            ("fixed time", sum(&|q| q.times.fixed_ns)),
            ("fetching results", sum(&|q| q.times.fetch_ns)),
            ("final plan", sum(&|q| q.times.last_ns)),
        ])
    }

    /// Statements per hour of all clients.
    pub fn per_hour(&self) -> f64 {
        let statements = f64::from(self.streams) * self.queries.len() as f64;
        3600e9 * statements / self.loaded.span_ns
    }

    /// Who gives out the work of a statement.
    pub fn hands_out(&self) -> &'static str {
        match self.setup.backend {
            ModelledBackend::Ballista => "scheduler",
            ModelledBackend::Distributed => "client",
        }
    }

    /// Share of the time that the scheduler or the clients' process, nodes on average, and the
    /// busiest link are busy with all clients.
    pub fn busy(&self) -> [(&'static str, f64); 3] {
        let run = &self.loaded;
        let of = |ns: f64| ns / run.span_ns;
        [
            (self.hands_out(), of(run.scheduler_ns)),
            ("nodes", of(run.nodes_ns / f64::from(self.setup.nodes))),
            ("busiest link", of(run.link_ns)),
        ]
    }
}

/// A question for one machine.
struct ClusterCase<'a> {
    queries: &'a [SpreadQuery],
    placement: Placement,
    workers: u32,
    options: Options,
    request: &'a ClusterRequest,
    known: &'a Known,
}

impl ClusterPrediction {
    /// Answers for `machine`.
    ///
    /// # Errors
    /// Bad input: a placement, load or number that cannot be.
    pub fn make(
        asked: &RequestedWork,
        machine: Machine,
        request: &Request,
        cluster: &ClusterRequest,
    ) -> Result<ClusterPrediction, PredictError> {
        let options = request.options()?;
        crate::answer::check_background(&options, &machine).map_err(PredictError::input)?;
        let workers = machine
            .workers(request.workers)
            .map_err(PredictError::input)?;
        let queries = queries_of(asked, request, workers)?;
        let phases: Vec<Phase> = queries.iter().flat_map(|q| q.whole.clone()).collect();
        let first = machine.tiers.first().map_or("dram", |t| t.name.as_str());
        let text = request.placement.as_deref().unwrap_or(first);
        let known = works::known(asked.kind(), Asked::Rate)?;
        let case = ClusterCase {
            queries: &queries,
            placement: placement::parse(text, &machine, &phases).map_err(PredictError::input)?,
            workers,
            options,
            request: cluster,
            known: &known,
        };
        let sizes = cluster.setups()?.into_iter();
        let sizes = sizes.map(|setup| case.size(&machine, setup).map_err(PredictError::input));
        Ok(ClusterPrediction {
            sizes: sizes.collect::<Result<_, _>>()?,
            placement: text.into(),
            workers,
            machine,
            known,
        })
    }
}

impl ClusterCase<'_> {
    fn size(&self, machine: &Machine, setup: ClusterSetup) -> Result<ClusterSize, ModelError> {
        let queries = self.queries.iter().map(|q| self.query(machine, q, &setup));
        let queries: Vec<QueryOnCluster> = queries.collect::<Result<_, _>>()?;
        let works: Vec<StatementWork> = queries.iter().map(|q| q.work.clone()).collect();
        let streams = self.request.streams();
        Ok(ClusterSize {
            round: simulate(&setup, &works, 1),
            loaded: simulate(&setup, &works, streams),
            setup,
            queries,
            streams,
        })
    }

    fn work(
        &self,
        machine: &Machine,
        query: &SpreadQuery,
        setup: &ClusterSetup,
    ) -> Result<StatementWork, ModelError> {
        let priced = PricedOn {
            machine,
            placement: &self.placement,
            workers: self.workers,
            options: &self.options,
        };
        priced.work(query, setup)
    }

    fn query(
        &self,
        machine: &Machine,
        query: &SpreadQuery,
        setup: &ClusterSetup,
    ) -> Result<QueryOnCluster, ModelError> {
        let work = self.work(machine, query, setup)?;
        let times = alone(setup, &work);
        // Only the work of the operators depends on the machine, so it alone is priced again for
        // each number of the profile; the longest node plan stands for the node plans.
        let longest = |work: &StatementWork| {
            let parts = work
                .parts
                .iter()
                .map(|p| p.work_ns + p.write_ns + p.read_ns);
            parts.fold(0.0, f64::max) + work.last_ns
        };
        let mut range = sensitivity::uncertainty(machine, |m| {
            Ok(longest(&self.work(m, query, setup)?).max(f64::MIN_POSITIVE))
        })?;
        // The checks are about rates, which are times the other way around.
        let (low, high) = (1.0 / range.high, 1.0 / range.low);
        let (low, high) = self.known.widen(1.0 / range.answer, low, high);
        let (shorter, longer) = (1.0 / high / range.answer, 1.0 / low / range.answer);
        let at = |work_factor: f64, cost_factor: f64| {
            let setup = ClusterSetup {
                costs: self.request.costs(setup.backend, cost_factor),
                ..setup.clone()
            };
            alone(&setup, &scaled(&work, work_factor)).total_ns / 1e6
        };
        (range.low, range.answer, range.high) =
            (at(shorter, 0.5), times.total_ns / 1e6, at(longer, 2.0));
        Ok(QueryOnCluster {
            work,
            times,
            time_ms: range,
        })
    }
}

/// The times of a query that is asked alone, over all of its statements.
fn alone(setup: &ClusterSetup, work: &StatementWork) -> StatementTimes {
    let run = simulate(setup, std::slice::from_ref(work), 1);
    let statements = run.statements.into_iter();
    statements.fold(StatementTimes::default(), |sum, t| StatementTimes {
        query: t.query,
        total_ns: sum.total_ns + t.total_ns,
        fixed_ns: sum.fixed_ns + t.fixed_ns,
        nodes_ns: sum.nodes_ns + t.nodes_ns,
        fetch_ns: sum.fetch_ns + t.fetch_ns,
        last_ns: sum.last_ns + t.last_ns,
    })
}

/// The same statement with work that takes `factor` times as long.
fn scaled(work: &StatementWork, factor: f64) -> StatementWork {
    let mut work = work.clone();
    work.last_ns *= factor;
    for part in &mut work.parts {
        part.work_ns *= factor;
        part.write_ns *= factor;
        part.read_ns *= factor;
    }
    work
}
