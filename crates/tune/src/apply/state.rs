//! The saved old state, on disk before anything is written to the kernel.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tierloom_topology::saved_state::{SavedState, StateFile, boot_id};

use super::{InterleaveSettings, SystemFiles};

/// File name in the state directory.
const NAME: &str = "kernel-weights.json";
/// State directory of root, relative to the system root.
const ROOTS_FOLDER: &str = "var/lib/tierloom";

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
            schema: Self::SCHEMA.into(),
            saved_at: now.into(),
            boot_id: boot_id(files),
            settings,
        }
    }
}

impl SavedState for Saved {
    const SCHEMA: &str = "tierloom-saved-weights/1";

    fn schema(&self) -> &str {
        &self.schema
    }

    fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }
}

/// The default location of the saved state.
///
/// It is `/var/lib/tierloom` for root, and below any system root other than `/`; otherwise
/// `$XDG_STATE_HOME/tierloom` or `~/.local/state/tierloom`. `variable` reads environment variables.
pub fn usual_state_file(
    files: &dyn SystemFiles,
    is_host: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> StateFile {
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
    StateFile::at(
        folder
            .unwrap_or_else(|| files.full(ROOTS_FOLDER))
            .join(NAME),
    )
}

/// Whether the effective user of this process is root.
fn is_root(files: &dyn SystemFiles) -> bool {
    let status = files.read("proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // The fields are the real, effective, saved and file-system user id.
    uids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}
