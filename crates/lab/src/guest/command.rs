//! A command that a guest runs.

use std::net::SocketAddrV4;
use std::time::Duration;

use crate::LabError;

/// A command to run in the guest.
///
/// Commands run as root, one after another, whatever the earlier ones returned. A shell command may
/// leave a background process for later ones; its output must then go to a file, because a command
/// counts as ended only when no process holds its output open any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestCommand {
    /// The program, found in the guest's `PATH`, and its arguments.
    pub argv: Vec<String>,
    /// Variables added to the environment, in order.
    pub env: Vec<(String, String)>,
    /// Whether output also goes to the console while the command runs.
    ///
    /// The emulated serial console is slow, so turn this off for large outputs.
    pub echo: bool,
}

impl GuestCommand {
    /// A program with its arguments, echoed on the console.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> GuestCommand {
        GuestCommand {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            echo: true,
        }
    }

    /// A script for busybox's `sh`.
    pub fn shell(script: impl Into<String>) -> GuestCommand {
        GuestCommand::new(["/bin/sh".to_owned(), "-c".to_owned(), script.into()])
    }

    /// Waits until TCP connections to `address` are accepted, for example by a program in another
    /// guest.
    ///
    /// The test connection is closed at once. Exits with 1 if nothing accepts one within `limit`
    /// (whole seconds).
    pub fn wait_for_port(address: SocketAddrV4, limit: Duration) -> GuestCommand {
        let (host, port, seconds) = (address.ip(), address.port(), limit.as_secs());
        GuestCommand::shell(format!(
            "# until {address} answers\nend=$(($(date +%s) + {seconds})); until nc -w 1 {host} {port} -e true 2>/dev/null; do \
             [ $(date +%s) -lt $end ] || {{ echo 'nobody listens at {address} within {seconds} s' >&2; exit 1; }}; sleep 0.1; done"
        ))
    }

    /// Adds a variable to the environment.
    ///
    /// A name that is no shell variable name is refused before the boot.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> GuestCommand {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Keeps the output off the console; it is still part of the results.
    pub fn quiet(mut self) -> GuestCommand {
        self.echo = false;
        self
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        let bad = |what: String| Err(LabError::BadGuest { what });
        if self.argv.first().is_none_or(String::is_empty) {
            return bad("a command without a program".into());
        }
        if self
            .argv
            .iter()
            .chain(self.env.iter().map(|(_, value)| value))
            .any(|word| word.contains('\0'))
        {
            return bad(format!("a NUL byte in the command {:?}", self.argv));
        }
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match self.env.iter().find(|(name, _)| !is_name(name)) {
            Some((name, _)) => bad(format!("{name:?} is no name of an environment variable")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_no_shell_can_start_are_refused() {
        assert!(GuestCommand::new(Vec::<String>::new()).check().is_err());
        assert!(GuestCommand::new([""]).check().is_err());
        assert!(GuestCommand::new(["a\0b"]).check().is_err());
        assert!(GuestCommand::new(["a"]).env("1X", "v").check().is_err());
        GuestCommand::shell("exit 1")
            .env("RUST_BACKTRACE", "1")
            .check()
            .unwrap();
    }
}
