//! Recording of system files, as a test fixture or for a bug report.
//!
//! A recording has the files that [`Topology::read`](crate::Topology::read) uses. They are listed
//! in `paths.txt` in this directory, one pattern per line, and include serial numbers of CXL
//! devices and the host name; no other file is copied. Links stay links, and their targets are
//! copied to the same relative place, so the recorded tree has the shape of the original.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::limits::cgroup_files;
use crate::{SysRoot, TopologyError};

/// Patterns of the recorded files, relative to the root; `#` starts a comment.
pub const PATHS: &str = include_str!("paths.txt");

/// Counts of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecordSummary {
    /// Number of regular files copied.
    pub files: usize,
    /// Number of links copied.
    pub links: usize,
    /// Total size of the files, in bytes.
    pub size_bytes: u64,
    /// Files that exist but could not be read, each with the reason.
    pub skipped: Vec<String>,
}

/// Copies the files that the reader uses from `root` into the new or empty directory `into`.
///
/// At most `max_bytes` of file contents are written. The directory gets its name only when it is
/// complete.
///
/// # Errors
/// [`TopologyError::NotEmpty`] if the directory has contents, [`TopologyError::NotASystemTree`] if
/// there is nothing to record, [`TopologyError::TooLarge`] above `max_bytes`, and
/// [`TopologyError::Write`] with the file and the cause (such as a full disk or a missing
/// permission).
pub fn record(root: &SysRoot, into: &Path, max_bytes: u64) -> Result<RecordSummary, TopologyError> {
    if fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(TopologyError::NotEmpty {
            path: into.to_path_buf(),
        });
    }
    let partial = partial_path(into);
    let outcome = copy_all(root, &partial, into, max_bytes).and_then(|summary| {
        fs::rename(&partial, into).map_err(write_error("name", into))?;
        Ok(summary)
    });
    if outcome.is_err() {
        // The error is reported already; at worst a hidden directory remains.
        let _ = fs::remove_dir_all(&partial);
    }
    outcome
}

/// A hidden sibling of `into`, so that the final rename stays within one file system.
fn partial_path(into: &Path) -> PathBuf {
    let name = into
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    into.with_file_name(format!(".{name}.partial-{}", std::process::id()))
}

fn write_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TopologyError {
    let path = path.to_path_buf();
    move |source| TopologyError::Write {
        action,
        path,
        source,
    }
}

fn copy_all(
    root: &SysRoot,
    partial: &Path,
    into: &Path,
    max_bytes: u64,
) -> Result<RecordSummary, TopologyError> {
    let top = fs::canonicalize(root.path()).map_err(|_| TopologyError::NotASystemTree {
        root: root.path().to_path_buf(),
    })?;
    fs::create_dir_all(partial).map_err(write_error("create", partial))?;
    let mut recorder = Recorder {
        top,
        partial,
        into,
        max_bytes,
        seen: BTreeSet::new(),
        summary: RecordSummary::default(),
    };
    let patterns = PATHS
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    for pattern in patterns
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .chain(cgroup_files(root))
    {
        let parts: Vec<&str> = pattern.split('/').collect();
        recorder.walk(Path::new(""), &parts)?;
    }
    if recorder.summary.files == 0 {
        return Err(TopologyError::NotASystemTree {
            root: root.path().to_path_buf(),
        });
    }
    Ok(recorder.summary)
}

struct Recorder<'a> {
    /// The root with all links resolved.
    top: PathBuf,
    partial: &'a Path,
    into: &'a Path,
    max_bytes: u64,
    /// Paths already recorded, relative to the root.
    seen: BTreeSet<PathBuf>,
    summary: RecordSummary,
}

impl Recorder<'_> {
    /// Records all matches of `parts` below `directory`, which is relative to the root, without
    /// links.
    fn walk(&mut self, directory: &Path, parts: &[&str]) -> Result<(), TopologyError> {
        let Some((part, rest)) = parts.split_first() else {
            return Ok(());
        };
        for name in self.names(directory, part) {
            let path = directory.join(name);
            // A file that this machine lacks is not an error: the reader copes with missing files.
            let Ok(metadata) = fs::symlink_metadata(self.top.join(&path)) else {
                continue;
            };
            // `proc/self` leads to a different process for every reader, so it is recorded as a
            // directory.
            if metadata.is_symlink() && path != Path::new("proc/self") {
                self.link(&path)?;
                // At the end of a pattern the link alone is enough: the reader only needs its
                // target path.
                if let Some(behind) = self.resolve(&path).filter(|_| !rest.is_empty()) {
                    self.walk(&behind, rest)?;
                }
            } else if rest.is_empty() && metadata.is_file() {
                self.file(&path)?;
            } else {
                self.walk(&path, rest)?;
            }
        }
        Ok(())
    }

    fn names(&self, directory: &Path, part: &str) -> Vec<String> {
        if !part.contains('*') {
            return vec![part.to_owned()];
        }
        let Ok(entries) = fs::read_dir(self.top.join(directory)) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| matches(part, name)).collect();
        names.sort_unstable();
        names
    }

    /// Target of a link relative to the root; `None` if it does not exist or is outside the root.
    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let behind = fs::canonicalize(self.top.join(path)).ok()?;
        behind.strip_prefix(&self.top).ok().map(Path::to_path_buf)
    }

    fn link(&mut self, path: &Path) -> Result<(), TopologyError> {
        if !self.seen.insert(path.to_path_buf()) {
            return Ok(());
        }
        let Ok(target) = fs::read_link(self.top.join(path)) else {
            return Ok(());
        };
        let copy = self.place(path)?;
        symlink(target, &copy).map_err(write_error("link", &copy))?;
        self.summary.links += 1;
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), TopologyError> {
        if !self.seen.insert(path.to_path_buf()) {
            return Ok(());
        }
        // The size is unknown before reading: files in sysfs and procfs report 4096 bytes or 0.
        let content = match fs::read(self.top.join(path)) {
            Ok(content) => content,
            Err(error) => {
                self.summary
                    .skipped
                    .push(format!("/{}: {error}", path.display()));
                return Ok(());
            }
        };
        let size_bytes = self.summary.size_bytes + content.len() as u64;
        if size_bytes > self.max_bytes {
            return Err(TopologyError::TooLarge {
                into: self.into.to_path_buf(),
                path: path.to_path_buf(),
                max_bytes: self.max_bytes,
            });
        }
        let copy = self.place(path)?;
        fs::write(&copy, content).map_err(write_error("write", &copy))?;
        self.summary.files += 1;
        self.summary.size_bytes = size_bytes;
        Ok(())
    }

    /// Path in the recording; creates its parent directory.
    fn place(&self, path: &Path) -> Result<PathBuf, TopologyError> {
        let copy = self.partial.join(path);
        if let Some(parent) = copy.parent() {
            fs::create_dir_all(parent).map_err(write_error("create", parent))?;
        }
        Ok(copy)
    }
}

/// Whether `name` matches a pattern in which `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|head| name.strip_prefix(head)) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("node*", "node10", true),
            ("node*", "anode1", false),
            ("*", "anything", true),
            ("hugepages-*kB", "hugepages-2048kB", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("online", "online", true),
            ("online", "online2", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
