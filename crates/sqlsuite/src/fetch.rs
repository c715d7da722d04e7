//! Finds the test files in cargo's registry, and fetches them if they are not there.

use crate::SuiteError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate that contains the files.
const CRATE: &str = "datafusion-sqllogictest";

/// The test files for one version of DataFusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// The version of the crate, which is that of DataFusion.
    pub version: String,
    /// The crate's folder in the registry, which is only read.
    pub root: PathBuf,
}

impl Suite {
    /// The folder of the test files.
    pub fn files(&self) -> PathBuf {
        self.root.join("test_files")
    }

    /// The names of all test files, relative to [`Suite::files`], sorted.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, SuiteError> {
        let mut names = Vec::new();
        collect(&self.files(), "", &mut names)?;
        names.sort();
        Ok(names)
    }
}

fn collect(folder: &Path, before: &str, names: &mut Vec<String>) -> Result<(), SuiteError> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder).map_err(SuiteError::file(shown))?;
    for entry in entries {
        let entry = entry.map_err(SuiteError::file(folder.display()))?;
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), names)?;
        } else if name.ends_with(".slt") {
            names.push(name);
        }
    }
    Ok(())
}

/// Finds the suite for the version of DataFusion in `lock`, fetching it if necessary.
///
/// It writes a manifest that depends on the crate to `folder` and asks cargo for the crate's path;
/// nothing is compiled.
///
/// # Errors
/// [`SuiteError::Registry`] if the crate is not in the registry and cannot be fetched.
pub fn find(lock: &Path, folder: &Path) -> Result<Suite, SuiteError> {
    let locked = std::fs::read_to_string(lock).map_err(SuiteError::file(lock.display()))?;
    let version = version_of(&locked, "datafusion")
        .ok_or_else(|| SuiteError::Suite(format!("{} has no datafusion", lock.display())))?;
    let manifest = write_manifest(folder, &version, &locked)?;
    // Offline first, so that a run without a network works once the crate is there.
    let root = match folder_of_crate(&manifest, true) {
        Ok(root) => root,
        Err(_) => folder_of_crate(&manifest, false).map_err(|message| SuiteError::Registry {
            what: format!("{CRATE} {version}"),
            message,
        })?,
    };
    Ok(Suite { version, root })
}

/// The version of `package` in a lock file.
fn version_of(lock: &str, package: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name).skip(1);
    let version = lines.next()?.strip_prefix("version = \"")?;
    version.strip_suffix('"').map(str::to_owned)
}

fn write_manifest(folder: &Path, version: &str, lock: &str) -> Result<PathBuf, SuiteError> {
    let text = format!(
        "[package]\nname = \"test-files\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[lib]\npath = \"empty.rs\"\n\n[dependencies]\n{CRATE} = \"={version}\"\n"
    );
    let manifest = folder.join("Cargo.toml");
    if std::fs::read_to_string(&manifest).is_ok_and(|found| found == text) {
        return Ok(manifest);
    }
    std::fs::create_dir_all(folder).map_err(SuiteError::file(folder.display()))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(SuiteError::file(path.display()))
    };
    write("empty.rs", "")?;
    // With the versions of this workspace, most crates that cargo needs to resolve are already
    // there.
    write("Cargo.lock", lock)?;
    write("Cargo.toml", &text)?;
    Ok(manifest)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

fn folder_of_crate(manifest: &Path, offline: bool) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--manifest-path"]);
    command.arg(manifest);
    if offline {
        command.arg("--offline");
    }
    let output = command.output().map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let found = metadata.packages.into_iter().find(|p| p.name == CRATE);
    let root = found.and_then(|p| p.manifest_path.parent().map(Path::to_owned));
    root.ok_or_else(|| format!("cargo metadata does not name {CRATE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_crate_itself_and_not_of_one_whose_name_begins_alike() {
        let lock = "[[package]]\nname = \"datafusion-sql\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"datafusion\"\nversion = \"55.2.0\"\n";
        assert_eq!(version_of(lock, "datafusion").as_deref(), Some("55.2.0"));
        assert_eq!(version_of(lock, "arrow"), None);
    }
}
