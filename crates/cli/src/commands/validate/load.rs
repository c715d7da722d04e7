//! Loads figures, machines and constants: built in, or from files.
//!
//! Also used by `tierloom calibrate`. Errors in built-in files are failures of this binary (exit
//! code 1), errors in the user's files are bad input (2).

use crate::commands::agents::read;
use crate::failure::Failure;
use std::path::{Path, PathBuf};
use tierloom_calibrate::{
    Constants, FigureFile, Library, builtin, check_unique, constants_from_yaml,
};
use tierloom_model::Machine;

/// The figures of `files`; all built-in ones if it is empty.
pub fn figures(files: &[PathBuf]) -> Result<Vec<FigureFile>, Failure> {
    if files.is_empty() {
        return builtin::figures().map_err(Failure::runtime);
    }
    let mut made = Vec::new();
    for path in files {
        let text = read(path)?;
        let parsed = FigureFile::from_yaml(&text, &path.display().to_string());
        made.push(parsed.map_err(Failure::input)?);
    }
    check_unique(&made).map_err(Failure::input)?;
    Ok(made)
}

/// The constants of a file, by default the built-in ones.
pub fn constants(file: Option<&Path>) -> Result<Constants, Failure> {
    match file {
        None => builtin::constants().map_err(Failure::runtime),
        Some(path) => {
            constants_from_yaml(&read(path)?, &path.display().to_string()).map_err(Failure::input)
        }
    }
}

/// The built-in machines, replaced by those of `folder` where names are equal, and the machines
/// that `figures` name by path (relative to their file).
pub fn library(
    folder: Option<&Path>,
    constants: Constants,
    figures: &[FigureFile],
) -> Result<Library, Failure> {
    let mut library = Library::builtin(constants).map_err(Failure::runtime)?;
    for (name, path) in folder.map(profiles_in).transpose()?.unwrap_or_default() {
        library.machines.insert(name, machine(&path)?);
    }
    for file in figures {
        let beside = Path::new(&file.file).parent().unwrap_or(Path::new(""));
        for name in file.figures.iter().flat_map(|f| f.machines()) {
            if tierloom_suite::machine::is_file(name) && !library.machines.contains_key(name) {
                let loaded = machine(&beside.join(name))?;
                library.machines.insert(name.to_owned(), loaded);
            }
        }
    }
    Ok(library)
}

/// Loads the profile in a file.
pub fn machine(path: &Path) -> Result<Machine, Failure> {
    Machine::from_yaml(&read(path)?, &path.display().to_string()).map_err(Failure::input)
}

/// Names and paths of the profiles in a folder, sorted.
fn profiles_in(folder: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let cannot = |e| Failure::input(format!("cannot read folder {}: {e}", folder.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned());
        if let (Some(name), true) = (name, path.extension().is_some_and(|e| e == "yaml")) {
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}
