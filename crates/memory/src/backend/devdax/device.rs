//! Reads the properties of a DAX device from sysfs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tierloom_topology::{NodeId, SysRoot};

use super::DevdaxError;

const DEVICES: &str = "sys/bus/dax/devices";

/// A DAX device that can be mapped.
#[derive(Debug, Clone)]
pub(super) struct DaxInfo {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) size_bytes: u64,
    pub(super) align_bytes: u64,
    pub(super) target_node: Option<NodeId>,
}

impl DaxInfo {
    /// Examines the device file at `path`, and its directory in sysfs below `root`.
    pub(super) fn read(root: &SysRoot, path: &Path) -> Result<Self, DevdaxError> {
        let data = fs::metadata(path).map_err(|source| missing(root, path, source))?;
        let kind = data.file_type();
        if !kind.is_char_device() {
            let found = if kind.is_dir() {
                "a directory"
            } else if kind.is_block_device() {
                "a block device"
            } else {
                "a file"
            };
            return Err(DevdaxError::NotADevice {
                path: path.to_owned(),
                found: found.to_owned(),
            });
        }
        // The device number, not the file's name, identifies the device: the file may be anywhere.
        let numbers = format!("{}:{}", libc::major(data.rdev()), libc::minor(data.rdev()));
        let directory = fs::canonicalize(root.join(&format!("sys/dev/char/{numbers}"))).ok();
        let subsystem = directory
            .as_deref()
            .and_then(|directory| link_name(directory, "subsystem"));
        match (directory, subsystem.as_deref()) {
            (Some(directory), Some("dax")) => Self::of_directory(path, &directory),
            (_, subsystem) => Err(DevdaxError::NotADevice {
                path: path.to_owned(),
                found: format!(
                    "character device {numbers} ({})",
                    subsystem.unwrap_or("which sysfs does not know")
                ),
            }),
        }
    }

    fn of_directory(path: &Path, directory: &Path) -> Result<Self, DevdaxError> {
        let name = directory
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        usable(path, directory, &name)?;
        // The alignment was an attribute of the region in older kernels, and is one of the device
        // now.
        let files = [
            directory.join("align"),
            directory.join("../dax_region/align"),
        ];
        let align_file = files.iter().find(|file| file.exists()).unwrap_or(&files[0]);
        Ok(Self {
            path: path.to_owned(),
            size_bytes: number(path, "size", &directory.join("size"))?,
            align_bytes: number(path, "alignment", align_file)?,
            target_node: target_node(directory),
            name,
        })
    }

    /// Opens the device for reading and writing.
    pub(super) fn open(&self) -> Result<File, DevdaxError> {
        let opened = OpenOptions::new().read(true).write(true).open(&self.path);
        opened.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => self.forbidden(source),
            _ => DevdaxError::Open {
                path: self.path.clone(),
                source,
            },
        })
    }

    fn forbidden(&self, source: io::Error) -> DevdaxError {
        let path = self.path.clone();
        match fs::metadata(&self.path) {
            Ok(data) => DevdaxError::Permission {
                path,
                user: name_of("/etc/passwd", data.uid()),
                group: name_of("/etc/group", data.gid()),
                mode: data.mode() & 0o777,
            },
            Err(_) => DevdaxError::Open { path, source },
        }
    }
}

/// Refuses devices that are bound to a driver other than `device_dax`.
fn usable(path: &Path, directory: &Path, name: &str) -> Result<(), DevdaxError> {
    let (path, name) = (path.to_owned(), name.to_owned());
    match link_name(directory, "driver").as_deref() {
        Some("device_dax") => Ok(()),
        Some("kmem") => Err(DevdaxError::SystemRam {
            path,
            name,
            node: target_node(directory).map_or("unknown".to_owned(), |node| node.to_string()),
        }),
        other => Err(DevdaxError::Unbound {
            path,
            name,
            driver: other.map_or("none is bound".to_owned(), |driver| {
                format!("`{driver}` is bound, which cannot map it")
            }),
        }),
    }
}

/// Error for a path that does not exist. A device in system-ram mode has no device file, but sysfs
/// lists it, so the error can say more.
fn missing(root: &SysRoot, path: &Path, source: io::Error) -> DevdaxError {
    let name = path.file_name().map(|name| name.to_string_lossy());
    if let Some(name) = name.filter(|name| name.starts_with("dax")) {
        let directory = root.join(&format!("{DEVICES}/{name}"));
        if directory.exists()
            && let Err(error) = usable(path, &directory, &name)
        {
            return error;
        }
    }
    let mut names: Vec<String> = fs::read_dir(root.join(DEVICES))
        .map(|entries| {
            let entries = entries.flatten().map(|entry| entry.file_name());
            entries.filter_map(|name| name.into_string().ok()).collect()
        })
        .unwrap_or_default();
    names.sort_unstable();
    let existing = match names.as_slice() {
        [] => "this machine has no DAX devices".to_owned(),
        names => format!("DAX devices here: {}", names.join(", ")),
    };
    DevdaxError::Missing {
        path: path.to_owned(),
        source,
        existing,
    }
}

/// Reads a positive number, decimal or hexadecimal with `0x`.
fn number(path: &Path, what: &'static str, file: &Path) -> Result<u64, DevdaxError> {
    let fail = |found: String| DevdaxError::Attribute {
        path: path.to_owned(),
        what,
        file: file.to_owned(),
        found,
    };
    let text = fs::read_to_string(file).map_err(|error| fail(error.to_string()))?;
    let text = text.trim();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let quoted = || text.chars().take(40).collect::<String>();
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| fail(format!("it holds `{}`", quoted())))
}

/// Reads the target node; -1 means none and does not parse as a node number.
fn target_node(directory: &Path) -> Option<NodeId> {
    let text = fs::read_to_string(directory.join("target_node")).ok()?;
    text.trim().parse().ok().map(NodeId)
}

/// Last component of a link's target; the target itself need not exist.
fn link_name(directory: &Path, link: &str) -> Option<String> {
    let target = fs::read_link(directory.join(link)).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

/// Name of a user or group, or its number if the file does not list it.
fn name_of(file: &str, id: u32) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let wanted = id.to_string();
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_owned())
    });
    named.unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_may_not_open_the_device_learns_whose_it_is() {
        let info = DaxInfo {
            path: PathBuf::from("/proc/self/mem"),
            name: "dax0.0".to_owned(),
            size_bytes: 4096,
            align_bytes: 4096,
            target_node: None,
        };
        let own = fs::metadata(&info.path).unwrap();
        let error = info.forbidden(io::ErrorKind::PermissionDenied.into());
        let DevdaxError::Permission {
            user, group, mode, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(*user, name_of("/etc/passwd", own.uid()));
        assert_eq!((group.is_empty(), *mode), (false, 0o600));
        assert!(error.to_string().contains("udev rule"), "{error}");
    }

    #[test]
    fn users_are_named_as_their_file_does_and_numbered_where_it_does_not() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "root:x:0:0:root:/root:/bin/sh\n\nnobody:x:65534:\nhalf\n";
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(name_of(path, 0), "root");
        assert_eq!(name_of(path, 65534), "nobody");
        assert_eq!(name_of(path, 7), "7");
        assert_eq!(name_of("/nowhere/passwd", 7), "7");
    }
}
