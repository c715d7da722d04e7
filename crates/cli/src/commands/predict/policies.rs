//! `tierloom predict policies`: the controller against published tiering policies.
//!
//! All run on simulated machines that are drawn around a profile; nothing is measured.

use crate::failure::Failure;
use crate::output;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use tierloom_model::Machine;
use tierloom_placement::tiering::{POLICIES, WORKS, WorkSummary, compare};
use tierloom_predict::works::did_you_mean;
use tierloom_suite::machine;

/// Name and version of the document's format.
const SCHEMA: &str = "tierloom-policies/1";

/// Model what first touch, fixed weights, TPP, Colloid, SOAR, flat memory mode and the adaptive
/// controller make of a workload, on machines drawn around a profile
#[derive(clap::Args)]
pub struct Args {
    /// Machine profiles: names (see `tierloom machines`) or paths of YAML files
    #[arg(
        long,
        required = true,
        value_delimiter = ',',
        value_name = "NAME|FILE.yaml"
    )]
    machine: Vec<String>,
    /// A workload (scan, filter, build, probe, chase, partition, aggregate, tree, ssb, tpch, "ssb,
    /// tenant on dram", "ssb, tenant on cxl"), repeated for several; default: all
    #[arg(long, value_name = "NAME")]
    work: Vec<String>,
    /// Machines per profile and workload
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    machines: u64,
    /// Seed of the machines and of all noise
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
}

/// Simulates all policies and prints their times.
pub fn run(args: &Args) -> Result<(), Failure> {
    let works: Vec<&str> = match args.work.is_empty() {
        true => WORKS.to_vec(),
        false => args.work.iter().map(String::as_str).collect(),
    };
    for work in &works {
        if !WORKS.contains(work) {
            return Err(Failure::input(format!(
                "there is no workload {work:?}: {}known are {}",
                did_you_mean(work, WORKS.into_iter()),
                WORKS.map(|w| format!("{w:?}")).join(", ")
            )));
        }
    }
    let profiles = args.machine.iter().map(|name| machine::load(name));
    let profiles = profiles.collect::<Result<Vec<Machine>, _>>()?;
    let rows = compare(&profiles, &works, args.machines, args.seed).map_err(Failure::input)?;
    if args.json {
        return output::print_json(&json!({
            "schema": SCHEMA,
            "provenance": tierloom_record::Provenance::Modelled,
            "tool_version": env!("CARGO_PKG_VERSION"),
            "machines": args.machine,
            "machines_per_profile": args.machines,
            "seed": args.seed,
            "works": rows,
        }));
    }
    output::print(&text(args, &rows))
}

fn text(args: &Args, rows: &[WorkSummary]) -> String {
    let cell = |mean: f64, worst: f64| format!("{mean:.2} ({worst:.2})");
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(std::iter::once("").chain(POLICIES));
    for row in rows {
        let cells = row.policies.iter().map(|p| cell(p.mean, p.worst));
        table.add_row(std::iter::once(row.work.clone()).chain(cells));
    }
    if let Some(all) = rows.last() {
        let cells = all
            .policies
            .iter()
            .map(|p| format!("{:.2}", p.with_learning));
        table.add_row(std::iter::once("all, with learning".to_owned()).chain(cells));
    }
    for column in 1..=POLICIES.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "modelled: time over that of the best static placement of each phase, geometric mean (worst),\n{} machines around each of {}, seed {}\n\n{table}\n",
        args.machines,
        args.machine.join(", "),
        args.seed
    )
}
