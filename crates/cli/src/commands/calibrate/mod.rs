//! `tierloom calibrate`: fits numbers of machine profiles to published figures or to measured runs.
//!
//! [`files`] collects the changes to files, [`records`] turns benchmark runs into figures, [`show`]
//! prints the fits. The fitting itself is in `tierloom_calibrate`.

mod files;
mod records;
mod show;

use crate::commands::agents;
use crate::commands::validate::load;
use crate::failure::Failure;
use crate::output;
use files::Files;
use std::path::{Path, PathBuf};
use tierloom_calibrate::{Calibration, FigureFile, Fit, check_fitted, fit};
use tierloom_record::atomic_write;

/// Fit machine profiles to published figures or to measured runs
///
/// With calibration files: only figures of role `fitted` are used, and each must depend on a
/// parameter. Profiles and constants are changed in place (or written into the folder of -o); only
/// the fitted numbers change. A second run changes nothing.
///
/// With --machine and --records: fits the numbers of that profile to runs of `tierloom bench` and
/// writes a new profile to -o.
#[derive(clap::Args)]
pub struct Args {
    /// Calibration files, fitted in this order
    #[arg(required_unless_present = "records", value_name = "CALIBRATION.yaml")]
    files: Vec<PathBuf>,
    /// Fit and print, but write nothing
    #[arg(long)]
    dry_run: bool,
    /// Folder for profiles and constants instead of changing them in place; with --records, the
    /// file of the new profile
    #[arg(short, long, value_name = "FOLDER|FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Profile (name or file) to fit to measured runs
    #[arg(long, value_name = "MACHINE", requires_all = ["records", "tier"])]
    machine: Option<String>,
    /// Records of `tierloom bench` or `tierloom characterize --records`
    #[arg(
        long,
        value_name = "FILE.jsonl",
        requires = "machine",
        conflicts_with = "files"
    )]
    records: Option<PathBuf>,
    /// Tier of the profile for each NUMA node of the runs (0=dram,1=cxl)
    #[arg(
        long,
        value_name = "NODE=TIER",
        value_delimiter = ',',
        requires = "machine"
    )]
    tier: Vec<String>,
}

/// Fits and writes, either from calibration files or from records.
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
        note!("dry run: nothing was written");
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

/// Fits a profile to measured runs and writes it as a new file.
fn from_records(args: &Args, machine: &str, records: &Path) -> Result<(), Failure> {
    match &args.output {
        Some(path) => output::check_outputs(&[("--output", Some(path))], &[records])?,
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
        note!("skipped: {skipped}");
    }
    print(args, std::slice::from_ref(&fitted.fit))?;
    let Some(path) = args.output.as_ref().filter(|_| !args.dry_run) else {
        note!("dry run: nothing was written");
        return Ok(());
    };
    // A profile that the model would refuse must not be written.
    fitted.machine.check().map_err(Failure::runtime)?;
    let yaml = fitted.machine.to_yaml().map_err(Failure::runtime)?;
    atomic_write(path, yaml.as_bytes())?;
    note!("wrote {}", path.display());
    Ok(())
}

/// Fits one calibration file and puts the numbers into the texts of profiles and constants.
fn fitted(path: &Path, files: &mut Files) -> Result<Fit, Failure> {
    let text = agents::read(path)?;
    let calibration =
        Calibration::from_yaml(&text, &path.display().to_string()).map_err(Failure::input)?;
    // Paths in a calibration file are relative to the file.
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
