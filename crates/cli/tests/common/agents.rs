//! Agents as processes on this machine's loopback.

use super::command;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command};

/// The token of all agents and coordinators.
pub const TOKEN: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// An agent in a separate process, which is killed on drop.
pub struct Agent {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Agent {
    /// Starts one on a free port.
    pub fn start(folder: &Path) -> Agent {
        Agent::at(folder, "127.0.0.1:0")
    }

    /// Starts one that listens there.
    pub fn at(folder: &Path, listen: &str) -> Agent {
        let mut command = command(folder, &["bench", "--agent", "--listen", listen]);
        let mut child = command.env("TIERLOOM_TOKEN", TOKEN).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let Some(address) = line.trim().strip_prefix("listening ") else {
            let _ = child.kill();
            let mut message = String::new();
            let _ = stderr.read_to_string(&mut message);
            panic!("{line:?} instead of an address; stderr:\n{message}");
        };
        // The log must be drained: a full pipe would block the agent.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Agent {
            child,
            address: address.to_owned(),
        }
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends Ctrl-C.
pub fn interrupt(pid: u32) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -INT {pid}")])
        .status()
        .expect("sh");
    assert!(sent.success(), "the process ended too early");
}
