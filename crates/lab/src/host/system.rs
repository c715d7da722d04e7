//! The [`Host`] that starts real programs.

use std::io;
use std::process::{Command, Stdio};

use super::{Finished, Host, Invocation};

/// Starts programs found in `PATH`, without standard input.
#[derive(Debug, Default)]
pub(crate) struct SystemHost;

impl Host for SystemHost {
    fn run(&mut self, invocation: &Invocation) -> io::Result<Finished> {
        let mut command = Command::new(&invocation.program);
        command
            .args(&invocation.args)
            .envs(invocation.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        if let Some(dir) = &invocation.cwd {
            command.current_dir(dir);
        }
        let output = command.output()?;
        Ok(Finished {
            success: output.status.success(),
            status: output.status.to_string(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
