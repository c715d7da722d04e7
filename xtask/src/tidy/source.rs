//! The files that the rules look at.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file under version control.
pub(crate) struct Source {
    /// Relative to the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    fn has(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|e| e == extension)
    }

    /// The folder of the crate that the file belongs to.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        let mut parts = self.path.components().map(|c| c.as_os_str());
        match parts.next()?.to_str()? {
            "crates" => parts.next()?.to_str(),
            _ => None,
        }
    }

    /// Whether it is compiled into the crate itself, not only into tests, benchmarks or examples.
    pub(crate) fn is_product(&self) -> bool {
        let text = self.path.to_string_lossy();
        let test_module = self.path.file_stem().is_some_and(|stem| stem == "tests");
        text.contains("/src/") && !text.contains("/src/tests/") && !test_module
    }
}

/// All text files of the repository that a rule knows.
pub(crate) struct Sources {
    root: PathBuf,
    files: Vec<Source>,
}

impl Sources {
    /// Those that git lists, with the contents of the work tree.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "-co", "--exclude-standard", "-z"])
            .args(["--", "*.rs", "*.md"])
            .current_dir(root)
            .output()
            .context("git ls-files")?;
        let listed = String::from_utf8(listed.stdout).context("a file name is not UTF-8")?;
        let mut files = Vec::new();
        for name in listed.split_terminator('\0') {
            let path = root.join(name);
            // A file that was removed and not yet committed is still listed.
            if path.is_file() {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("{name} is not readable text"))?;
                files.push(Source {
                    path: name.into(),
                    text,
                });
            }
        }
        Ok(Sources {
            root: root.to_owned(),
            files,
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|f| f.has("rs"))
    }

    pub(crate) fn markdown(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|f| f.has("md"))
    }
}
