//! `tierloom characterize`: measures this machine and writes a machine profile.
//!
//! What is measured and how numbers follow from it is in `tierloom_bench::characterize`; this file
//! has the arguments, the progress and the output.

use crate::failure::Failure;
use crate::invocation::open_session;
use crate::output;
use crate::stop::UntilStopped;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::Duration;
use tierloom_bench::characterize::{
    CharacterizeError, CharacterizeOptions, Depth, Progress, characterize, plan,
};
use tierloom_bench::run::Host;
use tierloom_memory::PageSize;
use tierloom_model::Machine;
use tierloom_record::RecordSet;
use tierloom_topology::IdSet;

/// Measure every memory path of this machine and write a machine profile for --machine
///
/// The quick mode takes about a minute on a small machine; --full measures more thread counts,
/// loads and footprints.
#[derive(clap::Args)]
pub struct Args {
    /// Write the profile to this file
    #[arg(short, long, value_name = "MACHINE.yaml")]
    output: PathBuf,
    /// Use more thread counts, loads and footprints, and longer repetitions
    #[arg(long)]
    full: bool,
    /// Name of the profile; default: the host name
    #[arg(long)]
    name: Option<String>,
    /// Nodes whose cores access memory, the profile being for the first; default: all with CPUs
    #[arg(long, value_name = "NODES")]
    initiators: Option<IdSet>,
    /// Nodes whose memory is accessed; default: all with memory
    #[arg(long, value_name = "NODES")]
    targets: Option<IdSet>,
    /// Page size: 4k, thp, 2m or 1g; default: thp where the system allows it
    #[arg(long, value_name = "SIZE")]
    pages: Option<String>,
    /// Size of a region in MiB; default: from the sizes of caches and free memory
    #[arg(long, value_name = "MIB")]
    region: Option<u64>,
    /// Also write a record of every run to FILE
    #[arg(long, value_name = "FILE.jsonl")]
    records: Option<PathBuf>,
    /// Print what would be measured, without measuring
    #[arg(long)]
    dry_run: bool,
}

/// Measures the machine and writes profile and records.
pub fn run(args: &Args) -> Result<(), Failure> {
    let outputs = [
        ("--records", args.records.as_deref()),
        ("--output", Some(args.output.as_path())),
    ];
    output::check_outputs(&outputs, &[])?;
    let options = options(args)?;
    let host = Host::look().map_err(Failure::runtime)?;
    if args.dry_run {
        let probes = plan(&host, &options).map_err(failure)?;
        let lines: Vec<String> = probes
            .iter()
            .map(|probe| format!("{}\n", probe.words()))
            .collect();
        return output::print(&format!("{}{} probes\n", lines.concat(), lines.len()));
    }
    let bar = bar();
    let mut tell = |progress: &Progress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        let left = progress
            .left
            .map(|left| format!("{} s left", left.as_secs()))
            .unwrap_or_default();
        bar.set_message(format!("{left}  {}", progress.what));
    };
    let made = characterize(&host, &options, &open_session(), &UntilStopped, &mut tell);
    bar.finish_and_clear();
    // The bar is gone by now, so that it does not mix with an error message.
    let made = made.map_err(failure)?;
    if let Some(path) = &args.records {
        let set = RecordSet {
            benches: made.records.clone(),
            ..RecordSet::default()
        };
        output::write_records(path, &set)?;
    }
    let yaml = made.machine.to_yaml().map_err(Failure::runtime)?;
    output::write_file(&args.output, yaml.as_bytes())?;
    output::print(&summary(&made.machine))
}

fn options(args: &Args) -> Result<CharacterizeOptions, Failure> {
    let nodes = |set: &Option<IdSet>| set.iter().flat_map(IdSet::iter).collect::<Vec<u32>>();
    let page_size: Option<PageSize> = args
        .pages
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(Failure::input)?;
    Ok(CharacterizeOptions {
        depth: if args.full { Depth::Full } else { Depth::Quick },
        name: args.name.clone(),
        initiators: nodes(&args.initiators),
        targets: nodes(&args.targets),
        page_size,
        region_bytes: args.region.map(|mib| mib.saturating_mul(1 << 20)),
    })
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{pos}/{len}  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// The bandwidths and latencies of the tiers, as the first check of a new profile.
fn summary(machine: &Machine) -> String {
    let mut text = format!("{}: {}\n", machine.name, machine.title);
    let range = |value: &tierloom_model::Value| match (value.low, value.high) {
        (Some(low), Some(high)) => format!("{} ({low} to {high})", value.value),
        _ => format!("{} ({})", value.value, value.kind),
    };
    for tier in &machine.tiers {
        text += &format!(
            "{}: read {} GB/s, write {} GB/s, idle latency {} ns\n",
            tier.name,
            range(&tier.read_gbps),
            range(&tier.write_gbps),
            range(&tier.idle_latency_ns)
        );
    }
    text + "measured here\n"
}

fn failure(error: CharacterizeError) -> Failure {
    match error {
        CharacterizeError::Stopped => Failure::Interrupted(error.to_string()),
        error if error.is_bad_input() => Failure::input(error),
        error => Failure::runtime(error),
    }
}
