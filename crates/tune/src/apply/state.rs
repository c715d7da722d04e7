//! The saved old state, on disk before anything is written to the kernel.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tierloom_record::{RecordError, atomic_write};

use super::{ApplyError, InterleaveSettings, SystemFiles};

/// The only supported version of the file.
const SCHEMA: &str = "tierloom-saved-weights/1";
/// File name in the state directory.
const NAME: &str = "kernel-weights.json";
/// State directory of root, relative to the system root.
const ROOTS_FOLDER: &str = "var/lib/tierloom";
/// Random id that the kernel generates at each boot.
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// Kernel settings before Tierloom changed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    schema: String,
    /// Time of saving, RFC 3339.
    pub saved_at: String,
    /// Id of the boot that the settings belong to; `None` if the kernel does not report one.
    pub boot_id: Option<String>,
    /// Weights and switch at that time.
    pub settings: InterleaveSettings,
}

impl Saved {
    /// Wraps settings read at time `now` (RFC 3339) in the current boot.
    pub fn new(settings: InterleaveSettings, now: &str, files: &dyn SystemFiles) -> Self {
        Saved {
            schema: SCHEMA.into(),
            saved_at: now.into(),
            boot_id: boot_id(files),
            settings,
        }
    }

    /// Whether the machine was rebooted since, which resets the kernel's weights.
    ///
    /// `false` if either boot id is unknown.
    pub fn is_of_another_boot(&self, files: &dyn SystemFiles) -> bool {
        matches!((&self.boot_id, boot_id(files)), (Some(then), Some(now)) if *then != now)
    }
}

/// Id of the current boot; `None` if the kernel does not report one.
pub(crate) fn boot_id(files: &dyn SystemFiles) -> Option<String> {
    files.read(BOOT_ID).ok().filter(|id| !id.is_empty())
}

/// Location of a saved state; the file itself may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// A state file at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        StateFile(path.into())
    }

    /// The default location.
    ///
    /// It is `/var/lib/tierloom` for root, and below any system root other than `/`; otherwise
    /// `$XDG_STATE_HOME/tierloom` or `~/.local/state/tierloom`. `variable` reads environment
    /// variables.
    pub fn usual(
        files: &dyn SystemFiles,
        is_host: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        // Relative paths are invalid by the XDG Base Directory Specification, and would make the
        // location depend on the working directory.
        let absolute = |name: &str| {
            let path = PathBuf::from(variable(name)?);
            path.is_absolute().then_some(path)
        };
        let users = || {
            let folder = absolute("XDG_STATE_HOME")
                .or_else(|| Some(absolute("HOME")?.join(".local").join("state")))?;
            Some(folder.join("tierloom"))
        };
        let folder = if is_host && !is_root(files) {
            users()
        } else {
            None
        };
        StateFile(
            folder
                .unwrap_or_else(|| files.full(ROOTS_FOLDER))
                .join(NAME),
        )
    }

    /// A state file with this name in the same directory.
    pub fn beside(&self, name: &str) -> Self {
        StateFile(self.folder().join(name))
    }

    /// Path of the state file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The saved state; `None` if the file does not exist.
    ///
    /// # Errors
    /// [`ApplyError::BadState`] for a file that is not a saved state, [`ApplyError::Io`] for one
    /// that cannot be read.
    pub fn read(&self) -> Result<Option<Saved>, ApplyError> {
        self.read_json(SCHEMA, |saved: &Saved| &saved.schema)
    }

    /// Reads a saved state of any type; `of` returns its schema.
    pub(crate) fn read_json<T: DeserializeOwned>(
        &self,
        schema: &str,
        of: impl Fn(&T) -> &str,
    ) -> Result<Option<T>, ApplyError> {
        let text = match std::fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let action = "read the saved state in";
                return Err(ApplyError::io(action, self.0.clone(), error));
            }
        };
        let bad = |problem: String| ApplyError::BadState {
            path: self.0.clone(),
            problem,
        };
        let saved: T = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let found = of(&saved);
        if found != schema {
            return Err(bad(format!("its schema is {found:?}, expected {schema:?}")));
        }
        Ok(Some(saved))
    }

    /// Writes the state and returns once the file and its name are on disk.
    pub(crate) fn save(&self, saved: &impl Serialize) -> Result<(), ApplyError> {
        let failed = |error| ApplyError::io("save the old state to", self.0.clone(), error);
        let json = serde_json::to_vec_pretty(saved).map_err(|error| failed(error.into()))?;
        atomic_write(&self.0, &json).map_err(|error| match error {
            RecordError::Io { source, .. } => failed(source),
            other => failed(io::Error::other(other)),
        })?;
        // A new directory entry is durable only after an fsync of the directory.
        File::open(self.folder())
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
    }

    pub(crate) fn forget(&self) -> Result<(), ApplyError> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ApplyError::io(
                "delete the saved state in",
                self.0.clone(),
                error,
            )),
            _ => Ok(()),
        }
    }

    /// Creates the directory and takes the lock, which is held until the returned file is dropped.
    pub(crate) fn lock(&self) -> Result<File, ApplyError> {
        let path = self.0.with_extension("lock");
        let failed = |error| ApplyError::io("open the lock", path.clone(), error);
        std::fs::create_dir_all(self.folder()).map_err(failed)?;
        // The lock file is never deleted: otherwise two processes could lock different files of the
        // same name.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(ApplyError::Busy { path }),
            // A file system without locks: the user has to avoid concurrent changes there.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(file)
            }
            Err(TryLockError::Error(error)) => Err(ApplyError::io("lock", path, error)),
        }
    }

    fn folder(&self) -> &Path {
        let parent = self
            .0
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }
}

/// Whether the effective user of this process is root.
fn is_root(files: &dyn SystemFiles) -> bool {
    let status = files.read("proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // The fields are the real, effective, saved and file-system user id.
    uids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}
