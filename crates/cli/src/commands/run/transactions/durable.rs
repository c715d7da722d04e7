//! Where a run is made durable: places for its log and its checkpoints, checked.

use super::args::{MOST_SECONDS, TpccArgs};
use crate::failure::Failure;
use crate::output;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tierloom_oltp::log_parts;
use tierloom_pool::CreateOptions;

/// Refuses a log at a place where there is one, or parts of one.
pub(super) fn checked_log(log: &Path) -> Result<(), Failure> {
    output::check_writable(log)?;
    let parts = log_parts(log).map_err(Failure::input)?;
    let refused = |what: String| {
        let log = log.display();
        Failure::input(format!("--log {log}: {what}; a log is written anew"))
    };
    match parts.first() {
        None => Ok(()),
        Some(0) => Err(refused("the file exists".to_owned())),
        Some(part) => Err(refused(format!("its part {}.{part} exists", log.display()))),
    }
}

/// Pool of the checkpoints and the time between two of them, of a run that takes so long.
pub(super) fn checkpoints_of(
    args: &TpccArgs,
    duration: Duration,
) -> Result<Option<(PathBuf, Duration)>, Failure> {
    let Some(pool) = &args.checkpoint else {
        return Ok(None);
    };
    let outputs = [
        ("--log", args.log.as_deref()),
        ("--checkpoint", Some(pool.as_path())),
        ("--records", args.options.records.as_deref()),
        ("--report", args.options.report.as_deref()),
    ];
    output::check_outputs(&outputs, &[])?;
    let refused = |why: &dyn std::fmt::Display| {
        Failure::input(format!("--checkpoint {}: {why}", pool.display()))
    };
    if pool.exists() {
        return Err(refused(&"the file exists; the pool is made anew"));
    }
    if args.log.as_deref().is_some_and(|log| is_part_of(pool, log)) {
        return Err(refused(&"a part of the log will have this name"));
    }
    // The file system; the size is known when the data is loaded.
    let options = CreateOptions {
        file_bytes: 1 << 30,
        ..CreateOptions::default()
    };
    options.plan(pool, &[]).map_err(|e| refused(&e))?;
    let every = args.checkpoint_every.map_or(Ok(duration / 2), |every| {
        match every > 0.0 && every <= MOST_SECONDS {
            true => Ok(Duration::from_secs_f64(every)),
            false => Err(Failure::input(format!(
                "--checkpoint-every {every}: expected a number above 0, at most {MOST_SECONDS}"
            ))),
        }
    });
    Ok(Some((pool.clone(), every?)))
}

/// Whether a path is that of a part of a log, `LOG.1`.
fn is_part_of(path: &Path, log: &Path) -> bool {
    let same_folder = path.parent() == log.parent();
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let number = || {
        let (name, log) = (name(path)?, name(log)?);
        let number = name.strip_prefix(&log)?.strip_prefix('.')?;
        number.parse::<u64>().ok()
    };
    same_folder && number().is_some()
}
