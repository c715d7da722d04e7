//! Printing results: a closed pipe ends a command quietly, any other failure is told.

use crate::failure::Failure;
use std::io::Write;
use std::path::Path;
use tierloom_record::{RecordSet, RecordWriter, atomic_write};
use tierloom_report::{ReportOptions, render};

/// Writes `text` to stdout.
///
/// # Errors
/// [`Failure::Runtime`] if stdout cannot be written. A reader that went away (`| head`) is none.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// The same for bytes.
///
/// # Errors
/// Those of [`print()`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Bytes in the unit a reader wants: GiB, MiB, KiB.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find(|(_, shift)| bytes >> shift > 0);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(name, shift)| format!("{:.1} {name}", bytes as f64 / f64::from(1u32 << shift)),
    )
}

/// Whether a file can be written under this name, as far as that can be told before.
///
/// # Errors
/// Bad input: the name is a folder's, or its folder does not exist.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let problem = if path.is_dir() {
        "it is a folder"
    } else if folder.is_some_and(|f| !f.is_dir()) {
        "its folder does not exist"
    } else {
        return Ok(());
    };
    Err(Failure::input(format!(
        "cannot write {}: {problem}",
        path.display()
    )))
}

/// Writes a file whole or not at all, and says on stderr that it was written.
///
/// # Errors
/// [`Failure::Runtime`] if it cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    atomic_write(path, bytes)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// The same for records, as JSON lines.
///
/// # Errors
/// Those of [`write_file()`], and a record that is no JSON.
pub fn write_records(path: &Path, set: &RecordSet) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, path.display().to_string());
    for record in set.to_records() {
        writer.write(&record)?;
    }
    write_file(path, &bytes)
}

/// The same for the report of records.
///
/// # Errors
/// Those of [`write_file()`], and a report that cannot be made.
pub fn write_report(path: &Path, set: &RecordSet) -> Result<(), Failure> {
    let html = render(set, &ReportOptions::default()).map_err(Failure::runtime)?;
    write_file(path, html.as_bytes())
}

/// Whether two names lead to one file, which need not exist yet.
pub fn same_file(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        path.canonicalize()
            .ok()
            .or_else(|| Some(folder.join(path.file_name()?)))
    };
    a == b || place(a).is_some_and(|a| Some(a) == place(b))
}
