//! Printing results: a closed pipe ends a command quietly, any other failure is told.

use crate::failure::Failure;
use std::io::Write;

/// Writes `text` to stdout.
///
/// # Errors
/// [`Failure::Runtime`] if stdout cannot be written. A reader that went away (`| head`) is none.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
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
