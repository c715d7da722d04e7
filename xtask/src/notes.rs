//! Notes that tests wrote during this run: which checked nothing and why, and which guests were
//! booted again.

use anyhow::{Context, Result};
use std::path::PathBuf;
use tierloom_testing::Notes;
use xshell::Shell;

/// Path of the file that the tests append notes to.
pub fn file(shell: &Shell) -> PathBuf {
    shell.current_dir().join("target/test-notes")
}

/// Removes the notes of the last run.
pub fn clear(shell: &Shell) -> Result<()> {
    shell.create_dir("target")?;
    shell.remove_path(file(shell))?;
    Ok(())
}

/// The notes as text for people.
pub fn summary(shell: &Shell) -> Result<String> {
    let path = file(shell);
    let notes = Notes::read(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(notes.summary())
}
