//! The interface to programs of the host (apt-get, dpkg, ldd, strip), so that tests can replace
//! them.
//!
//! ```text
//!  kit, program ──Invocation──> trait Host ──> SystemHost  starts the real program
//!                                         └──> FakeHost    answers from a script (tests)
//! ```
//!
//! A [`Host`] runs a program to its end and returns what it wrote. It neither interprets exit codes
//! nor streams output: the long-lived QEMU process is started in `run::qemu`.

mod system;

#[cfg(test)]
pub(crate) mod fake;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use crate::LabError;
pub(crate) use system::SystemHost;

/// One program to run: the program, its arguments, its folder and additions to its environment.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    pub(crate) program: String,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(String, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
}

impl Invocation {
    pub(crate) fn new(program: &str) -> Invocation {
        Invocation {
            program: program.into(),
            args: Vec::new(),
            // The callers parse the output, so it must not be translated.
            env: vec![("LC_ALL".into(), "C".into())],
            cwd: None,
        }
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Invocation {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Invocation {
        self.env.push((name.into(), value.into()));
        self
    }

    pub(crate) fn cwd(mut self, dir: impl Into<PathBuf>) -> Invocation {
        self.cwd = Some(dir.into());
        self
    }

    /// The command line, for messages.
    pub(crate) fn line(&self) -> String {
        let mut line = self.program.clone();
        for arg in &self.args {
            line.push(' ');
            line.push_str(&arg.to_string_lossy());
        }
        line
    }
}

/// How a program ended and what it wrote.
#[derive(Debug, Clone, Default)]
pub(crate) struct Finished {
    pub(crate) success: bool,
    pub(crate) status: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The last lines of the error stream, or of the output if the error stream is empty.
    pub(crate) fn detail(&self) -> String {
        let text = if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        last_lines(text, 8)
    }
}

/// Runs programs of the host.
pub(crate) trait Host {
    /// Runs a program to its end. `NotFound` means that the program is not installed.
    fn run(&mut self, invocation: &Invocation) -> io::Result<Finished>;
}

/// Runs `invocation` and returns its output, whatever its exit status.
///
/// A missing program becomes [`LabError::MissingTool`] with `fix` as the next step.
pub(crate) fn call(
    host: &mut dyn Host,
    invocation: &Invocation,
    fix: &str,
) -> Result<Finished, LabError> {
    host.run(invocation).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LabError::MissingTool {
            tool: invocation.program.clone(),
            fix: fix.into(),
        },
        _ => LabError::Io {
            action: "start",
            path: PathBuf::from(&invocation.program),
            source,
        },
    })
}

/// The last `count` lines of `text` that are not blank.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
