//! What tells whether files are still those that a table was loaded from.
//!
//! Of a Parquet file the footer is part of it, which has the statistics of all row groups; of other
//! files the first and last bytes. So a check reads a few KiB, whatever the size of the files.

use super::{CsvOptions, SourceFormat, files, unreadable};
use crate::error::SqlError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes at each end of a file that is not Parquet.
const END_BYTES: u64 = 64 << 10;

/// A file or folder as it was at one moment, and how it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    /// Absolute.
    pub path: PathBuf,
    kind: SourceFormat,
    pub csv: CsvOptions,
    files: Vec<FileMark>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct FileMark {
    name: PathBuf,
    bytes: u64,
    /// Since 1970.
    modified_ns: i128,
    checksum: u64,
}

impl Fingerprint {
    /// Looks at the files of a table.
    ///
    /// # Errors
    /// Bad input: nothing there, or a file that cannot be read.
    pub fn of(path: &Path, csv: &CsvOptions) -> Result<Self, SqlError> {
        let files = files::at(path)?;
        let kind = SourceFormat::of(&files[0])?;
        let marks = files.iter().map(|file| mark(file, kind));
        Ok(Fingerprint {
            path: std::fs::canonicalize(path).map_err(|e| unreadable(path, &e))?,
            kind,
            csv: csv.clone(),
            files: marks.collect::<Result<_, _>>()?,
        })
    }

    /// How the files differ from what they were; `None` if they do not.
    pub fn difference(&self, before: &Fingerprint) -> Option<String> {
        if self.path != before.path {
            return Some(format!("it was loaded from {}", before.path.display()));
        }
        if self.kind == SourceFormat::Csv && self.csv != before.csv {
            return Some("it was read with other options for CSV".into());
        }
        let names = |print: &Fingerprint| -> Vec<PathBuf> {
            let names = print.files.iter().map(|file| file.name.clone());
            names.collect()
        };
        if self.kind != before.kind || names(self) != names(before) {
            return Some(format!("{} has other files now", self.path.display()));
        }
        let mut pairs = self.files.iter().zip(&before.files);
        let (now, then) = pairs.find(|(now, then)| now != then)?;
        let what = match () {
            () if now.bytes != then.bytes => "size",
            () if now.checksum != then.checksum => "contents",
            () => "time of modification",
        };
        let name = now.name.display();
        Some(format!("{name} has changed since then ({what})"))
    }
}

fn mark(path: &Path, kind: SourceFormat) -> Result<FileMark, SqlError> {
    let wrong = |e: io::Error| unreadable(path, &e);
    let file = File::open(path).map_err(wrong)?;
    let data = file.metadata().map_err(wrong)?;
    let bytes = data.len();
    let ends = match kind {
        SourceFormat::Parquet => footer(&file, bytes),
        SourceFormat::Csv | SourceFormat::Ipc => ends(&file, bytes),
    };
    Ok(FileMark {
        name: path.file_name().map_or_else(PathBuf::new, PathBuf::from),
        bytes,
        modified_ns: i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec()),
        checksum: checksum(&ends.map_err(wrong)?),
    })
}

/// The footer of a Parquet file, which ends with its own length and a magic number.
fn footer(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut tail = [0; 8];
    let at = bytes.saturating_sub(8);
    file.read_exact_at(&mut tail, at)?;
    let [a, b, c, d, ..] = tail;
    let length = u64::from(u32::from_le_bytes([a, b, c, d])).min(at);
    read(file, at - length, length + 8)
}

fn ends(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    if bytes <= 2 * END_BYTES {
        return read(file, 0, bytes);
    }
    let mut both = read(file, 0, END_BYTES)?;
    both.extend(read(file, bytes - END_BYTES, END_BYTES)?);
    Ok(both)
}

fn read(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut part = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut part, at)?;
    Ok(part)
}

fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(path: &Path) -> Fingerprint {
        Fingerprint::of(path, &CsvOptions::default()).unwrap()
    }

    #[test]
    fn a_change_of_files_or_options_is_named_and_none_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "x\n1\n").unwrap();
        let before = print(&path);
        assert_eq!(print(&path).difference(&before), None);
        let text = serde_json::to_string(&before).unwrap();
        let read: Fingerprint = serde_json::from_str(&text).unwrap();
        assert_eq!(read, before);
        let csv = CsvOptions {
            header: false,
            ..CsvOptions::default()
        };
        let other = Fingerprint::of(&path, &csv).unwrap();
        assert!(other.difference(&before).unwrap().contains("options"));
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        for (text, what) in [("x\n2\n", "contents"), ("x\n12\n", "size")] {
            std::fs::write(&path, text).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(time).unwrap();
            let said = print(&path).difference(&before).unwrap();
            assert!(said.contains(what), "{said}");
        }
        std::fs::write(&path, "x\n1\n").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(time + std::time::Duration::from_nanos(1))
            .unwrap();
        assert!(print(&path).difference(&before).unwrap().contains("time"));
        let whole = print(folder.path());
        assert!(whole.difference(&before).unwrap().contains("loaded from"));
        std::fs::write(folder.path().join("b.csv"), "x\n1\n").unwrap();
        let more = print(folder.path()).difference(&whole).unwrap();
        assert!(more.contains("other files"), "{more}");
    }

    #[test]
    fn the_end_of_a_long_file_and_the_footer_of_a_parquet_file_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let mut bytes = vec![b'1'; 1 << 20];
        std::fs::write(&path, &bytes).unwrap();
        let first = print(&path).files[0].checksum;
        bytes[(1 << 20) - 1] = b'2';
        std::fs::write(&path, &bytes).unwrap();
        assert_ne!(print(&path).files[0].checksum, first);
        let path = folder.path().join("a.parquet");
        let mut bytes = b"PAR1 pages footer ".to_vec();
        bytes.extend([7, 0, 0, 0]);
        bytes.extend(b"PAR1");
        std::fs::write(&path, &bytes).unwrap();
        let first = print(&path).files[0].checksum;
        bytes[6] = b'x';
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(print(&path).files[0].checksum, first, "pages are not read");
        bytes[12] = b'x';
        std::fs::write(&path, &bytes).unwrap();
        assert_ne!(print(&path).files[0].checksum, first);
    }
}
