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

/// A field of `/proc/cpuinfo`, of the first processor that has it.
pub(crate) fn cpuinfo_field<'t>(cpuinfo: &'t str, name: &str) -> Option<&'t str> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(key, _)| key.trim() == name)?;
    Some(value.trim())
}

/// Whether the processor reports a hypervisor.
pub(crate) fn is_guest(root: &SysRoot) -> bool {
    let cpuinfo = read(root, "proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo_field(&cpuinfo, "flags").unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
}
