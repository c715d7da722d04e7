//! The texts of profiles and constants that fits change, written together or not at all.
//!
//! Fits run one after the other and see each other's results through the texts kept here; files are
//! written only when all fits have succeeded.

use crate::commands::agents;
use crate::commands::validate::load;
use crate::failure::Failure;
use crate::output;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tierloom_calibrate::{
    FigureFile, Fit, Library, Target, constants_from_yaml, rewrite_constants, rewrite_profile,
};
use tierloom_model::{Machine, Value};
use tierloom_record::atomic_write;

/// File contents by the path they were read from.
pub struct Files {
    folder: Option<PathBuf>,
    texts: BTreeMap<PathBuf, String>,
}

impl Files {
    /// Starts without changes; `folder` is where they are written, or `None` to write in place.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Files {
            folder,
            texts: BTreeMap::new(),
        }
    }

    fn text(&self, path: &Path) -> Result<String, Failure> {
        self.texts
            .get(path)
            .map_or_else(|| agents::read(path), |text| Ok(text.clone()))
    }

    /// Loads machines and constants with the changes of earlier fits of this run.
    pub fn library(
        &self,
        machines: &Path,
        constants: &Path,
        figures: &[FigureFile],
    ) -> Result<Library, Failure> {
        let text = self.text(constants)?;
        let read =
            constants_from_yaml(&text, &constants.display().to_string()).map_err(Failure::input)?;
        let mut library = load::library(Some(machines), read, figures)?;
        for (path, text) in self
            .texts
            .iter()
            .filter(|(path, _)| path.parent() == Some(machines))
        {
            let machine =
                Machine::from_yaml(text, &path.display().to_string()).map_err(Failure::input)?;
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            library.machines.insert(name, machine);
        }
        Ok(library)
    }

    /// Puts the fitted numbers into the texts; everything else in them, comments too, stays.
    pub fn put(&mut self, fit: &Fit, machines: &Path, constants: &Path) -> Result<(), Failure> {
        let mut by_machine: BTreeMap<&str, Vec<(&str, &Value)>> = BTreeMap::new();
        let mut named: Vec<(&str, &Value)> = Vec::new();
        for (target, value) in &fit.values {
            match target {
                Target::Number { machine, path } => {
                    by_machine.entry(machine).or_default().push((path, value))
                }
                Target::Constant(name) => named.push((name, value)),
            }
        }
        for (machine, numbers) in by_machine {
            let path = machines.join(format!("{machine}.yaml"));
            let text = self.text(&path)?;
            let new = rewrite_profile(&text, &path.display().to_string(), &numbers)
                .map_err(Failure::input)?;
            self.texts.insert(path, new);
        }
        if !named.is_empty() {
            let text = self.text(constants)?;
            let new = rewrite_constants(&text, &constants.display().to_string(), &named)
                .map_err(Failure::input)?;
            self.texts.insert(constants.to_owned(), new);
        }
        Ok(())
    }

    /// Writes the changed files. If one cannot be written, those written before it get their old
    /// content back.
    pub fn write(&self) -> Result<(), Failure> {
        let mut changes = Vec::new();
        for (path, text) in &self.texts {
            let to = match &self.folder {
                None => path.clone(),
                Some(folder) => folder.join(path.file_name().unwrap_or_default()),
            };
            output::check_writable(&to)?;
            let old = std::fs::read(&to).ok();
            // Compared with the file that would be written, which -o may have put elsewhere.
            if old.as_deref() != Some(text.as_bytes()) {
                changes.push((to, old, text));
            }
        }
        if changes.is_empty() {
            note!("nothing to write: all files hold these numbers already");
        }
        // All targets were checked and their old contents read above, before the first write.
        for (index, (path, _, text)) in changes.iter().enumerate() {
            if let Err(error) = atomic_write(path, text.as_bytes()) {
                take_back(&changes[..index]);
                return Err(error.into());
            }
        }
        for (path, ..) in &changes {
            note!("wrote {}", path.display());
        }
        Ok(())
    }
}

fn take_back(written: &[(PathBuf, Option<Vec<u8>>, &String)]) {
    for (path, old, _) in written {
        let done = match old {
            Some(old) => atomic_write(path, old).map_err(|e| e.to_string()),
            None => std::fs::remove_file(path).map_err(|e| e.to_string()),
        };
        if let Err(error) = done {
            note!(
                "warning: {} holds new numbers and could not be taken back: {error}",
                path.display()
            );
        }
    }
}
