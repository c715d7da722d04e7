//! `tierloom pool`: makes and examines pools.

pub mod access;
mod args;
mod blocks;
#[cfg_attr(not(feature = "sql"), path = "no_load.rs")]
mod load;
mod render;
mod resize;
mod serve;

use crate::failure::Failure;
use crate::output;
pub use args::Args;
use args::{ChangeArgs, CheckArgs, CreateArgs, DropArgs, FenceArgs, PoolCommand, TakeoverArgs};
use std::path::{Path, PathBuf};
use tierloom_pool::{CreateOptions, Pool, PoolError, PoolStatus, RegionState};

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error.is_bad_input() {
            true => Failure::input(error),
            false => Failure::runtime(error),
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        PoolCommand::Create(args) => create(args),
        PoolCommand::Status(args) => show(&Pool::inspect(&args.pool)?, args.json),
        PoolCommand::Load(args) => load::run(args),
        PoolCommand::Check(args) => check(args),
        PoolCommand::Grow(args) => resize::grow(args),
        PoolCommand::Shrink(args) => resize::shrink(args),
        PoolCommand::Drop(args) => drop_table(args),
        PoolCommand::Fence(args) => fence(args),
        PoolCommand::Takeover(args) => take_over(args),
        PoolCommand::Serve(args) => serve::run(args),
        PoolCommand::Blocks(args) => blocks::run(args),
    }
}

fn show(status: &PoolStatus, json: bool) -> Result<(), Failure> {
    if json {
        output::print_json(status)
    } else {
        output::print(&render::status(status))
    }
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    let Some((first, further)) = args.paths.split_first() else {
        return Err(Failure::input("name at least one file or device"));
    };
    let further: Vec<&Path> = further.iter().map(PathBuf::as_path).collect();
    let is_new = |path: &&Path| !path.exists() || path.is_file();
    let mut all = std::iter::once(first.as_path()).chain(further.iter().copied());
    if let Some(file) = all.find(is_new).filter(|_| args.size.is_none()) {
        let file = file.display();
        return Err(Failure::input(format!(
            "{file}: --size says how large the file shall be"
        )));
    }
    let options = CreateOptions {
        file_bytes: args.size.map_or(0, |size| size.0),
        coherence: args.coherence.map(args::CoherenceArg::value),
        overwrite: args.force,
    };
    let plan = options.plan(first, &further)?;
    if args.change.dry_run {
        if args.change.json {
            return output::print_json(&plan);
        }
        return output::print(&render::plan(&plan));
    }
    let pool = Pool::create(
        first,
        &further,
        &options,
        &args.change.manager.access().options,
    )?;
    show(&pool.status(), args.change.json)
}

/// Opens the pool, changes it and shows it; with `--dry-run` says what would be done.
fn change(
    path: &Path,
    args: &ChangeArgs,
    what: &str,
    make: impl FnOnce(&Pool) -> Result<(), PoolError>,
) -> Result<(), Failure> {
    if args.dry_run {
        return output::print(&format!("would {what}\n"));
    }
    let pool = args.manager.access().open(path)?;
    make(&pool)?;
    show(&pool.status(), args.json)
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    let mut status = Pool::inspect(&args.pool)?;
    if args.data && status.problems.is_empty() {
        let pool = args.manager.access().open(&args.pool)?;
        status = pool.status();
        let sealed = |state| state == RegionState::Sealed;
        let tables = status.regions.iter().filter(|r| sealed(r.state));
        let wrong = tables.filter_map(|table| {
            let checked = pool
                .attach(&table.name)
                .and_then(|table| table.verify_all());
            checked.err().map(|error| error.to_string())
        });
        let wrong: Vec<String> = wrong.collect();
        status = pool.status();
        status.problems = wrong;
    }
    show(&status, args.json)?;
    match status.problems.len() {
        0 => Ok(()),
        n => Err(Failure::runtime(format!(
            "{}: problems found: {n}",
            args.pool.display()
        ))),
    }
}

fn drop_table(args: &DropArgs) -> Result<(), Failure> {
    let status = Pool::inspect(&args.pool)?;
    let tables = status
        .regions
        .iter()
        .filter(|r| r.state == RegionState::Sealed);
    let names: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
    if !names.contains(&args.table.as_str()) {
        let error = PoolError::UnknownTable {
            name: args.table.clone(),
            existing: listed(&names),
        };
        return Err(error.into());
    }
    let what = format!("drop table `{}` of {}", args.table, args.pool.display());
    change(&args.pool, &args.change, &what, |pool| {
        pool.drop_table(&args.table)
    })
}

fn fence(args: &FenceArgs) -> Result<(), Failure> {
    let status = Pool::inspect(&args.pool)?;
    let names: Vec<&str> = status.hosts.iter().map(|host| host.name.as_str()).collect();
    if !names.contains(&args.fenced.as_str()) {
        let error = PoolError::UnknownHost {
            name: args.fenced.clone(),
            existing: listed(&names),
        };
        return Err(error.into());
    }
    let effect = match args.confirmed_down {
        true => "free all that it had",
        false => "put what it was writing into quarantine",
    };
    let what = format!("fence host `{}` and {effect}", args.fenced);
    change(&args.pool, &args.change, &what, |pool| {
        pool.fence(&args.fenced, args.confirmed_down)
    })
}

fn take_over(args: &TakeoverArgs) -> Result<(), Failure> {
    let status = Pool::inspect(&args.pool)?;
    let home = status.hosts.iter().find(|host| host.home);
    let from = home.map_or("nobody", |host| host.name.as_str());
    if args.change.dry_run {
        let pool = args.pool.display();
        return output::print(&format!("would take {pool} over from {from}\n"));
    }
    let mut options = args.change.manager.access().options;
    options.take_over = true;
    let pool = options.open(&args.pool)?;
    show(&pool.status(), args.change.json)
}

fn listed(names: &[&str]) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}
