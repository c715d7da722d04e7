//! Command line arguments of `tierloom predict`; terms and background load are parsed here too.

use crate::failure::Failure;
use crate::works;
use std::path::PathBuf;
use tierloom_model::{Background, Options, Terms};

/// Model work on a machine and placement: throughput, load of each tier, bottleneck, and what
/// decides them
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["work", "query", "phases"]))]
pub struct Args {
    #[command(subcommand)]
    pub workload: Option<PredictCommand>,
    /// Machine profiles: names (see `tierloom machines`) or paths of YAML files
    #[arg(
        long,
        required = true,
        value_delimiter = ',',
        value_name = "NAME|FILE.yaml"
    )]
    pub machine: Vec<String>,
    /// A benchmark: a name (read, write, nt-write, copy, random, chase, build, probe, filter,
    /// partition, scan, aggregate, tree, ssb), optionally with parameters
    /// (probe:table_bytes=16GiB,prefetched=true), or a YAML file
    #[arg(long, value_name = "NAME[:KEY=VALUE,..]|FILE.yaml")]
    pub work: Option<String>,
    /// A recorded query; requires --from
    #[arg(long, requires = "from", value_name = "QUERY")]
    pub query: Option<String>,
    /// Records of a run (`tierloom run ssb --records FILE`)
    #[arg(long, requires = "query", value_name = "RECORDS.jsonl")]
    pub from: Option<PathBuf>,
    /// A list of the model's phases, YAML or JSON
    #[arg(long, value_name = "FILE.yaml|FILE.json")]
    pub phases: Option<String>,
    /// Where data is placed: a tier, weights (3:2 or dram:3,cxl:2), contiguous parts
    /// (dram=60%,cxl=40%, modelled by the share of each tier), or by structure or class
    /// (table=cxl,default=dram; hash-table=3:2); default: all on the first tier
    #[arg(long, value_name = "PLACEMENT")]
    pub placement: Option<String>,
    /// Another placement to compare with
    #[arg(long, value_name = "PLACEMENT")]
    pub versus: Option<String>,
    /// Workers, at most one per hardware thread of the machine; default: one per core
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub workers: Option<u32>,
    /// Load of other programs on a tier in GB/s; `own` is this work's share of the tier when both
    /// together need more than it has
    #[arg(long, value_name = "TIER:read=N[,write=N][,own=SHARE]")]
    pub background: Vec<String>,
    /// Terms of the model to switch off
    #[arg(long, value_delimiter = ',', value_name = "TERM")]
    pub off: Vec<String>,
    /// Show the effect of making each number of the machine 10% smaller or larger, and of each term
    /// of the model, on the throughput (with --versus, on the gain)
    #[arg(long)]
    pub sensitivity: bool,
    /// With --sensitivity: show all numbers, not only the ten with the largest effect
    #[arg(long, requires = "sensitivity")]
    pub all: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Predictions for whole workloads
#[derive(clap::Subcommand)]
pub enum PredictCommand {
    /// Model TPC-H streams with DRAM limited to a share of the tables
    Tpch(super::tpch::Args),
    /// Compare the adaptive controller with published tiering policies on simulated machines
    Policies(super::policies::Args),
    /// Make the decisions of a log (`tierloom run ... --placement adaptive --decisions FILE`) again
    /// and report differences
    Replay(super::replay::Args),
}

impl Args {
    /// The model's options: terms that are on, and background load.
    ///
    /// # Errors
    /// Bad input: an unknown term, or an incomplete background load.
    pub fn options(&self) -> Result<Options, Failure> {
        let mut terms = Terms::default();
        let names = || Terms::SWITCHES.iter().map(|(name, _)| *name);
        for name in &self.off {
            match Terms::SWITCHES.iter().find(|(known, _)| known == name) {
                Some((_, off)) => off(&mut terms),
                None => {
                    return Err(Failure::input(format!(
                        "the model has no term {name:?}: {}it has {}",
                        works::did_you_mean(name, names()),
                        names().collect::<Vec<_>>().join(", ")
                    )));
                }
            }
        }
        let background = self.background.iter().map(|text| background(text));
        Ok(Options {
            terms,
            background: background
                .collect::<Result<_, _>>()
                .map_err(Failure::input)?,
            ..Options::default()
        })
    }
}

/// Parses `cxl:read=40,write=5,own=0.5`.
fn background(text: &str) -> Result<Background, String> {
    let wrong = |problem: String| {
        format!(
            "--background {text}: {problem}; expected TIER:read=GB/s, with write=GB/s and own=SHARE if need be, such as cxl:read=40"
        )
    };
    let (tier, loads) = text
        .split_once(':')
        .ok_or_else(|| wrong("no load is given".into()))?;
    let mut found = Background::reads(tier.trim(), 0.0);
    for load in loads.split(',') {
        let (key, value) = load
            .split_once('=')
            .ok_or_else(|| wrong(format!("{load:?} is no KEY=VALUE")))?;
        let number = value.trim().parse::<f64>().ok().filter(|x| x.is_finite());
        let number = number.ok_or_else(|| wrong(format!("{value:?} is no number")))?;
        let (place, possible) = match key.trim() {
            "read" => (&mut found.read_gbps, number >= 0.0),
            "write" => (&mut found.write_gbps, number >= 0.0),
            "own" => (&mut found.own_share, number > 0.0 && number < 1.0),
            other => return Err(wrong(format!("{other:?} is not known"))),
        };
        if !possible {
            return Err(wrong(format!("{key} cannot be {value}")));
        }
        *place = number;
    }
    // A load of 0 is more likely a forgotten rate than a wish for none.
    if found.read_gbps + found.write_gbps == 0.0 {
        return Err(wrong("the load is 0".into()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::background;

    #[test]
    fn a_load_says_tier_and_rates_and_nothing_else() {
        let load = background("cxl:read=40,write=5,own=0.25").unwrap();
        assert_eq!((load.tier.as_str(), load.read_gbps), ("cxl", 40.0));
        assert_eq!((load.write_gbps, load.own_share), (5.0, 0.25));
        for bad in [
            "cxl",
            "cxl:40",
            "cxl:reed=4",
            "cxl:read=-1",
            "cxl:read=x",
            "cxl:read=1,own=1",
            "cxl:read=0",
            "cxl:read=inf",
        ] {
            let message = background(bad).unwrap_err();
            assert!(
                message.contains(bad) && message.contains("such as cxl:read=40"),
                "{message}"
            );
        }
    }
}
