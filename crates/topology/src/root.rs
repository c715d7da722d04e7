//! The root of system files, and a reader that takes notes of unusable ones.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

use crate::{IdSet, TopologyError};

/// Length of the quotation from a garbled file in an error, in characters.
const QUOTED_CHARS: usize = 60;

/// Directory that contains `sys` and `proc`: `/`, or the top of a recorded tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SysRoot(PathBuf);

impl SysRoot {
    /// The root of the running machine.
    pub fn host() -> Self {
        Self(PathBuf::from("/"))
    }

    /// The root of a recorded tree.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self(path.as_ref().to_path_buf())
    }

    /// Path of the root.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether this is the running machine rather than a recorded tree.
    pub fn is_host(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Full path of a file below the root; a leading `/` is ignored.
    pub fn join(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Whether a file or directory exists below the root.
    pub fn exists(&self, path: &str) -> bool {
        self.join(path).exists()
    }

    /// Trimmed text of a file below the root; `None` if it cannot be read for any reason.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.read(path).ok()
    }

    /// Trimmed text of a file; invalid UTF-8 is replaced, as some firmware strings are not UTF-8.
    pub(crate) fn read(&self, path: &str) -> io::Result<String> {
        let bytes = fs::read(self.join(path))?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Sorted names in a directory, `node2` before `node10`; empty if the directory does not exist.
    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.join(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| natural_key(name));
        names
    }

    /// Names in a directory that consist of `prefix` and a number, with that number.
    pub(crate) fn numbered(&self, path: &str, prefix: &str) -> Vec<(u32, String)> {
        let number = |name: &String| name.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
        let mut found: Vec<(u32, String)> = self
            .list(path)
            .into_iter()
            .filter_map(|name| number(&name).map(|n| (n, name)))
            .collect();
        found.sort_unstable();
        found
    }

    /// Last component of a link's target, which need not exist.
    ///
    /// For example, `driver -> ../../bus/dax/drivers/kmem` gives `kmem`.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Full target of a link, as text.
    pub(crate) fn link_target(&self, path: &str) -> Option<String> {
        Some(fs::read_link(self.join(path)).ok()?.to_str()?.to_owned())
    }
}

/// Splits off trailing digits, so that names sort by number: `("decoder0.", 10)`.
fn natural_key(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].parse().unwrap_or(0);
    (stem.to_owned(), number, name.to_owned())
}

/// Parses a number as the kernel prints it: decimal, or hexadecimal with `0x`.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The selected word in a list such as `always [madvise] never`.
pub(crate) fn bracketed(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word)
}

/// Parses a size as in the cache directories, such as `48K` or `2M`, into bytes.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let factor = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Reads files below a root and takes notes of those that exist but cannot be used.
///
/// A missing file causes no note here; only the caller knows whether it matters.
pub(crate) struct Reader<'a> {
    pub(crate) root: &'a SysRoot,
    notes: RefCell<Vec<String>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(root: &'a SysRoot) -> Self {
        Self {
            root,
            notes: RefCell::default(),
        }
    }

    pub(crate) fn note(&self, note: impl Into<String>) {
        let note = note.into();
        let mut notes = self.notes.borrow_mut();
        // A file may be read several times, and many CPUs may share one problem.
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    pub(crate) fn into_notes(self) -> Vec<String> {
        self.notes.into_inner()
    }

    /// Text of a file that may be missing.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        match self.root.read(path) {
            Ok(text) => Some(text),
            Err(error) if is_absence(&error) => None,
            Err(error) => {
                self.note(format!("/{path} cannot be read: {error}"));
                None
            }
        }
    }

    /// Parsed contents of a file that may be missing; invalid contents cause a note.
    pub(crate) fn parsed<T>(
        &self,
        path: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(path)?;
        let value = parse(&text);
        if value.is_none() {
            self.note(format!(
                "/{path} should hold {expected}, but it holds {:?}",
                quoted(&text)
            ));
        }
        value
    }

    /// A number from a file that may be missing.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.parsed(path, "a number", parse_number)
    }

    /// A list of ids from a file that may be missing.
    pub(crate) fn ids(&self, path: &str) -> Option<IdSet> {
        self.parsed(path, "a list such as 0-3,6", |text| {
            IdSet::from_str(text).ok()
        })
    }

    /// Text of a required file.
    pub(crate) fn required_text(
        &self,
        path: &str,
        expected: &'static str,
    ) -> Result<String, TopologyError> {
        self.root
            .read(path)
            .map_err(|source| TopologyError::Unreadable {
                path: self.root.join(path),
                expected,
                source,
            })
    }

    /// A list of ids from a required file.
    pub(crate) fn required_ids(&self, path: &str) -> Result<IdSet, TopologyError> {
        let expected = "a list such as 0-3,6";
        let text = self.required_text(path, expected)?;
        IdSet::from_str(&text).map_err(|_| self.garbled(path, expected, &text))
    }

    pub(crate) fn garbled(&self, path: &str, expected: &'static str, text: &str) -> TopologyError {
        TopologyError::Garbled {
            path: self.root.join(path),
            expected,
            found: quoted(text),
        }
    }
}

/// Whether an error means that an attribute is absent.
///
/// Besides missing files, drivers return these codes for attributes that a device does not have.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || matches!(
        error.raw_os_error(),
        Some(libc::ENXIO | libc::ENODEV | libc::EOPNOTSUPP)
    )
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_notations_are_read_and_garbage_is_refused() {
        assert_eq!(parse_number("0x20000000\n"), Some(536_870_912));
        assert_eq!(parse_number("-1"), None);
        assert_eq!(bracketed("always [madvise] never"), Some("madvise"));
        assert_eq!(bracketed("always madvise"), None);
        assert_eq!(bracketed("] ["), None);
        assert_eq!(parse_size("48K"), Some(49_152));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("9T"), None);
        assert_eq!(parse_size("99999999999999999999K"), None);
        assert_eq!(parse_size("18446744073709551615K"), None);
    }

    #[test]
    fn names_sort_by_number() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["node10", "node2", "nodes", "node0"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let root = SysRoot::at(dir.path());
        assert_eq!(root.list(""), ["node0", "node2", "node10", "nodes"]);
        let numbers: Vec<u32> = root
            .numbered("", "node")
            .into_iter()
            .map(|(n, _)| n)
            .collect();
        assert_eq!(numbers, [0, 2, 10]);
    }
}
