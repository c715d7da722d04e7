//! Models the throughput of configurations, for the price per throughput.
//!
//! A configuration scales the machine profile: cores and DRAM bandwidth by CPUs, CXL bandwidth by
//! devices.

use super::args::Args;
use crate::failure::Failure;
use tierloom_model::cost::{Config, Offer, gib, queries_per_hour, ssb_filling};
use tierloom_model::reference::work::{Ssb, Work};
use tierloom_model::{Machine, Options};
use tierloom_predict::works;
use tierloom_suite::machine;

/// The machine and the work that throughput is modelled with.
pub struct Throughput {
    machine: Machine,
    asked: CountedWork,
}

/// The work that is counted.
enum CountedWork {
    /// Runs of a benchmark, with its name as given.
    Work(String, Box<Work>),
    /// Queries of the Star Schema Benchmark at the scale factor of `--ssb-sf`.
    Fixed(Ssb),
    /// The same queries at the scale factor that fills the demand.
    Filling(Ssb),
}

/// The configuration with the lowest price per query per hour.
pub struct Best {
    pub config: Config,
    /// Modelled queries per hour.
    pub queries_per_hour: f64,
}

impl Throughput {
    /// Reads the arguments; `None` if no machine was named.
    pub fn of(args: &Args, demands: &[u64]) -> Result<Option<Throughput>, Failure> {
        let Some(name) = &args.machine else {
            return Ok(None);
        };
        if !(args.compute_ns.is_finite() && args.compute_ns >= 0.0) {
            let found = args.compute_ns;
            return Err(Failure::input(format!(
                "--compute-ns {found}: expected a finite number of at least 0"
            )));
        }
        let ssb = Ssb {
            query: "all".into(),
            compute_ns: args.compute_ns,
            ..Ssb::default()
        };
        let asked = match (&args.work, args.ssb_sf) {
            (Some(text), _) => CountedWork::Work(text.clone(), Box::new(works::parse(text)?)),
            (None, Some(scale_factor)) => {
                check_scale(scale_factor, &ssb, demands)?;
                CountedWork::Fixed(Ssb {
                    scale_factor,
                    ..ssb
                })
            }
            (None, None) => CountedWork::Filling(ssb),
        };
        Ok(Some(Throughput {
            machine: machine::load(name)?,
            asked,
        }))
    }

    /// The method as text, for the output.
    pub fn words(&self) -> String {
        let machine = format!(
            "on machine {} (its cores and DRAM bandwidth per CPU, its CXL bandwidth per device",
            self.machine.name
        );
        let (ssb, size) = match &self.asked {
            CountedWork::Work(text, _) => {
                return format!(
                    "runs of {text}, one after the other on all cores, {machine}; data spread as memory was bought)"
                );
            }
            CountedWork::Fixed(ssb) => (ssb, format!("at scale factor {}", ssb.scale_factor)),
            CountedWork::Filling(ssb) => (ssb, "at the scale factor that fills the demand".into()),
        };
        format!(
            "the 13 queries of the Star Schema Benchmark {size}, one after the other on all cores, {} ns of processor time per row, \
             {machine}; tables spread as memory was bought, hash tables in DRAM)",
            ssb.compute_ns
        )
    }

    /// Modelled queries per hour of a configuration with the data of a demand.
    pub fn queries_per_hour(&self, config: &Config, demand_gib: u64) -> Result<f64, Failure> {
        let work = match &self.asked {
            CountedWork::Work(_, work) => work.as_ref().clone(),
            CountedWork::Fixed(ssb) => Work::Ssb(ssb.clone()),
            CountedWork::Filling(ssb) => Work::Ssb(ssb_filling(demand_gib, ssb.clone())),
        };
        queries_per_hour(&self.machine, config, &work, &Options::default()).map_err(Failure::input)
    }

    /// The configuration of any kind with the lowest price per query per hour; `None` if none holds
    /// the demand.
    pub fn best(&self, offers: &[Offer], demand_gib: u64) -> Result<Option<Best>, Failure> {
        let mut best: Option<Best> = None;
        for config in offers.iter().flat_map(|o| o.options(demand_gib)) {
            let queries_per_hour = self.queries_per_hour(config, demand_gib)?;
            let per_query = config.price / queries_per_hour;
            if best.as_ref().is_none_or(|b| per_query < b.per_query()) {
                best = Some(Best {
                    config: config.clone(),
                    queries_per_hour,
                });
            }
        }
        Ok(best)
    }
}

impl Best {
    /// Price per query per hour.
    pub fn per_query(&self) -> f64 {
        self.config.price / self.queries_per_hour
    }
}

/// Checks that the data at this scale factor fits into the smallest demand.
fn check_scale(sf: f64, ssb: &Ssb, demands: &[u64]) -> Result<(), Failure> {
    if !(sf.is_finite() && sf > 0.0) {
        return Err(Failure::input(format!(
            "--ssb-sf {sf}: expected a finite number above 0"
        )));
    }
    let least = demands.first().copied().unwrap_or(1);
    let fits = ssb_filling(least, ssb.clone()).scale_factor;
    if sf > fits {
        // The data grows in proportion to the scale factor.
        let needed = (sf / fits * least as f64).ceil() as u64;
        return Err(Failure::input(format!(
            "--ssb-sf {sf} needs {} of memory, the least demand is {}; begin --demand there or leave --ssb-sf out",
            gib(needed),
            gib(least)
        )));
    }
    Ok(())
}
