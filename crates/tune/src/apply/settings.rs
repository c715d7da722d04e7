//! Settings of weighted interleaving in the kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::files::{FOLDER, SystemFiles};
use super::{ApplyError, KERNEL_WEIGHTS};

/// Names of the switch's file; in Linux 6.18 a macro in the kernel's source renames `auto`.
const SWITCHES: [&str; 2] = ["auto", "__auto_type"];

/// All kernel settings of weighted interleaving.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterleaveSettings {
    /// Pages per interleaving round on each node.
    pub weights: BTreeMap<u32, u32>,
    /// The switch of automatic weights; `None` for kernels without it (before 6.16).
    pub switch: Option<Switch>,
}

/// The switch of automatic weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Name of its file: `auto`, or `__auto_type` in Linux 6.18.
    pub file: String,
    /// Whether the kernel derives the weights from the bandwidths that firmware reports.
    pub on: bool,
}

pub(super) fn node_file(node: u32) -> String {
    format!("{FOLDER}/node{node}")
}

impl InterleaveSettings {
    /// Reads the settings from the kernel.
    ///
    /// # Errors
    /// [`ApplyError::Absent`] for kernels without weighted interleaving, [`ApplyError::Garbled`]
    /// for a file with unexpected contents, [`ApplyError::Io`] for one that cannot be read.
    pub fn read(files: &dyn SystemFiles) -> Result<Self, ApplyError> {
        let absent = |reason: String| ApplyError::Absent { reason };
        let place = files.full(FOLDER);
        let names = files
            .names(FOLDER)
            .map_err(|error| absent(format!("{}: {error}", place.display())))?;
        let mut weights = BTreeMap::new();
        for node in names
            .iter()
            .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        {
            weights.insert(node, read_weight(files, node)?);
        }
        if weights.is_empty() {
            return Err(absent(format!("no nodes in {}", place.display())));
        }
        let switch = SWITCHES
            .iter()
            .find(|name| names.iter().any(|n| n == *name));
        let switch = switch.map(|file| {
            let on = read_switch(files, file)?;
            let file = (*file).to_owned();
            Ok::<_, ApplyError>(Switch { file, on })
        });
        Ok(InterleaveSettings {
            weights,
            switch: switch.transpose()?,
        })
    }
}

fn read_weight(files: &dyn SystemFiles, node: u32) -> Result<u32, ApplyError> {
    let (path, text) = read(files, &node_file(node))?;
    let weight = text
        .parse()
        .ok()
        .filter(|weight| KERNEL_WEIGHTS.contains(weight));
    weight.ok_or_else(|| ApplyError::Garbled {
        path: files.full(&path),
        found: text,
        expected: "a whole number from 1 to 255",
    })
}

pub(super) fn read_switch(files: &dyn SystemFiles, file: &str) -> Result<bool, ApplyError> {
    let (path, text) = read(files, &format!("{FOLDER}/{file}"))?;
    match text.as_str() {
        "true" | "1" | "Y" => Ok(true),
        "false" | "0" | "N" => Ok(false),
        _ => Err(ApplyError::Garbled {
            path: files.full(&path),
            found: text,
            expected: "true or false",
        }),
    }
}

fn read(files: &dyn SystemFiles, path: &str) -> Result<(String, String), ApplyError> {
    let text = files
        .read(path)
        .map_err(|error| ApplyError::io("read", files.full(path), error))?;
    Ok((path.to_owned(), text))
}
