//! Files that appear under their name complete, or not at all.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is written under a temporary name beside its own and gets its own name when it is
/// complete.
///
/// Dropped before [`WholeFile::finish`], it is removed and the old file of that name stays. A
/// symbolic link stays, and the file behind it is replaced. A device or a pipe (`/dev/stdout`,
/// `/dev/full`) is written directly, because a rename would replace the device itself.
#[derive(Debug)]
pub struct WholeFile {
    to: To,
}

#[derive(Debug)]
enum To {
    Temporary {
        file: BufWriter<NamedTempFile>,
        target: PathBuf,
    },
    Device(BufWriter<File>),
}

impl WholeFile {
    /// Starts the file `path`.
    ///
    /// # Errors
    /// The path is a folder or ends in no name, its folder does not exist, or the temporary file
    /// cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let target = match std::fs::metadata(path) {
            Ok(old) if old.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(old) if old.is_file() => std::fs::canonicalize(path)?,
            Ok(_) => {
                let device = OpenOptions::new().write(true).open(path)?;
                return Ok(WholeFile {
                    to: To::Device(BufWriter::new(device)),
                });
            }
            Err(_) => path.to_owned(),
        };
        let ends_in_name = !path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let Some(name) = target.file_name().filter(|_| ends_in_name) else {
            return Err(ErrorKind::InvalidFilename.into());
        };
        let folder = target.parent().filter(|p| !p.as_os_str().is_empty());
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            // As any new file: the umask takes bits away. The default is for the owner alone.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            // The error of tempfile names its own path, which nobody asked for.
            .map_err(|error| match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => error.kind().into(),
            })?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(WholeFile {
            to: To::Temporary { file, target },
        })
    }

    /// Writes the whole file at once.
    ///
    /// # Errors
    /// As [`WholeFile::create`] and [`WholeFile::finish`]; nothing is left behind.
    pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = Self::create(path)?;
        file.write_all(bytes)?;
        file.finish()?;
        Ok(())
    }

    /// Flushes the file to disk and gives it its name, replacing an old file; returns its size in
    /// bytes (0 for a device).
    ///
    /// # Errors
    /// If the file cannot be written, flushed or renamed; it is then removed.
    pub fn finish(self) -> io::Result<u64> {
        match self.to {
            To::Temporary { file, target } => {
                let file = file.into_inner().map_err(|error| error.into_error())?;
                // Without this, a crash after the rename could leave an empty file of that name.
                file.as_file().sync_all()?;
                let size_bytes = file.as_file().metadata()?.len();
                file.persist(target).map_err(|failed| failed.error)?;
                Ok(size_bytes)
            }
            To::Device(mut device) => device.flush().map(|()| 0),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Temporary { file, .. } => file.write(bytes),
            To::Device(device) => device.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Temporary { file, .. } => file.flush(),
            To::Device(device) => device.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("readable").map(|entry| {
            let name = entry.expect("an entry").file_name();
            name.to_string_lossy().into_owned()
        });
        entries.collect()
    }

    #[test]
    fn a_finished_file_replaces_the_old_one_and_has_the_usual_permissions() {
        let folder = tempfile::tempdir().expect("a folder");
        let (usual, target) = (folder.path().join("usual"), folder.path().join("new"));
        fs::write(&usual, b"x").expect("written");
        fs::write(&target, b"old").expect("written");
        let mut file = WholeFile::create(&target).expect("created");
        file.write_all(b"whole").expect("written");
        assert_eq!(fs::read(&target).expect("readable"), b"old");
        assert_eq!(file.finish().expect("finished"), 5);
        assert_eq!(fs::read(&target).expect("readable"), b"whole");
        assert_eq!(names(folder.path()).len(), 2);
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&target), mode(&usual));
    }

    #[test]
    fn a_dropped_file_leaves_the_old_one_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("t");
        fs::write(&target, b"old").expect("written");
        let mut file = WholeFile::create(&target).expect("created");
        file.write_all(b"half").expect("written");
        drop(file);
        assert_eq!(fs::read(&target).expect("readable"), b"old");
        assert_eq!(names(folder.path()), ["t"]);
    }

    #[test]
    fn links_stay_and_devices_are_written_directly() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, b"old").expect("written");
        std::os::unix::fs::symlink("file", &link).expect("linked");
        WholeFile::write(&link, b"new").expect("written");
        assert_eq!(fs::read(&file).expect("readable"), b"new");
        assert!(link.is_symlink());
        WholeFile::write(Path::new("/dev/null"), b"x").expect("takes everything");
        let full = WholeFile::write(Path::new("/dev/full"), b"x").expect_err("no space");
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn what_is_no_name_of_a_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for path in [
            folder.to_owned(),
            folder.join("missing/file"),
            folder.join("name/"),
            folder.join(".."),
        ] {
            let error = WholeFile::write(&path, b"x").expect_err("no file");
            assert!(!error.to_string().contains(".tmp"), "{error}");
        }
        assert!(names(folder).is_empty());
    }
}
