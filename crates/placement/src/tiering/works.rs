//! Workloads of the comparison.

use super::tenant::Tenant;
use crate::mixes::{Engine, Mix, tpch_queries};
use tierloom_model::reference::ssb::ssb_queries;
use tierloom_model::reference::work::Work;
use tierloom_model::{Machine, ModelError};

/// A workload, possibly with another program on the machine.
#[derive(Debug, Clone)]
pub struct TieringWork {
    pub(super) mix: Mix,
    pub(super) tenant: Option<Tenant>,
}

/// Names of all workloads of the comparison.
pub const WORKS: [&str; 12] = [
    "scan",
    "filter",
    "build",
    "probe",
    "chase",
    "partition",
    "aggregate",
    "tree",
    "ssb",
    "tpch",
    "ssb, tenant on dram",
    "ssb, tenant on cxl",
];

/// Peak share that a tenant reads, and how long it does and does not, ns.
const TENANT: (f64, f64, f64) = (0.4, 3e9, 5e9);

impl TieringWork {
    /// The workload of this name; `None` if there is none.
    ///
    /// Benchmarks have the default parameters of the model's reference works. SSB is that of the
    /// profile's publication; TPC-H has scale factor 100 and an engine four times as fast as usual,
    /// so that memory limits it.
    ///
    /// # Errors
    /// [`ModelError::Work`] for parameters that cannot be.
    pub fn new(name: &str, profile: &Machine) -> Result<Option<Self>, ModelError> {
        let (work, tenant) = match name.split_once(", tenant on ") {
            Some((work, tier)) => (work, Some(usize::from(tier == "cxl"))),
            None => (name, None),
        };
        let workers = (profile.cores.value as u32).max(1);
        let of = |work: Work| -> Result<Mix, ModelError> {
            Ok(vec![(work.name().to_owned(), work.phases(workers)?)])
        };
        let mix = match work {
            "scan" => of(Work::Scan(Default::default()))?,
            "filter" => of(Work::Filter(Default::default()))?,
            "build" => of(Work::Build(Default::default()))?,
            "probe" => of(Work::Probe(Default::default()))?,
            "chase" => of(Work::Chase(Default::default()))?,
            "partition" => of(Work::Partition(Default::default()))?,
            "aggregate" => of(Work::Aggregate(Default::default()))?,
            "tree" => of(Work::Tree(Default::default()))?,
            "ssb" if profile.name.starts_with("epfl25") => ssb_queries(100.0, 8, 2.0),
            "ssb" => ssb_queries(30.0, 4, 3.0),
            "tpch" => tpch_queries(100.0, &Engine::default().faster(4.0)),
            _ => return Ok(None),
        };
        let (load, on_ns, off_ns) = TENANT;
        Ok(Some(TieringWork {
            mix,
            tenant: tenant.map(|tier| Tenant {
                tier,
                load,
                on_ns,
                off_ns,
            }),
        }))
    }
}
