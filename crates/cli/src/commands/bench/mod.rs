//! `tierloom bench`: runs workload files and writes records.
//!
//! Files become plans ([`tierloom_bench::file`]). `--dry-run` prints them; [`session`] runs them
//! one after another on this machine and, through [`hosts`], on others, where [`agent`] serves.

pub mod agent;
mod args;
mod failures;
mod hosts;
mod output;
mod progress;
mod published;
mod session;

pub use args::Args;

use crate::failure::Failure;
use published::Figures;
use tierloom_bench::file::{LoadOptions, Workloads, load};
use tierloom_bench::plan::RunPlan;
use tierloom_bench::run::Host;

/// Serves as an agent, or loads, checks and runs the plans.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.agent.agent {
        return agent::serve(args);
    }
    args.check()?;
    let mut workloads = workloads(args)?;
    args.check_sources(&workloads.runs)?;
    let mut host = Host::look().map_err(Failure::runtime)?;
    host.overwrite = args.overwrite;
    // Every plan is checked before the first one runs: a mistake in the last must not show up hours
    // later.
    let left_out = published::left_out(&workloads, &host)?;
    hosts::check(&workloads)?;
    let publications = match workloads.published.is_empty() {
        true => Vec::new(),
        false => Figures::builtin()?.records(&workloads, &left_out, args.scale()?)?,
    };
    published::take_out(&mut workloads, &left_out)?;
    if args.dry_run {
        return output::dry_run(&workloads.runs, args.json);
    }
    session::run(args, &workloads, publications, &host)
}

/// The plans from all workload files, or from a file of records.
fn workloads(args: &Args) -> Result<Workloads, Failure> {
    let options = LoadOptions {
        overrides: args.overrides()?,
        only: args.only.clone(),
        scale: args.scale()?,
        ..LoadOptions::default()
    };
    let mut workloads = if let Some(path) = &args.plan {
        Workloads {
            runs: chosen(saved_plans(path)?, &args.only)?,
            ..Workloads::default()
        }
    } else {
        load(&args.files, &options).map_err(Failure::input)?
    };
    for plan in &mut workloads.runs {
        args.adjust(plan);
    }
    if workloads.runs.is_empty() {
        return Err(Failure::input("no runs: --only left none of the workloads"));
    }
    Ok(workloads)
}

/// The plans of the workloads named `only`; all plans if it is empty.
fn chosen(mut plans: Vec<RunPlan>, only: &[String]) -> Result<Vec<RunPlan>, Failure> {
    if let Some(unknown) = only
        .iter()
        .find(|name| !plans.iter().any(|plan| plan.workload == **name))
    {
        return Err(Failure::input(format!(
            "--only {unknown}: no saved plan is of a workload of this name"
        )));
    }
    plans.retain(|plan| only.is_empty() || only.contains(&plan.workload));
    Ok(plans)
}

/// The plans in a file of records, each once: repeated runs share a plan.
fn saved_plans(path: &std::path::Path) -> Result<Vec<RunPlan>, Failure> {
    let set = tierloom_record::RecordSet::read(path)?;
    let mut plans: Vec<RunPlan> = Vec::new();
    for record in &set.benches {
        let plan: RunPlan = serde_json::from_value(record.plan.clone()).map_err(|error| {
            Failure::input(format!(
                "{}: the plan of run {} cannot be read: {error}",
                path.display(),
                record.run_id
            ))
        })?;
        if !plans.iter().any(|known| known.id == plan.id) {
            plans.push(plan);
        }
    }
    Ok(plans)
}
