//! Asking real tiers: one benchmark run for one set of weights.

use tierloom_bench::plan::{
    Amount, MemoryPlan, Pin, RegionPlan, Role, RunPlan, Sharing, TaskPlan, Work, WorkersPlan,
};
use tierloom_bench::run::{self, Control, Host, Session};
use tierloom_memory::{PlacementSpec, Target};
use tierloom_model::search::Weights;
use tierloom_record::{BenchRecord, Spread};
use tierloom_topology::TierKind;

use super::{KernelPhase, MeasureError, Setup};

/// Bytes that a worker takes at a time; less on small regions.
const BATCH_BYTES: u64 = 4 << 20;
/// Untimed before the first repetition.
const WARMUP_S: f64 = 0.03;

/// What was measured with one set of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Tuples (lines, values, accesses) per second, one value per repetition.
    pub tuples_per_s: Spread,
}

/// Tiers that can be asked: those of the machine, or a simulated one.
pub trait Tiers {
    /// The rate with these weights.
    ///
    /// # Errors
    /// [`MeasureError`] if there is no figure that may be used.
    fn measure(&mut self, weights: &Weights) -> Result<Reading, MeasureError>;
}

/// The tiers of the machine this runs on.
pub struct HostTiers<'a> {
    host: &'a Host,
    setup: &'a Setup,
    phase: &'a KernelPhase,
    session: &'a Session,
    control: &'a dyn Control,
    records: Vec<BenchRecord>,
}

impl<'a> HostTiers<'a> {
    /// Tiers on which `phase` will run.
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

    /// The run for `weights`.
    ///
    /// # Errors
    /// [`MeasureError::NoTier`] for a tier without a name that placements know.
    pub fn plan(&self, weights: &Weights) -> Result<RunPlan, MeasureError> {
        let setup = self.setup;
        let placement = placement(weights)?;
        let region = RegionPlan {
            memory: MemoryPlan::Anonymous,
            size_bytes: setup.region_bytes,
            page_size: setup.page_size,
            placement,
        };
        let part = setup.region_bytes / u64::from(setup.workers()) / 16;
        let batch_bytes = BATCH_BYTES.min(part).max(4096).next_multiple_of(4096);
        let task = TaskPlan {
            name: "main".into(),
            role: Role::Main,
            host: None,
            work: Work::Throughput {
                access: self.phase.access,
                batch_bytes,
                sharing: Sharing::Queue,
            },
            regions: vec![region],
            workers: WorkersPlan {
                threads: setup.workers(),
                pin: Pin::Cpus {
                    cpus: setup.cpus.clone(),
                },
            },
            amount: Amount::Seconds(setup.seconds),
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
            seed: 1,
        };
        Ok(plan.with_id())
    }

    fn run(&mut self, plan: &RunPlan) -> Result<Result<Spread, String>, MeasureError> {
        let part = run::run_part(plan, None, self.host, self.control)?;
        let record = run::record(plan, vec![part], self.session)?;
        let rate = record
            .tasks
            .first()
            .and_then(|task| task.operations_per_s.clone());
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

impl Tiers for HostTiers<'_> {
    /// A run that must not be used (a page moved, say) is repeated once.
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

/// Where pages go with these weights; a tier of several nodes has its part on all of them evenly.
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
