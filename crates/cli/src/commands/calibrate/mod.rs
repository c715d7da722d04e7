//! `tierloom calibrate`.

mod files;
mod records;
mod show;

use crate::commands::validate::load;
use crate::failure::Failure;
use crate::output;
use files::Files;
use std::path::{Path, PathBuf};
use tierloom_calibrate::{Calibration, FigureFile, Fit, check_fitted, fit};
use tierloom_record::atomic_write;

/// Fit machine profiles to published figures or to measured runs
///
/// With calibration files: only figures of role `fitted` enter, and each has to depend on a
/// parameter. Profiles and constants are changed in place (or written into the folder
/// -o), nothing in them but the fitted numbers. Running it again changes nothing.
///
/// With --machine and --records: the numbers of that profile are fitted to runs of `tierloom bench` and a new profile is written to -o.
#[derive(clap::Args)]
pub struct Args {
    /// Calibration files, fitted one after the other
    #[arg(required_unless_present = "records", value_name = "CALIBRATION.yaml")]
    files: Vec<PathBuf>,
    /// Fit and print, but write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write profiles and constants into this folder instead of changing them in place; with --records the new profile's file
    #[arg(short, long, value_name = "FOLDER|FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Profile (name or file) whose numbers are fitted to measured runs
    #[arg(long, value_name = "MACHINE", requires_all = ["records", "tier"])]
    machine: Option<String>,
    /// Runs of `tierloom bench` or `tierloom characterize --records`
    #[arg(
        long,
        value_name = "FILE.jsonl",
        requires = "machine",
        conflicts_with = "files"
    )]
    records: Option<PathBuf>,
    /// Tier of the profile that each NUMA node of the runs belongs to (0=dram,1=cxl)
    #[arg(
        long,
        value_name = "NODE=TIER",
        value_delimiter = ',',
        requires = "machine"
    )]
    tier: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let (Some(machine), Some(records)) = (&args.machine, &args.records) {
        return from_records(args, machine, records);
    }
    if let Some(folder) = args.output.as_ref().filter(|f| !f.is_dir()) {
        return Err(Failure::input(format!(
            "-o {}: there is no such folder",
            folder.display()
        )));
    }
    let mut files = Files::new(args.output.clone());
    let mut fits = Vec::new();
    for path in &args.files {
        fits.push(fitted(path, &mut files)?);
    }
    print(args, &fits)?;
    if args.dry_run {
        eprintln!("dry run: nothing was written");
        return Ok(());
    }
    files.write()
}

fn print(args: &Args, fits: &[Fit]) -> Result<(), Failure> {
    if args.json {
        return output::print(&show::json(fits)?);
    }
    let texts: Vec<String> = fits.iter().map(show::text).collect();
    output::print(&texts.join("\n"))
}

/// Fits a profile to measured runs and writes it under another name.
fn from_records(args: &Args, machine: &str, records: &Path) -> Result<(), Failure> {
    match &args.output {
        Some(path) => {
            output::check_writable(path)?;
            if output::same_file(path, records) {
                return Err(Failure::input(format!(
                    "{} is read from; write the profile to another file",
                    path.display()
                )));
            }
        }
        None if args.dry_run => {}
        None => {
            return Err(Failure::input(
                "where should the profile go? add -o MACHINE.yaml or --dry-run",
            ));
        }
    }
    let base = records::base(machine)?;
    let tiers = records::tiers(&args.tier, &base)?;
    let fitted = records::fitted(&base, records, &tiers)?;
    for skipped in &fitted.skipped {
        eprintln!("skipped: {skipped}");
    }
    print(args, std::slice::from_ref(&fitted.fit))?;
    let Some(path) = args.output.as_ref().filter(|_| !args.dry_run) else {
        eprintln!("dry run: nothing was written");
        return Ok(());
    };
    fitted.machine.check().map_err(Failure::runtime)?;
    let yaml = fitted.machine.to_yaml().map_err(Failure::runtime)?;
    atomic_write(path, yaml.as_bytes())?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Fits one file and puts the numbers into the texts of profiles and constants.
fn fitted(path: &Path, files: &mut Files) -> Result<Fit, Failure> {
    let text = load::read(path)?;
    let calibration =
        Calibration::from_yaml(&text, &path.display().to_string()).map_err(Failure::input)?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let figures: Vec<PathBuf> = calibration.figures.iter().map(|f| beside.join(f)).collect();
    let figures: Vec<FigureFile> = load::figures(&figures)?;
    let machines = beside.join(&calibration.machines);
    let constants = beside.join(&calibration.constants);
    let library = files.library(&machines, &constants, &figures)?;
    let fit = fit(&calibration, &figures, &library).map_err(Failure::input)?;
    check_fitted(&calibration, &figures, &fit.library).map_err(Failure::input)?;
    files.put(&fit, &machines, &constants)?;
    Ok(fit)
}
