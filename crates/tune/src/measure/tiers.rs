//! Measurements on real tiers: one benchmark run per set of weights.

use tierloom_bench::plan::{
    Amount, MemoryPlan, Pin, RegionPlan, RunPlan, Sharing, TaskPlan, TaskRole, Work, WorkersPlan,
};
use tierloom_bench::run::{self, Control, Host, Session};
use tierloom_kernels::access::ChaseLocality;
use tierloom_memory::{PlacementSpec, Target};
use tierloom_model::search::Weights;
use tierloom_record::{BenchRecord, Spread, TaskRecord};
use tierloom_topology::TierKind;

use super::{KernelPhase, MeasureError, Runs, Setup};

/// Bytes that a worker takes from the queue at a time; fewer in small regions.
const BATCH_BYTES: u64 = 4 << 20;
/// Untimed warm-up before the first repetition, s.
const WARMUP_S: f64 = 0.03;

/// Result of measuring one set of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Tuples (lines, values, accesses) per second, one value per repetition.
    pub tuples_per_s: Spread,
}

/// Source of measurements: the machine's tiers, or simulated ones in tests.
pub trait RateSource {
    /// Measures the rate with these weights.
    ///
    /// # Errors
    /// [`MeasureError`] if no valid rate can be measured.
    fn measure(&mut self, weights: &Weights) -> Result<Reading, MeasureError>;
}

/// The tiers of the machine that this process runs on.
pub struct HostTiers<'a> {
    host: &'a Host,
    setup: &'a Setup,
    phase: &'a KernelPhase,
    session: &'a Session,
    control: &'a dyn Control,
    records: Vec<BenchRecord>,
}

impl<'a> HostTiers<'a> {
    /// Prepares measurements of `phase`; nothing is allocated yet.
    pub fn new(
        host: &'a Host,
        setup: &'a Setup,
        phase: &'a KernelPhase,
        session: &'a Session,
        control: &'a dyn Control,
    ) -> Self {
        HostTiers {
            host,
            setup,
            phase,
            session,
            control,
            records: Vec::new(),
        }
    }

    /// One record for each run so far, with its page audit.
    pub fn into_records(self) -> Vec<BenchRecord> {
        self.records
    }

    /// The benchmark run for `weights`.
    ///
    /// # Errors
    /// [`MeasureError::NoTier`] for a tier whose name is not a tier kind, and
    /// [`MeasureError::NoQueries`] for queries, which need an engine.
    pub fn plan(&self, weights: &Weights) -> Result<RunPlan, MeasureError> {
        let setup = self.setup;
        let placement = placement(weights)?;
        let page_bytes = setup.page_size.bytes() as u64;
        let region = |size_bytes: u64| RegionPlan {
            memory: MemoryPlan::Anonymous,
            size_bytes: size_bytes.next_multiple_of(page_bytes),
            page_size: setup.page_size,
            placement: placement.clone(),
        };
        let regions = setup.sizes(self.phase).into_iter().map(region).collect();
        // At least 16 batches per worker, so that threads finish at about the same time.
        let part = setup.region_bytes / u64::from(setup.workers()) / 16;
        let batch_bytes = BATCH_BYTES.min(part).max(4096).next_multiple_of(4096);
        let task = TaskPlan {
            name: "main".into(),
            role: TaskRole::Main,
            host: None,
            work: match &self.phase.runs {
                Runs::Access(access) => Work::Throughput {
                    access: *access,
                    batch_bytes,
                    sharing: Sharing::Queue,
                },
                Runs::Chase => Work::Chase {
                    locality: ChaseLocality::Random,
                },
                Runs::Operator { operator, .. } => Work::Operator {
                    operator: operator.clone(),
                },
                Runs::Queries(_) => return Err(MeasureError::NoQueries),
            },
            regions,
            workers: WorkersPlan {
                threads: setup.workers(),
                pin: Pin::Cpus {
                    cpus: setup.cpus.clone(),
                },
            },
            amount: match &self.phase.runs {
                // An operator makes whole passes.
                Runs::Operator { .. } => Amount::Passes(1),
                _ => Amount::Seconds(setup.seconds),
            },
            rate_gbps: None,
        };
        let plan = RunPlan {
            id: String::new(),
            workload: "tune".into(),
            file: String::new(),
            line: 0,
            varied: vec![
                ("phase".into(), self.phase.name.clone()),
                ("weights".into(), weights.to_string()),
            ],
            tasks: vec![task],
            repeat: setup.repeat,
            warmup_s: WARMUP_S,
            until_stable: None,
            // A fixed seed, so that all weights are measured with the same accesses.
            seed: 1,
            scale: 1.0,
        };
        Ok(plan.with_id())
    }

    fn run(&mut self, plan: &RunPlan) -> Result<Result<Spread, String>, MeasureError> {
        let part = run::run_part(plan, None, self.host, self.control)?;
        let record = run::record(plan, vec![part], self.session)?;
        let rate = record
            .tasks
            .first()
            .and_then(|task| rate(task, &self.phase.runs));
        let problems = || {
            let wrong = record.remarks.iter().filter(|remark| remark.invalidates);
            wrong
                .map(|remark| remark.text.clone())
                .collect::<Vec<_>>()
                .join("; ")
        };
        let answer = match rate {
            Some(rate) if record.valid && rate.min > 0.0 => Ok(rate),
            Some(_) if record.valid => {
                Err("a repetition was over before any batch was; make it longer (--seconds)".into())
            }
            Some(_) => Err(problems()),
            None => Err("no repetition was complete".into()),
        };
        self.records.push(record);
        Ok(answer)
    }
}

impl RateSource for HostTiers<'_> {
    /// Measures, and repeats once if the record is invalid (because a page moved, for example).
    fn measure(&mut self, weights: &Weights) -> Result<Reading, MeasureError> {
        let plan = self.plan(weights)?;
        let mut remarks = String::new();
        for _ in 0..2 {
            match self.run(&plan)? {
                Ok(tuples_per_s) => return Ok(Reading { tuples_per_s }),
                Err(problem) => remarks = problem,
            }
        }
        Err(MeasureError::Invalid {
            weights: weights.to_string(),
            remarks,
        })
    }
}

/// Tuples per second of a task: of one phase of an operator, else of all that it does.
fn rate(task: &TaskRecord, runs: &Runs) -> Option<Spread> {
    let Runs::Operator {
        phase: Some(name), ..
    } = runs
    else {
        return task.operations_per_s.clone();
    };
    let operator = task.operator.as_ref()?;
    let phase = operator.phases.iter().find(|phase| phase.name == *name)?;
    let tuples = (phase.tuples * operator.passes) as f64;
    let seconds = phase.seconds.as_ref()?.values.iter();
    Spread::of(seconds.map(|seconds| tuples / seconds).collect())
}

/// Page placement for these weights; a tier's part is spread evenly over its nodes.
fn placement(weights: &Weights) -> Result<PlacementSpec, MeasureError> {
    let target = |(tier, weight): (&str, u32)| match tier.parse::<TierKind>() {
        Ok(kind) => Ok((Target::Tier(kind), weight)),
        Err(error) => Err(MeasureError::NoTier {
            tier: tier.to_owned(),
            known: error.to_string(),
        }),
    };
    let targets = weights.iter().map(target).collect::<Result<Vec<_>, _>>()?;
    Ok(match targets.as_slice() {
        [(only, _)] => PlacementSpec::Bind(*only),
        _ => PlacementSpec::Weighted(targets),
    })
}
