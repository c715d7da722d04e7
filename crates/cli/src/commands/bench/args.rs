//! Command line arguments of `tierloom bench`, and the checks that need no other file.

use crate::failure::Failure;
use crate::output;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tierloom_bench::plan::{RunPlan, UntilStable};

/// Measure memory: run workload files on any tier, with latencies, bandwidths and an audit of page
/// locations
///
/// A workload file is YAML with `matrix:` and `args:`, the format of CXL-Bench, whose files run
/// unchanged. `examples/bench` has some, docs/bench-files.md lists all keys. Each run writes one
/// record (JSON line) with everything needed to repeat it.
#[derive(clap::Args)]
pub struct Args {
    /// Workload files, folders of them, or - for standard input
    #[arg(value_name = "FILE.yaml", required_unless_present_any = ["agent", "plan"])]
    pub files: Vec<PathBuf>,
    /// Run the plans in a file of records again instead of workload files
    #[arg(long, value_name = "RECORDS.jsonl", conflicts_with_all = ["files", "set"])]
    pub plan: Option<PathBuf>,
    /// Run only these workloads, by name
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Override a key of all workloads, as in --set memory=cxl; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Factor on the sizes of all structures, as in 1/64 or 0.01; fanouts, skips and sizes of nodes
    /// stay
    #[arg(long, value_name = "FACTOR", conflicts_with = "plan")]
    pub scale: Option<String>,
    /// Timed repetitions per run, overriding the files
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// Repeat each run until its median is known to within this, as in 2%
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "2%")]
    pub until_stable: Option<String>,
    /// With --until-stable: stop after this many repetitions
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub max_repeat: u32,
    /// Print the resolved runs with an estimate of time and memory, without running them
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document instead of tables
    #[arg(long, conflicts_with = "jsonl")]
    pub json: bool,
    /// Print each record as a JSON line as soon as it is complete
    #[arg(long)]
    pub jsonl: bool,
    /// Also write the records to FILE, each as soon as it is complete
    #[arg(long, value_name = "FILE.jsonl")]
    pub records: Option<PathBuf>,
    /// Keep the raw values of each repetition in the records: times, operations and bytes of each
    /// thread
    #[arg(long)]
    pub samples: bool,
    /// Continue with --records FILE: skip runs that have a valid record there
    #[arg(long, requires = "records")]
    pub resume: bool,
    /// Also write a table of all figures to FILE
    #[arg(long, value_name = "FILE.csv")]
    pub csv: Option<PathBuf>,
    /// Also write an HTML report to FILE
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Allow workloads on existing files, whose contents are overwritten
    #[arg(long)]
    pub overwrite: bool,
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// Options for runs on several hosts
#[derive(clap::Args)]
pub struct AgentArgs {
    /// Serve as an agent: run the tasks that a coordinator on another host requests
    #[arg(long, conflicts_with_all = ["files", "plan", "records", "report", "csv", "dry_run"], help_heading = "Several hosts")]
    pub agent: bool,
    /// Address and port that the agent listens on; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:7171",
        help_heading = "Several hosts"
    )]
    pub listen: SocketAddr,
    /// Name of the agent; default: the host name
    #[arg(long, value_name = "NAME", help_heading = "Several hosts")]
    pub name: Option<String>,
    /// File with the token shared by agent and coordinator; default: $TIERLOOM_TOKEN or
    /// ~/.config/tierloom/token
    #[arg(long, value_name = "FILE", help_heading = "Several hosts")]
    pub token_file: Option<PathBuf>,
    /// Agent: read the token from the first line of standard input and exit when it is closed (for
    /// starting by ssh)
    #[arg(
        long,
        requires = "agent",
        conflicts_with = "token_file",
        help_heading = "Several hosts"
    )]
    pub token_stdin: bool,
    /// Agent: TLS certificate, PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        help_heading = "Several hosts"
    )]
    pub tls_cert: Option<PathBuf>,
    /// Agent: private key of the certificate, PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "Several hosts"
    )]
    pub tls_key: Option<PathBuf>,
    /// Coordinator: certificate that signed the agents' certificates (or is theirs), PEM
    #[arg(long, value_name = "FILE", help_heading = "Several hosts")]
    pub tls_ca: Option<PathBuf>,
    /// Allow unencrypted connections to other machines: anyone who reads the traffic learns the
    /// token
    #[arg(long = "allow-plain-remote", help_heading = "Several hosts")]
    pub allow_plain: bool,
}

impl Args {
    /// Checks everything that can be checked before a file is read.
    ///
    /// # Errors
    /// Bad input.
    pub fn check(&self) -> Result<(), Failure> {
        // Parsed here only for its error; `adjust` parses it again.
        self.until_stable()?;
        self.scale()?;
        let inputs = self.files.iter().chain(&self.plan);
        let inputs: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
        output::check_outputs(&self.outputs(), &inputs)?;
        if self.repeat == Some(0) {
            return Err(Failure::input("--repeat 0: expected 1 or more"));
        }
        Ok(())
    }

    /// Refuses an output file that `plans` were read from, including files found in a folder.
    ///
    /// # Errors
    /// Bad input naming the file.
    pub fn check_sources(&self, plans: &[RunPlan]) -> Result<(), Failure> {
        let sources: BTreeSet<&str> = plans.iter().map(|plan| plan.file.as_str()).collect();
        let sources: Vec<&Path> = sources.into_iter().map(Path::new).collect();
        output::check_outputs(&self.outputs(), &sources)
    }

    /// Output files with their options.
    fn outputs(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--records", self.records.as_deref()),
            ("--csv", self.csv.as_deref()),
            ("--report", self.report.as_deref()),
        ]
    }

    /// `--set` as pairs of key and value.
    ///
    /// # Errors
    /// Bad input: an argument without an equals sign.
    pub fn overrides(&self) -> Result<Vec<(String, String)>, Failure> {
        self.set
            .iter()
            .map(|text| {
                text.split_once('=')
                    .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
                    .ok_or_else(|| Failure::input(format!("--set {text}: expected KEY=VALUE")))
            })
            .collect()
    }

    /// The factor on the sizes of structures; 1 unless given.
    ///
    /// # Errors
    /// Bad input: not a factor above 0 and at most 1.
    pub fn scale(&self) -> Result<f64, Failure> {
        let given = self.scale.as_deref().map(tierloom_bench::file::scale);
        let scale = given.transpose();
        let scale = scale.map_err(|problem| Failure::input(format!("--scale {problem}")))?;
        Ok(scale.unwrap_or(1.0))
    }

    /// Applies the options that override the files.
    pub fn adjust(&self, plan: &mut RunPlan) {
        if let Some(repeat) = self.repeat {
            plan.repeat = repeat;
        }
        if let Ok(Some(relative_half_width)) = self.until_stable() {
            plan.until_stable = Some(UntilStable {
                relative_half_width,
                max_repeat: self.max_repeat.max(plan.repeat),
            });
        }
        // The identifier is derived from the plan, and --resume finds finished runs by it.
        *plan = plan.clone().with_id();
    }

    fn until_stable(&self) -> Result<Option<f64>, Failure> {
        let Some(text) = &self.until_stable else {
            return Ok(None);
        };
        let percent: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
        match percent {
            Some(percent) if percent > 0.0 && percent <= 100.0 => Ok(Some(percent / 100.0)),
            _ => Err(Failure::input(format!(
                "--until-stable {text}: expected per cent above 0, as in 2%"
            ))),
        }
    }
}
