//! The saved old state: on the disk before anything is written to the kernel.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tierloom_record::{RecordError, atomic_write};

use super::{ApplyError, Settings, SystemFiles};

/// The only version of the file.
const SCHEMA: &str = "tierloom-saved-weights/1";
/// Its name in the state folder.
const NAME: &str = "kernel-weights.json";
/// The state folder of root.
const ROOTS_FOLDER: &str = "var/lib/tierloom";
/// Differs from boot to boot.
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// What the kernel held before Tierloom wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    schema: String,
    /// When, RFC 3339.
    pub saved_at: String,
    /// The boot that the weights belong to; `None` if the kernel does not tell.
    pub boot_id: Option<String>,
    /// The weights and the switch.
    pub settings: Settings,
}

impl Saved {
    /// The state `settings`, read at `now` (RFC 3339) in the boot that `files` tell.
    pub fn new(settings: Settings, now: &str, files: &dyn SystemFiles) -> Self {
        Saved {
            schema: SCHEMA.into(),
            saved_at: now.into(),
            boot_id: boot_id(files),
            settings,
        }
    }

    /// Whether the machine was booted again since: the kernel has forgotten what was written then.
    pub fn is_of_another_boot(&self, files: &dyn SystemFiles) -> bool {
        matches!((&self.boot_id, boot_id(files)), (Some(then), Some(now)) if *then != now)
    }
}

/// Id of this boot; `None` if the kernel does not tell.
pub(crate) fn boot_id(files: &dyn SystemFiles) -> Option<String> {
    files.read(BOOT_ID).ok().filter(|id| !id.is_empty())
}

/// The file that holds the saved state, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// At this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        StateFile(path.into())
    }

    /// Where it belongs: `/var/lib/tierloom` for root and for other system roots (below them), else `$XDG_STATE_HOME/tierloom` or
    /// `~/.local/state/tierloom`. `variable` reads the environment.
    pub fn usual(
        files: &dyn SystemFiles,
        is_host: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
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

    /// Another state file of this name in the same folder.
    pub fn beside(&self, name: &str) -> Self {
        StateFile(self.folder().join(name))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is saved; `None` if nothing is.
    ///
    /// # Errors
    /// [`ApplyError::BadState`] for a file that is no saved state, [`ApplyError::Io`] for one that cannot be read.
    pub fn read(&self) -> Result<Option<Saved>, ApplyError> {
        self.read_json(SCHEMA, |saved: &Saved| &saved.schema)
    }

    /// What is saved, of any kind that has a schema.
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

    /// Writes it so that it is on the disk, under its name, when this returns.
    pub(crate) fn save(&self, saved: &impl Serialize) -> Result<(), ApplyError> {
        let failed = |error| ApplyError::io("save the old state to", self.0.clone(), error);
        let json = serde_json::to_vec_pretty(saved).map_err(|error| failed(error.into()))?;
        atomic_write(&self.0, &json).map_err(|error| match error {
            RecordError::Io { source, .. } => failed(source),
            other => failed(io::Error::other(other)),
        })?;
        // The file is on the disk; its name is when the folder is.
        File::open(self.folder())
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
    }

    /// Forgets what is saved.
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

    /// Makes the folder and locks the state for as long as the result lives.
    pub(crate) fn lock(&self) -> Result<File, ApplyError> {
        let path = self.0.with_extension("lock");
        let failed = |error| ApplyError::io("open the lock", path.clone(), error);
        std::fs::create_dir_all(self.folder()).map_err(failed)?;
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(ApplyError::Busy { path }),
            // A file system without locks: two at once are then the user's to avoid.
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
    uids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}
