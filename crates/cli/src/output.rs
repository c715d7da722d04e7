//! Prints results and writes files.
//!
//! A closed stdout pipe (`| head`) ends a command quietly; every other write error is reported.
//! Files are replaced atomically, so an interrupted command never leaves half a file.

use crate::failure::Failure;
use std::io::Write;
use std::path::Path;
use tierloom_record::{Record, RecordSet, RecordWriter, SCHEMA, atomic_write};
use tierloom_report::{ReportOptions, render};

/// How this program was built, as records say it.
pub const BUILD: &str = if cfg!(debug_assertions) {
    "dev"
} else {
    "release"
};

/// Writes `text` to stdout.
///
/// # Errors
/// [`Failure::Runtime`] if stdout cannot be written. A reader that closed the pipe is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Prints a value as JSON with line breaks.
pub fn print_json(value: &(impl serde::Serialize + ?Sized)) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::runtime)?;
    print(&format!("{text}\n"))
}

/// Writes `bytes` to stdout, like [`print()`].
///
/// # Errors
/// Same as [`print()`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Checks that a file could be created at this path, as far as that is known before the run.
///
/// Free space is not checked: it can still run out when the file is written.
///
/// # Errors
/// Bad input: the path is a folder, its folder does not exist, or no file can be made in it.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let problem = if path.is_dir() {
        "it is a folder".into()
    } else if !folder.is_dir() {
        "its folder does not exist".into()
    } else if path.exists() && !path.is_file() {
        // A device or a pipe is written to directly.
        return Ok(());
    } else {
        // Files are written beside their place and renamed, so the folder decides.
        match tempfile::tempfile_in(folder) {
            Ok(_) => return Ok(()),
            Err(error) => error.to_string(),
        }
    };
    Err(Failure::input(format!(
        "cannot write {}: {problem}",
        path.display()
    )))
}

/// Writes a file atomically (complete or not at all) and says so on stderr.
///
/// # Errors
/// [`Failure::Runtime`] if it cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    atomic_write(path, bytes)?;
    note!("wrote {}", path.display());
    Ok(())
}

/// Writes records as JSON lines, like [`write_file()`].
///
/// # Errors
/// Same as [`write_file()`], and a record that cannot be written as JSON.
pub fn write_records(path: &Path, set: &RecordSet) -> Result<(), Failure> {
    let bytes = record_lines(&set.to_records(), &path.display().to_string())?;
    write_file(path, &bytes)
}

/// Records as JSON lines; `name` is what errors call them.
///
/// # Errors
/// A record that cannot be written as JSON.
pub fn record_lines(records: &[Record], name: &str) -> Result<Vec<u8>, Failure> {
    let mut lines = Vec::new();
    let mut writer = RecordWriter::new(&mut lines, name);
    records.iter().try_for_each(|record| writer.write(record))?;
    Ok(lines)
}

/// Prints records as one document with `json`, as their `lines` with `jsonl`, or else `text`.
///
/// # Errors
/// [`Failure::Runtime`] if stdout cannot be written.
pub fn print_records(
    records: &[Record],
    lines: &[u8],
    text: &str,
    (json, jsonl): (bool, bool),
) -> Result<(), Failure> {
    match (json, jsonl) {
        (true, _) => print_json(&serde_json::json!({ "schema": SCHEMA, "records": records })),
        (_, true) => print_bytes(lines),
        _ => print(text),
    }
}

/// Writes the HTML report of `set`, like [`write_file()`].
///
/// # Errors
/// Same as [`write_file()`], and a report that cannot be rendered.
pub fn write_report(path: &Path, set: &RecordSet) -> Result<(), Failure> {
    let html = render(set, &ReportOptions::default()).map_err(Failure::runtime)?;
    write_file(path, html.as_bytes())
}

/// Checks the files that a command will write, each with its option, before it does anything: each
/// is in a folder that exists, none is one of `inputs`, and no two are the same.
///
/// # Errors
/// Bad input naming the options.
pub fn check_outputs(outputs: &[(&str, Option<&Path>)], inputs: &[&Path]) -> Result<(), Failure> {
    let outputs = outputs
        .iter()
        .filter_map(|(flag, path)| Some((flag, (*path)?)));
    let mut before: Vec<(&str, &Path)> = Vec::new();
    for (flag, path) in outputs {
        check_writable(path)?;
        if let Some((other, _)) = before.iter().find(|(_, other)| same_file(other, path)) {
            return Err(Failure::input(format!(
                "{other} and {flag} name the same file, {}",
                path.display()
            )));
        }
        if let Some(input) = inputs.iter().find(|input| same_file(input, path)) {
            return Err(Failure::input(format!(
                "{flag}: {} is read from; write to another file",
                input.display()
            )));
        }
        before.push((flag, path));
    }
    Ok(())
}

/// Whether two paths name the same file, which need not exist yet.
fn same_file(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        // A file that does not exist has no canonical path; its folder has one.
        path.canonicalize()
            .ok()
            .or_else(|| Some(folder.join(path.file_name()?)))
    };
    a == b || place(a).is_some_and(|a| Some(a) == place(b))
}
