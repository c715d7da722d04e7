//! Who has a device open.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Processes of this host, of those that `counts` says, that have a file or device open or mapped,
/// as `process PID (name)`; of other users' processes only root learns that.
pub(crate) fn holders(path: &Path, counts: impl Fn(u32) -> bool) -> Vec<String> {
    let (Ok(data), Ok(path)) = (fs::metadata(path), fs::canonicalize(path)) else {
        return Vec::new();
    };
    let wanted = (data.dev(), data.ino());
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = entries.flatten().filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path();
        (counts(number) && (has_open(&folder, wanted) || has_mapped(&folder, &path))).then(|| {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            format!("process {number} ({})", name.trim())
        })
    });
    processes.collect()
}

fn has_open(process: &Path, wanted: (u64, u64)) -> bool {
    let Ok(open) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    // Follows the link to what is open, and opens nothing.
    let files = open
        .flatten()
        .filter_map(|entry| fs::metadata(entry.path()).ok());
    files
        .into_iter()
        .any(|data| (data.dev(), data.ino()) == wanted)
}

/// A mapping stays when its file is closed.
fn has_mapped(process: &Path, path: &Path) -> bool {
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    let path = path.to_string_lossy();
    // Five fields, then the path.
    let mut paths = maps.lines().filter_map(|line| line.splitn(6, ' ').nth(5));
    paths.any(|mapped| mapped.trim_start() == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_memory::shared::{Access, SharedWords};

    #[test]
    fn who_opens_or_maps_a_file_holds_it_and_nobody_else() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let own = format!("process {} (", std::process::id());
        let id = std::process::id();
        let found = holders(file.path(), |_| true);
        assert!(found.len() == 1 && found[0].starts_with(&own), "{found:?}");
        assert_eq!(holders(file.path(), |process| process != id), [""; 0]);
        let path = file.into_temp_path();
        assert_eq!(holders(&path, |_| true), [""; 0], "closed");
        let open = fs::OpenOptions::new().read(true).write(true).open(&path);
        let mapped = SharedWords::map(&open.unwrap(), 0, 4096, Access::Read).unwrap();
        let found = holders(&path, |_| true);
        assert!(found.len() == 1 && found[0].starts_with(&own), "{found:?}");
        drop(mapped);
        assert_eq!(holders(&path, |_| true), [""; 0], "unmapped");
    }
}
