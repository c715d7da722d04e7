//! Files that appear under their name complete, or not at all.
//!
//! Written to a temporary file in the same directory, synced and renamed over the target.

use super::error::SqlError;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is written under a temporary name.
///
/// Dropped before [`WholeFile::keep`], it is removed.
///
/// A symbolic link stays and the file behind it is replaced. A device or pipe is written directly.
pub struct WholeFile {
    to: Option<BufWriter<File>>,
    /// Temporary and final name; `None` for a device or pipe.
    names: Option<(PathBuf, PathBuf)>,
    shown: String,
}

impl WholeFile {
    /// Starts the file `path`.
    ///
    /// # Errors
    /// Bad input: a directory, or a file in a directory that does not exist. A failure if the file
    /// cannot be created.
    pub fn create(path: &Path) -> Result<Self, SqlError> {
        let shown = path.display().to_string();
        let refuse =
            |problem: &str| Err(SqlError::input(format!("cannot write {shown}: {problem}")));
        let mut target = path.to_owned();
        let mut device = false;
        match std::fs::metadata(path) {
            Ok(old) if old.is_dir() => return refuse("it is a folder"),
            Ok(old) if old.is_file() => target = std::fs::canonicalize(path).unwrap_or(target),
            Ok(_) => device = true,
            Err(_) => {
                let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
                if folder.is_some_and(|f| !f.is_dir()) {
                    return refuse("its folder does not exist");
                }
                if path.file_name().is_none() || shown.ends_with('/') {
                    return refuse("it is not the name of a file");
                }
            }
        }
        let failed = |e| SqlError::failed(format!("cannot write {shown}: {e}"));
        if device {
            let to = OpenOptions::new().write(true).open(path).map_err(failed)?;
            return Ok(WholeFile {
                to: Some(BufWriter::new(to)),
                names: None,
                shown,
            });
        }
        let temporary = beside(&target);
        let to = File::create(&temporary).map_err(failed)?;
        Ok(WholeFile {
            to: Some(BufWriter::with_capacity(1 << 20, to)),
            names: Some((temporary, target)),
            shown,
        })
    }

    /// Syncs the file and renames it to its final name.
    ///
    /// # Errors
    /// If the file cannot be written, synced or renamed; it is then removed.
    pub fn keep(mut self) -> Result<(), SqlError> {
        let kept = self.try_keep();
        if kept.is_ok() {
            self.names = None;
        }
        kept.map_err(|e| SqlError::failed(format!("cannot write {}: {e}", self.shown)))
    }

    /// The error with the file's name: the writers above know no names.
    fn named(&self, error: &std::io::Error) -> std::io::Error {
        std::io::Error::new(error.kind(), format!("{}: {error}", self.shown))
    }

    fn try_keep(&mut self) -> std::io::Result<()> {
        let Some(to) = self.to.take() else {
            return Ok(());
        };
        let file = to.into_inner().map_err(|e| e.into_error())?;
        if let Some((temporary, target)) = &self.names {
            // Without the sync, a crash after the rename could leave an empty file under the final
            // name.
            file.sync_all()?;
            std::fs::rename(temporary, target)?;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = match &mut self.to {
            Some(to) => to.write(bytes),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|e| self.named(&e))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.to.as_mut().map_or(Ok(()), Write::flush);
        flushed.map_err(|e| self.named(&e))
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.names {
            // The file may never have been created; then there is nothing to remove.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}
