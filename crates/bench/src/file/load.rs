//! Reads workload files from disk or standard input and merges their runs and hosts.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::{FileError, did_you_mean};
use super::{LoadOptions, MAX_RUNS, MAX_TEXT_BYTES, Workloads, parse};

/// Levels of subfolders that are searched.
const MAX_DEPTH: usize = 32;

/// Reads workload files.
///
/// A folder is replaced by all `*.yaml` and `*.yml` files below it, in the order of their paths;
/// `-` is standard input.
///
/// # Errors
/// [`FileError`] for the first file that cannot be read or is wrong, for a name in `only` that no
/// file has, for more than [`MAX_RUNS`] runs, and for a host that two files define differently.
pub fn load(paths: &[PathBuf], options: &LoadOptions) -> Result<Workloads, FileError> {
    let mut all = Workloads::default();
    let mut host_files: Vec<String> = Vec::new();
    for path in files(paths)? {
        let text = text_of(&path)?;
        let name = if is_stdin(&path) {
            "<stdin>".to_owned()
        } else {
            path.display().to_string()
        };
        let read = parse(&text, &name, options)?;
        for host in read.hosts {
            match all.hosts.iter().position(|known| known.name == host.name) {
                Some(index) => {
                    let known = &all.hosts[index];
                    if (&known.address, &known.ssh) != (&host.address, &host.ssh) {
                        return Err(FileError::HostTwice {
                            name: host.name.clone(),
                            first: format!("{}:{}", host_files[index], known.line),
                            second: format!("{name}:{}", host.line),
                        });
                    }
                }
                None => {
                    all.hosts.push(host);
                    host_files.push(name.clone());
                }
            }
        }
        let first = all.runs.len();
        all.published
            .extend(read.published.into_iter().map(|mut one| {
                one.shift(first);
                one
            }));
        all.runs.extend(read.runs);
        all.names.extend(read.names);
        if all.runs.len() > MAX_RUNS {
            return Err(FileError::TooManyRuns { limit: MAX_RUNS });
        }
    }
    // Checked over all files: a name may be in any of them.
    for name in &options.only {
        if !all.names.contains(name) {
            return Err(FileError::NoWorkload {
                name: name.clone(),
                hint: did_you_mean(name, all.names.iter().map(String::as_str)),
                known: all.names.join(", "),
            });
        }
    }
    Ok(all)
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn text_of(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    // Reading one byte more than allowed shows that the file is too large.
    let read = if is_stdin(path) {
        io::stdin()
            .lock()
            .take(MAX_TEXT_BYTES + 1)
            .read_to_string(&mut text)
    } else {
        let file = fs::File::open(path).map_err(failed)?;
        file.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text)
    };
    let size_bytes = read.map_err(failed)? as u64;
    if size_bytes > MAX_TEXT_BYTES {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            size_bytes,
        });
    }
    Ok(text)
}

/// The files that `paths` refer to, with folders expanded.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FileError> {
    let mut files = Vec::new();
    for path in paths {
        if is_stdin(path) || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut below = Vec::new();
        collect(path, MAX_DEPTH, &mut below)?;
        if below.is_empty() {
            return Err(FileError::NoFiles { path: path.clone() });
        }
        // The order of a directory listing differs between file systems; runs should not.
        below.sort();
        files.append(&mut below);
    }
    Ok(files)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), FileError> {
    let failed = |source| FileError::Read {
        path: folder.to_owned(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        // Links to folders are not followed, because they could form a cycle.
        if entry.file_type().map_err(failed)?.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            files.push(path);
        }
    }
    Ok(())
}
