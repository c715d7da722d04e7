//! Modelled throughput of a configuration: a machine profile scaled to it, and its queries per
//! hour.

use super::config::Config;
use super::error::PriceError;
use crate::machine::Value;
use crate::reference::work::{Ssb, Work};
use crate::{Machine, Options, Placement, SourceKind, StructureClass, TierShares, solve_all};

/// Columns of the fact table of the Star Schema Benchmark; its dimensions are small in comparison.
const FACT_COLUMNS: f64 = 17.0;
/// Rows of the fact table per unit of the scale factor.
const FACT_ROWS: f64 = 6e6;
/// Number of queries of the benchmark.
const SSB_QUERIES: f64 = 13.0;
const GIB: f64 = 1_073_741_824.0;

/// All queries of the Star Schema Benchmark, at the scale factor whose fact table (17 columns) has
/// `demand_gib` GiB.
pub fn ssb_filling(demand_gib: u64, ssb: Ssb) -> Ssb {
    let bytes_per_row = FACT_COLUMNS * f64::from(ssb.bytes_per_value.max(1));
    Ssb {
        query: "all".into(),
        scale_factor: demand_gib as f64 * GIB / bytes_per_row / FACT_ROWS,
        ..ssb
    }
}

/// Scales `machine`, which describes one CPU and some devices, to `config`.
///
/// Cores, last-level cache and DRAM bandwidth are multiplied by the number of CPUs, the bandwidth
/// of CXL memory by that of devices; capacities are those of the configuration. Latencies stay the
/// same: traffic between two CPUs is not modelled, and DIMMs of all sizes are taken to be equally
/// fast.
///
/// # Errors
/// [`PriceError::Throughput`] if the profile has no DRAM tier, has no CXL tier although the
/// configuration has devices, or is invalid after scaling.
pub fn scaled(machine: &Machine, config: &Config) -> Result<Machine, PriceError> {
    let fail = |problem: String| PriceError::Throughput {
        config: config.words(),
        problem,
    };
    let mut scaled = machine.clone();
    let cpus = f64::from(config.cpus);
    let times = |value: &mut Value, factor: f64, what: &str| {
        // Unscaled numbers keep their source.
        if factor != 1.0 {
            let source = format!("{} {what}: {} x {factor:.4}", machine.name, value.value);
            *value = Value::new(value.value * factor, SourceKind::Derived, source);
        }
    };
    times(&mut scaled.cores, cpus, "per CPU");
    times(&mut scaled.cache.llc_bytes, cpus, "per CPU");
    let wanted = [
        ("dram", cpus, "per CPU", config.dram_gib),
        (
            "cxl",
            f64::from(config.device_count()),
            "by devices",
            config.cxl_gib,
        ),
    ];
    for (name, count, what, size_gib) in wanted.into_iter().filter(|(_, count, ..)| *count > 0.0) {
        let Some(tier) = scaled.tiers.iter_mut().find(|t| t.name == name) else {
            return Err(fail(format!(
                "machine {} has no tier {name:?}; use a profile that has one",
                machine.name
            )));
        };
        // The profile's DRAM tier is that of one CPU, however many devices it counts.
        let factor = if name == "dram" {
            count
        } else {
            count / tier.devices.value
        };
        times(&mut tier.read_gbps, factor, what);
        times(&mut tier.write_gbps, factor, what);
        if let Some(nt) = tier.nt_write_gbps.as_mut() {
            times(nt, factor, what);
        }
        times(&mut tier.devices, factor, what);
        let source = format!("as bought: {}", config.words());
        tier.capacity_bytes = Value::new(size_gib as f64 * GIB, SourceKind::Derived, source);
    }
    scaled.check().map_err(|e| fail(e.to_string()))?;
    Ok(scaled)
}

/// Modelled number of queries that `config` answers per hour, one after the other, each on all
/// hardware threads.
///
/// A query is one run of `work`; for all queries of the Star Schema Benchmark each of the 13
/// counts. Data is spread over DRAM and CXL memory in proportion to their capacities. Of SSB
/// queries only the columns are spread; hash tables, groups and buffers are in DRAM.
///
/// # Errors
/// [`PriceError::Throughput`] as [`scaled`], or if the model rejects the work.
pub fn queries_per_hour(
    machine: &Machine,
    config: &Config,
    work: &Work,
    options: &Options,
) -> Result<f64, PriceError> {
    let fail = |error: crate::ModelError| PriceError::Throughput {
        config: config.words(),
        problem: error.to_string(),
    };
    let machine = scaled(machine, config)?;
    let sizes = [
        ("dram", config.dram_gib as f64),
        ("cxl", config.cxl_gib as f64),
    ];
    let shares = TierShares::from_weights(&sizes).map_err(fail)?;
    let placement = match work {
        Work::Ssb(_) => {
            Placement::new(TierShares::all("dram")).with_class(StructureClass::Column, shares)
        }
        _ => Placement::new(shares),
    };
    let workers = (machine.cores.value * machine.smt.value) as u32;
    let phases = work.phases(workers).map_err(fail)?;
    let solved = solve_all(&machine, &phases, &placement, workers, options).map_err(fail)?;
    let queries = match work {
        Work::Ssb(ssb) if ssb.query == "all" => SSB_QUERIES,
        _ => 1.0,
    };
    Ok(queries * 3.6e12 / solved.time_ns)
}
