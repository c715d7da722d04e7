//! Reading of small system files below a root.

use std::fs;
use std::io;

use tierloom_topology::SysRoot;

/// Trimmed text of a file.
pub(crate) fn read(root: &SysRoot, path: &str) -> io::Result<String> {
    let bytes = fs::read(root.join(path))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Names in a directory, shorter ones first, so that `imc_2` precedes `imc_10`.
///
/// Empty if the directory does not exist.
pub(crate) fn list(root: &SysRoot, path: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join(path)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    names
}

/// Whether the processor reports a hypervisor.
pub(crate) fn is_guest(root: &SysRoot) -> bool {
    read(root, "proc/cpuinfo").is_ok_and(|text| {
        text.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|word| word == "hypervisor")
        })
    })
}
