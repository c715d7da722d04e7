//! Rules of this repository that neither rustfmt nor clippy checks.
//!
//! Each rule lists what breaks it as `file:line: what`. Exceptions stand in `tidy.yaml` beside this
//! crate, with a reason where it is not plain; one that is no longer needed is itself a finding, so
//! the lists only shrink.

mod arrows;
mod circles;
mod dead;
mod features;
mod glossary;
mod known;
mod length;
mod links;
mod names;
mod shared;
mod source;
mod width;

use anyhow::{Result, bail};
use known::Known;
use source::Sources;
use std::fmt;
use std::path::{Path, PathBuf};
use xshell::Shell;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the repository.
    path: PathBuf,
    /// From 1; 0 for the whole file.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &Path, line: usize, what: impl Into<String>) -> Self {
        Finding {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.what),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.what),
        }
    }
}

pub fn tidy(shell: &Shell) -> Result<()> {
    let root = shell.current_dir();
    let sources = Sources::read(&root)?;
    let mut known = Known::read(&root)?;
    let mut findings = Vec::new();
    findings.extend(width::check(&sources));
    findings.extend(length::check(&sources, &mut known));
    findings.extend(arrows::check(&root)?);
    findings.extend(circles::check(&sources));
    findings.extend(names::check(&sources, &mut known));
    findings.extend(dead::check(&sources, &mut known));
    findings.extend(features::check(&sources));
    findings.extend(glossary::check(&root, &sources)?);
    findings.extend(links::check(&sources));
    findings.extend(shared::check(shell)?);
    findings.extend(known.unused());
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        n => bail!("{n} places break rules of the repository"),
    }
}
