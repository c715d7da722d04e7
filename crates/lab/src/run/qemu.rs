//! The QEMU process: starting, watching and killing it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::judge::Ended;
use super::watch::Watch;
use crate::{Kit, LabError};

/// How long to wait for a console line before the guest's state is checked.
const LOOK: Duration = Duration::from_millis(200);

/// A running QEMU, killed on drop.
pub(super) struct Qemu {
    child: Child,
    lines: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
    pub(super) console: String,
    pub(super) stderr: String,
}

impl Qemu {
    /// Starts the kit's QEMU through the kit's loader and with the kit's libraries, so that the
    /// host's C library does not matter.
    pub(super) fn start(kit: &Kit, args: &[String]) -> Result<Qemu, LabError> {
        let library_path =
            std::env::join_paths(&kit.library_dirs).map_err(|error| LabError::BadGuest {
                what: format!("the cache's path cannot hold libraries: {error}"),
            })?;
        let mut command = Command::new(&kit.loader);
        // Preloaded libraries of the host would be linked with the kit's C library, and a module
        // folder of the host belongs to another QEMU.
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "QEMU_MODULE_DIR",
        ] {
            command.env_remove(name);
        }
        command
            .arg("--library-path")
            .arg(library_path)
            .arg(&kit.qemu);
        // Debian's QEMU looks for its firmware below /usr/share, which is inside the kit here.
        for dir in &kit.firmware_dirs {
            command.arg("-L").arg(dir);
        }
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(LabError::io("start QEMU with", &kit.loader))?;
        // Both pipes are drained by threads: QEMU would block on a full one.
        let (send, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || pump_lines(stdout, &send));
        }
        let errors = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // A partial message is still worth showing.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Ok(Qemu {
            child,
            lines,
            errors,
            console: String::new(),
            stderr: String::new(),
        })
    }

    /// Forwards console lines until QEMU exits or `watch` gives a reason to kill it.
    pub(super) fn watch(
        &mut self,
        watch: &Watch<'_>,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<Ended, LabError> {
        let mut course = watch.begin(self.child.id());
        let ended = loop {
            if let Some(ended) = course.look()? {
                break ended;
            }
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    course.line(&line);
                    self.console.push_str(&line);
                    self.console.push('\n');
                    on_line(&line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    if let Some(status) = self
                        .child
                        .try_wait()
                        .map_err(LabError::io("wait for", "QEMU"))?
                    {
                        break Ended::Exited(status);
                    }
                    // stdout is closed but the process has not exited yet.
                    thread::sleep(Duration::from_millis(10));
                }
            }
        };
        self.kill();
        if let Some(Ok(text)) = self.errors.take().map(thread::JoinHandle::join) {
            self.stderr = text;
        }
        Ok(ended)
    }

    fn kill(&mut self) {
        // It may have exited already, so an error here means nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

fn pump_lines(stdout: impl Read, send: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(stdout);
    let mut bytes = Vec::new();
    while matches!(reader.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
        if send.send(clean_line(&bytes)).is_err() {
            return;
        }
        bytes.clear();
    }
}

/// A console line without line ends, escape sequences of the firmware and other control characters.
fn clean_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            if chars.next() == Some('[') {
                while chars.next_if(|c| !('@'..='~').contains(c)).is_some() {}
                chars.next();
            }
        } else if c == '\t' || !c.is_control() {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_lines_lose_what_would_disturb_a_terminal() {
        assert_eq!(clean_line(b"\x1b[2J\x1b[01;02Ha\tb\r\n"), "a\tb");
        assert_eq!(clean_line(b"\x1b[unfinished"), "nfinished");
        assert_eq!(clean_line(b"\xff\x07ok"), "\u{fffd}ok");
    }
}
