//! Files that appear under their name complete, or not at all, with the errors of SQL.

use super::error::SqlError;
use std::io::Write;
use std::path::Path;

/// A file that is written under a temporary name; see [`tierloom_text::WholeFile`].
///
/// Dropped before [`WholeFile::keep`], it is removed.
pub struct WholeFile {
    file: tierloom_text::WholeFile,
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
        match std::fs::metadata(path) {
            Ok(old) if old.is_dir() => return refuse("it is a folder"),
            Ok(_) => {}
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
        let file = tierloom_text::WholeFile::create(path)
            .map_err(|e| SqlError::failed(format!("cannot write {shown}: {e}")))?;
        Ok(WholeFile { file, shown })
    }

    /// Syncs the file and renames it to its final name.
    ///
    /// # Errors
    /// If the file cannot be written, synced or renamed; it is then removed.
    pub fn keep(self) -> Result<(), SqlError> {
        let shown = self.shown;
        match self.file.finish() {
            Ok(_) => Ok(()),
            Err(e) => Err(SqlError::failed(format!("cannot write {shown}: {e}"))),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes);
        written.map_err(|e| named(&self.shown, &e))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.file.flush();
        flushed.map_err(|e| named(&self.shown, &e))
    }
}

/// The error with the file's name: the writers above know no names.
fn named(shown: &str, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{shown}: {error}"))
}
