//! Command line arguments of `tierloom tune`, and the combinations that clap cannot refuse.

use crate::failure::Failure;
use crate::output;
use std::path::PathBuf;
use tierloom_topology::{SysRoot, Topology};

/// What `--prefetchers` does
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Prefetchers {
    /// Show what the registers hold
    Show,
    /// Switch all on
    On,
    /// Switch all off
    Off,
}

/// Find the best weights of memory tiers for each phase of work, with the model or by measuring,
/// and set them
///
/// Without --measure every figure is modelled on --machine. --apply only prints what it would write
/// unless --yes is added; the old state is saved first, and --restore brings it back.
#[derive(clap::Args)]
pub struct Args {
    /// Phases: scan, read, write, nt-write, copy, filter, build, probe, partition, aggregate,
    /// random, tree, chase, ssb, optionally with parameters
    /// (probe:table_bytes=4GiB,prefetched=true); default: the usual eight. With --measure, sizes
    /// are those of --region
    #[arg(value_name = "PHASE")]
    pub phases: Vec<String>,
    /// Machine profiles (names or YAML files) to model on; with --measure, the starting point of
    /// the search
    #[arg(short, long, value_name = "MACHINE", value_delimiter = ',')]
    pub machine: Vec<String>,
    /// Workers, when modelled at most one per hardware thread; default: one per core
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// Tiers to spread over ("dram,cxl"), the first being where everything is placed otherwise; or
    /// this machine's nodes by tier ("dram=0,1;cxl=2-5")
    #[arg(long, value_name = "TIERS")]
    pub tiers: Option<String>,
    /// Spread only these structures (input, output, table, ...) or classes (column, hash-table,
    /// ...); the others stay on the first tier
    #[arg(
        long,
        value_name = "STRUCTURES",
        value_delimiter = ',',
        conflicts_with = "measure"
    )]
    pub moved: Vec<String>,
    /// File that describes a phase: `probe: { table_bytes: 16e9 }`
    #[arg(long, value_name = "FILE.yaml")]
    pub work: Vec<String>,
    /// Also print the rate at every share
    #[arg(long)]
    pub curve: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write a record of every phase (and of every measured run) to FILE
    #[arg(long, value_name = "FILE.jsonl")]
    pub records: Option<PathBuf>,
    /// Write a report with the curves to FILE
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Measure on the tiers of this machine, guided by the model
    #[arg(long)]
    pub measure: bool,
    /// Limit on measured points per phase
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(3..=100))]
    pub points: u32,
    /// Page size: 4k, thp, 2m or 1g; default: thp where the system allows it
    #[arg(long, value_name = "SIZE", requires = "measure")]
    pub pages: Option<String>,
    /// Size of the measured region in MiB; default: from the sizes of caches and free memory
    #[arg(long, value_name = "MIB", requires = "measure")]
    pub region: Option<u64>,
    /// Duration of one repetition in seconds; operators make one pass instead
    #[arg(long, value_name = "S", requires = "measure")]
    pub seconds: Option<f64>,
    /// Repetitions of each point
    #[arg(long, value_name = "N", requires = "measure", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: Option<u32>,
    /// Set the weights of the tuned phase in the kernel and write the files for an engine; without
    /// --yes, only print what would be written
    #[arg(long)]
    pub apply: bool,
    /// Phase whose weights the kernel gets, if several were tuned
    #[arg(long, value_name = "PHASE", requires = "apply")]
    pub phase: Option<String>,
    /// Set these weights ("3:2" or "dram:3,cxl:2") instead of tuned ones
    #[arg(long, value_name = "WEIGHTS", requires = "apply", conflicts_with_all = ["phases", "machine", "measure", "work", "config", "env_file", "records", "report"])]
    pub weights: Option<String>,
    /// Restore the kernel's weights from before --apply and the prefetchers from before
    /// --prefetchers; without --yes, only print what would be written
    #[arg(long, conflicts_with_all = ["phases", "machine", "measure", "apply", "work", "records", "report"])]
    pub restore: bool,
    /// Show which hardware prefetchers of this machine are on, or switch all of them on or off;
    /// without --yes, only print what would be written
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with_all = ["phases", "machine", "measure", "apply", "restore", "work", "records", "report"])]
    pub prefetchers: Option<Prefetchers>,
    /// Write the changes instead of only printing them
    #[arg(long)]
    pub yes: bool,
    /// Allow switching off the kernel's automatic weights, which follow the bandwidths that
    /// firmware reports
    #[arg(long, requires = "apply")]
    pub auto_off: bool,
    /// Do not change the kernel; write only --config and --env-file
    #[arg(long, requires = "apply", conflicts_with = "weights")]
    pub no_kernel: bool,
    /// File that the old weights are saved in; prefetchers are saved in the same folder
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Write the weights of all tuned phases for an engine to FILE
    #[arg(long, value_name = "FILE.yaml", requires = "apply")]
    pub config: Option<PathBuf>,
    /// Write shell lines that export the weights to FILE
    #[arg(long, value_name = "FILE", requires = "apply")]
    pub env_file: Option<PathBuf>,
    /// Read and write system files under DIR instead of / (a recorded tree)
    #[arg(long, value_name = "DIR", conflicts_with = "measure")]
    pub sysroot: Option<PathBuf>,
}

impl Args {
    /// Checks combinations of options that clap cannot express.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |text: &str| Err(Failure::input(text));
        if self.yes && !self.apply && !self.restore && self.prefetchers.is_none() {
            return wrong("--yes goes with --apply, --restore or --prefetchers");
        }
        if self.apply && !self.measure && self.weights.is_none() && self.machine.len() > 1 {
            return wrong("--apply takes weights of one machine; name one with --machine");
        }
        if self.measure && self.machine.len() > 1 {
            return wrong("--measure starts from one profile; name one with --machine, or none");
        }
        if self.no_kernel && self.config.is_none() && self.env_file.is_none() {
            return wrong(
                "--no-kernel leaves nothing to do; add --config FILE.yaml or --env-file FILE",
            );
        }
        if let Some(seconds) = self.seconds
            && !(seconds.is_finite() && seconds > 0.0)
        {
            return Err(Failure::input(format!(
                "--seconds {seconds}: expected more than 0"
            )));
        }
        // Last, because it looks at the file system.
        self.check_files()
    }

    fn check_files(&self) -> Result<(), Failure> {
        let outputs = [
            ("--records", self.records.as_deref()),
            ("--report", self.report.as_deref()),
            ("--config", self.config.as_deref()),
            ("--env-file", self.env_file.as_deref()),
        ];
        output::check_outputs(&outputs, &[])
    }

    /// The root that system files are read and written under.
    pub fn root(&self) -> SysRoot {
        self.sysroot
            .as_deref()
            .map_or_else(SysRoot::host, SysRoot::at)
    }

    /// Names of the tiers; without the nodes, if those were given.
    pub fn tier_names(&self) -> Vec<String> {
        let Some(text) = &self.tiers else {
            return Vec::new();
        };
        // In `dram=0,1;cxl=2-5` a comma separates nodes, so tiers are separated otherwise.
        let separators: &[char] = if text.contains('=') {
            &[';', ' ']
        } else {
            &[',']
        };
        let names = text
            .split(separators)
            .filter_map(|part| part.split('=').next());
        let names = names.map(|name| name.trim().to_ascii_lowercase());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Assigns nodes to the tiers of `topology` if `--tiers` lists nodes.
    pub fn name_tiers(&self, topology: &mut Topology) -> Result<(), Failure> {
        match &self.tiers {
            Some(text) if text.contains('=') => {
                topology.override_tiers(text).map_err(Failure::input)
            }
            _ => Ok(()),
        }
    }

    /// Reads the machine that weights are set on.
    pub fn topology(&self) -> Result<Topology, Failure> {
        let mut topology = Topology::read(&self.root()).map_err(|error| {
            // A recorded tree is the user's input; the machine's own files are not.
            if self.sysroot.is_some() {
                Failure::input(error)
            } else {
                Failure::runtime(error)
            }
        })?;
        self.name_tiers(&mut topology)?;
        Ok(topology)
    }
}
