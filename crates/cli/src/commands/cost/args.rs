//! Command line arguments of `tierloom cost`, and the prices, kinds and demands that they describe.

use crate::failure::Failure;
use std::path::PathBuf;
use tierloom_model::cost::{Kind, Prices};
use tierloom_text::Bytes;

/// Compare the price of servers by memory demand: CPU memory alone against CXL devices, with
/// break-even and what decides it
///
/// Prices and rules come from a file in which every number has a source; the built-in one is that
/// of Weisgut et al. (PVLDB 2025).
#[derive(clap::Args)]
pub struct Args {
    /// File of prices and rules; default: the built-in one (print it with --show-prices, edit it,
    /// and give it here)
    #[arg(long, value_name = "FILE.yaml")]
    pub prices: Option<PathBuf>,
    /// Print the prices that would be used, including changes by --set, and exit
    #[arg(long)]
    pub show_prices: bool,
    /// Memory demand: one size (3TiB) or a range (256GiB..10TiB); default: 256GiB..8TiB. With
    /// --pool: what each host needs always, and at its own peak (512GiB..2TiB)
    #[arg(long, value_name = "SIZE[..SIZE]")]
    pub demand: Option<String>,
    /// Compare a pool of CXL memory that so many hosts share behind a switch with memory for the
    /// own peak of each
    #[arg(long, value_name = "HOSTS", conflicts_with_all = NOT_WITH_POOL)]
    pub pool: Option<u32>,
    /// With --pool: how much of the sum of all peaks the hosts ever need at once
    #[arg(long, value_name = "SHARE", default_value = "50%", requires = "pool")]
    pub joint_peak: String,
    /// With --pool: recorded demands instead of --demand; a column per host, a line per moment, in
    /// GiB or with a unit
    #[arg(
        long,
        value_name = "FILE.csv",
        requires = "pool",
        conflicts_with = "demand"
    )]
    pub trace: Option<PathBuf>,
    /// Step of a range of demands
    #[arg(long, value_name = "SIZE", default_value = "256GiB")]
    pub step: String,
    /// Kinds of configuration to compare with CPU memory, separated by commas: cxl:N (1 to N
    /// devices), reused:N (the same with DIMMs from old servers)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub kinds: Vec<String>,
    /// Also compare devices with reused DIMMs
    #[arg(long, conflicts_with = "kinds")]
    pub reuse: bool,
    /// Change a price or rule, as in `cpu.price=4500`, `dimms[ddr5-256].price=2000`,
    /// `devices[0].sizes_gib=64,128`; may be given several times
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Also model throughput with this machine profile (a name or a YAML file), with data spread
    /// over DRAM and CXL in proportion to their sizes; by default of the 13 queries of the Star
    /// Schema Benchmark
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// Model the throughput of this benchmark instead: `probe`, `probe:table_bytes=16GiB`, or a
    /// file
    #[arg(long, value_name = "WORK", requires = "machine", conflicts_with_all = ["ssb_sf", "compute_ns"])]
    pub work: Option<String>,
    /// Scale factor of the Star Schema Benchmark; default: the one at which the data fills the
    /// demand
    #[arg(long, value_name = "N", requires = "machine")]
    pub ssb_sf: Option<f64>,
    /// CPU time of the engine per row, ns; 0 shows the largest effect that memory can have
    #[arg(long, value_name = "NS", default_value_t = 0.0, requires = "machine")]
    pub compute_ns: f64,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write the record to FILE
    #[arg(long, value_name = "FILE.jsonl")]
    pub records: Option<PathBuf>,
    /// Also write an HTML report to FILE
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// Options of the comparison by demand alone.
const NOT_WITH_POOL: [&str; 7] = [
    "step",
    "kinds",
    "reuse",
    "machine",
    "work",
    "ssb_sf",
    "show_prices",
];

/// Default of `--demand`.
const DEMANDS: &str = "256GiB..8TiB";

/// Limit on demands: a longer table would not be read.
const MOST_DEMANDS: u64 = 10_000;

impl Args {
    /// Loads the prices and applies `--set`.
    pub fn load_prices(&self) -> Result<Prices, Failure> {
        let mut prices = match &self.prices {
            None => Prices::builtin().map_err(Failure::runtime)?,
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path)
                    .map_err(|e| Failure::input(format!("cannot read prices {name}: {e}")))?;
                Prices::from_yaml(&text, &name).map_err(Failure::input)?
            }
        };
        for change in &self.set {
            let (path, value) = change.split_once('=').ok_or_else(|| {
                Failure::input(format!(
                    "--set {change:?} has no =; expected PATH=VALUE as in cpu.price=4500"
                ))
            })?;
            prices
                .set(path.trim(), value.trim(), "set on the command line")
                .map_err(Failure::input)?;
        }
        // Results must not be mistaken for those of the unchanged file.
        if !self.set.is_empty() {
            prices.name += ", changed";
        }
        Ok(prices)
    }

    /// The kinds to compare, CPU memory first.
    pub fn load_kinds(&self, prices: &Prices) -> Result<Vec<Kind>, Failure> {
        if self.kinds.is_empty() {
            return Ok(Kind::usual(prices, self.reuse));
        }
        let mut kinds = vec![Kind::CPU_MEMORY];
        for text in &self.kinds {
            let kind: Kind = text.trim().parse().map_err(Failure::input)?;
            if kind.devices > prices.most_devices() {
                return Err(Failure::input(format!(
                    "{kind} asks for {} devices, prices {} allow {}; set devices[0].max",
                    kind.devices,
                    prices.name,
                    prices.most_devices()
                )));
            }
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }

    /// The demands in GiB.
    pub fn demands(&self) -> Result<Vec<u64>, Failure> {
        let demand = self.demand.as_deref().unwrap_or(DEMANDS);
        let (first, last) = match demand.split_once("..") {
            None => return Ok(vec![size_gib("--demand", demand)?]),
            Some((first, last)) => (size_gib("--demand", first)?, size_gib("--demand", last)?),
        };
        let step = size_gib("--step", &self.step)?;
        if first > last {
            return Err(Failure::input(format!(
                "--demand {demand} ends before it begins"
            )));
        }
        if (last - first) / step >= MOST_DEMANDS {
            return Err(Failure::input(format!(
                "--demand {demand} has more than {MOST_DEMANDS} steps of {}; give a larger --step",
                self.step
            )));
        }
        Ok((first..=last).step_by(step as usize).collect())
    }
}

/// Parses a size in whole GiB: "256GiB", "1.5 TiB".
pub fn size_gib(option: &str, text: &str) -> Result<u64, Failure> {
    const GIB: u64 = 1 << 30;
    let size: Bytes = text
        .parse()
        .map_err(|e| Failure::input(format!("{option}: {e}")))?;
    let gib = size.0 / GIB;
    if size.0.is_multiple_of(GIB) && (1..=1 << 20).contains(&gib) {
        return Ok(gib);
    }
    Err(Failure::input(format!(
        "{option} {text}: expected whole GiB, at least 1 GiB and at most 1024 TiB (256GiB, 1.5TiB)"
    )))
}

#[cfg(test)]
mod tests {
    use super::size_gib;

    #[test]
    fn sizes_are_whole_gibibytes_with_a_unit() {
        for (text, gib) in [
            ("256GiB", 256),
            (" 1.5 TiB", 1536),
            ("8tib", 8192),
            ("2T", 2048),
        ] {
            assert_eq!(size_gib("--demand", text).ok(), Some(gib), "{text}");
        }
        for wrong in [
            "", "256", "GiB", "0GiB", "0.5GiB", "-1TiB", "1e9TiB", "NaNGiB", "4GB",
        ] {
            assert!(size_gib("--demand", wrong).is_err(), "{wrong}");
        }
    }
}
