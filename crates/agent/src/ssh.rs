//! Agents that are started over ssh for as long as the coordinator needs them.
//!
//! One `ssh` starts the agent on the host's loopback address and passes it a new token on standard
//! input. The coordinator connects to a local port, and for each connection another `ssh -W`
//! forwards the bytes. So nothing listens on a network and no port has to be chosen. The agent ends
//! with the first `ssh`, because its standard input then ends.

use std::collections::VecDeque;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Runtime;

use crate::{AgentError, HostAddress, Log, Stop, Token};

/// What a listening agent prints before its address; [`SshLaunch`] waits for a line that begins so.
pub const LISTENING: &str = "listening ";
/// Number of ssh's last lines in an error.
const LAST_LINES: usize = 5;
/// How long lines of an ssh that has failed are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long an agent may take to end before its ssh is killed.
const FAREWELL: Duration = Duration::from_secs(3);

/// Starts an agent on a host that ssh reaches. [`SshLaunch::new`] fills in defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SshLaunch {
    /// Name of the host in workload files, records and errors.
    pub name: String,
    /// The destination for ssh: `db7`, `user@db7`, or a name from `~/.ssh/config`.
    pub destination: String,
    /// The program to start on the host.
    pub program: String,
    /// Arguments of the program.
    ///
    /// It must listen on loopback, read the token from standard input, print [`LISTENING`] and its
    /// address, and end when standard input ends.
    pub arguments: Vec<String>,
    /// Further arguments, after `arguments`.
    pub extra_args: Vec<String>,
    /// The local ssh program.
    pub ssh: PathBuf,
    /// Limit for connecting and starting.
    pub timeout: Duration,
    /// Receives what the agent and ssh write to standard error.
    pub log: Log,
}

impl SshLaunch {
    /// Starts `tierloom bench --agent`, found in the host's `PATH`, with the local `ssh`.
    pub fn new(name: impl Into<String>, destination: impl Into<String>) -> Self {
        let arguments = [
            "bench",
            "--agent",
            "--listen",
            "127.0.0.1:0",
            "--token-stdin",
        ];
        Self {
            name: name.into(),
            destination: destination.into(),
            program: "tierloom".to_owned(),
            arguments: arguments.map(str::to_owned).to_vec(),
            extra_args: Vec::new(),
            ssh: PathBuf::from("ssh"),
            timeout: Duration::from_secs(30),
            log: Log::silent(),
        }
    }

    /// Starts the agent and waits until it listens.
    ///
    /// Blocks; must not be called from within an async runtime.
    ///
    /// # Errors
    /// [`AgentError::Ssh`] with the last lines of ssh if there is no agent within the timeout.
    pub fn launch(&self) -> Result<SshAgent, AgentError> {
        if self.destination.is_empty() || self.destination.starts_with('-') {
            return Err(self.failed("this is no destination"));
        }
        let token = Token::generate().map_err(|error| self.failed(error))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("ssh")
            .enable_all()
            .build()
            .map_err(|error| AgentError::Runtime {
                what: "forwarding by ssh",
                reason: error.to_string(),
            })?;
        let last_lines = LastLines::default();
        let (mut child, stdin, port) = runtime.block_on(async {
            let mut child = self
                .command(&[])
                .spawn()
                .map_err(|error| self.failed(error))?;
            let reader = child.stderr.take().map(|stderr| {
                let lines = BufReader::new(stderr).lines();
                let kept = last_lines.clone();
                tokio::spawn(kept.keep(lines, self.name.clone(), self.log.clone()))
            });
            let listening =
                tokio::time::timeout(self.timeout, self.listening(&mut child, &token)).await;
            let listening = listening.unwrap_or_else(|_| {
                let waited_s = self.timeout.as_secs_f64();
                Err(format!("no agent listened after {waited_s:.0} s"))
            });
            match listening {
                Ok((stdin, port)) => Ok((child, stdin, port)),
                Err(reason) => {
                    // What ssh said last may still be on its way, and is the reason.
                    if let Some(reader) = reader {
                        let _ = tokio::time::timeout(LAST_WORDS, reader).await;
                    }
                    Err(self.failed(format!("{reason}{}", last_lines.words())))
                }
            }
        })?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (local, listener) = listener.map_err(|error| {
            let _ = child.start_kill();
            self.failed(format!("no port of our own to forward from: {error}"))
        })?;
        runtime.spawn(self.clone().forward_all(listener, port));
        let address = HostAddress::new(self.name.clone(), local.to_string(), token);
        Ok(SshAgent {
            address,
            child,
            stdin: Some(stdin),
            runtime: Some(runtime),
        })
    }

    /// Sends the token and waits for the port.
    async fn listening(
        &self,
        child: &mut Child,
        token: &Token,
    ) -> Result<(ChildStdin, u16), String> {
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("ssh has no standard input or output".to_owned());
        };
        // A failed write means that ssh has ended; its output says why.
        let _ = stdin
            .write_all(format!("{}\n", token.to_hex()).as_bytes())
            .await;
        let _ = stdin.flush().await;
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(address) = line.strip_prefix(LISTENING) {
                let address: SocketAddr = address
                    .trim()
                    .parse()
                    .map_err(|_| format!("it listens on `{address}`, which is no address"))?;
                tokio::spawn(drain(lines));
                return Ok((stdin, address.port()));
            }
        }
        let ended = child
            .wait()
            .await
            .map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(format!("no agent listened; ssh ended with {ended}"))
    }

    async fn forward_all(self, listener: TcpListener, port: u16) {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(self.clone().forward(stream, port));
        }
    }

    /// Forwards one connection.
    ///
    /// If ssh fails, the coordinator's connection closes and the log has the reason.
    async fn forward(self, mut stream: TcpStream, port: u16) {
        let target = format!("127.0.0.1:{port}");
        let mut child = match self.command(&["-W", &target]).spawn() {
            Ok(child) => child,
            Err(error) => {
                return self
                    .log
                    .say(&format!("{}: cannot forward by ssh: {error}", self.name));
            }
        };
        if let Some(stderr) = child.stderr.take() {
            let lines = BufReader::new(stderr).lines();
            tokio::spawn(LastLines::default().keep(lines, self.name.clone(), self.log.clone()));
        }
        if let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) {
            let mut there = tokio::io::join(stdout, stdin);
            // Either side may close the connection at any time.
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut there).await;
        }
        let _ = child.start_kill();
        let _ = child.wait().await;
    }

    /// An ssh command with common options: with `forward`, or else with the agent's command line.
    fn command(&self, forward: &[&str]) -> Command {
        let mut command = Command::new(&self.ssh);
        // No terminal and no prompts, since nobody could answer them.
        command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
        // A dead connection is noticed after about 10 s.
        command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"]);
        command.args(forward).arg("--").arg(&self.destination);
        if forward.is_empty() {
            command.arg(self.remote_command());
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C in the terminal must not reach ssh: the coordinator stops the hosts in order
        // first.
        command.process_group(0).kill_on_drop(true);
        command
    }

    /// The command line for the host's shell.
    fn remote_command(&self) -> String {
        let words = std::iter::once(&self.program)
            .chain(&self.arguments)
            .chain(&self.extra_args);
        words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    fn failed(&self, reason: impl std::fmt::Display) -> AgentError {
        AgentError::Ssh {
            destination: self.destination.clone(),
            reason: reason.to_string(),
            attempt: format!(
                "{} -- {} {} --version",
                self.ssh.display(),
                quoted(&self.destination),
                quoted(&self.program)
            ),
        }
    }
}

/// An agent that was started over ssh.
///
/// It ends when this is dropped, so keep this longer than the coordinator.
#[derive(Debug)]
pub struct SshAgent {
    address: HostAddress,
    child: Child,
    /// `None` only while being dropped.
    stdin: Option<ChildStdin>,
    runtime: Option<Runtime>,
}

impl SshAgent {
    /// The local address at which the coordinator reaches the agent, with its token.
    pub fn address(&self) -> &HostAddress {
        &self.address
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        // The end of its standard input ends the agent and thereby ssh; if not, ssh is killed.
        let stdin = self.stdin.take();
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        runtime.block_on(async {
            drop(stdin);
            if tokio::time::timeout(FAREWELL, self.child.wait())
                .await
                .is_err()
            {
                let _ = self.child.kill().await;
            }
        });
        // This also ends the forwarding tasks and their ssh processes.
        runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

/// Requests `stop` when `input` ends.
///
/// For an agent with its token on standard input, the end of which means that the coordinator is
/// gone.
///
/// # Errors
/// If no thread can be created.
pub fn stop_at_end_of(mut input: impl Read + Send + 'static, stop: Stop) -> std::io::Result<()> {
    let watch = move || {
        let mut rest = [0; 256];
        while input.read(&mut rest).is_ok_and(|count| count > 0) {}
        stop.request();
    };
    std::thread::Builder::new()
        .name("agent-input".to_owned())
        .spawn(watch)
        .map(drop)
}

/// The last lines of ssh's standard error.
#[derive(Clone, Default)]
struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    async fn keep<R: tokio::io::AsyncBufRead + Unpin>(
        self,
        mut lines: Lines<R>,
        host: String,
        log: Log,
    ) {
        while let Ok(Some(line)) = lines.next_line().await {
            log.say(&format!("{host}: {line}"));
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == LAST_LINES {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    }

    /// A colon and the lines, or an empty text.
    fn words(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return String::new();
        }
        format!(
            ": {}",
            kept.iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("; ")
        )
    }
}

async fn drain(mut lines: Lines<BufReader<ChildStdout>>) {
    while let Ok(Some(_)) = lines.next_line().await {}
}

/// Quotes a word for a POSIX shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_shell_gets_each_word_as_it_is() {
        let mut launch = SshLaunch::new("a", "db7");
        assert_eq!(
            launch.remote_command(),
            "tierloom bench --agent --listen 127.0.0.1:0 --token-stdin"
        );
        let words = ["it's", "$(reboot)", "a b", "", "*"];
        launch.program = "printf".to_owned();
        launch.arguments = vec!["%s|".to_owned()];
        launch.extra_args = words.map(str::to_owned).to_vec();
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(launch.remote_command())
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "it's|$(reboot)|a b||*|"
        );
    }

    #[test]
    fn a_destination_is_never_an_option() {
        for destination in ["-oProxyCommand=reboot", ""] {
            let error = SshLaunch::new("a", destination).launch().unwrap_err();
            assert!(matches!(error, AgentError::Ssh { .. }), "{error}");
        }
    }

    #[test]
    fn the_end_of_input_is_a_request_to_stop() {
        let stop = Stop::new();
        stop_at_end_of(&b"rest"[..], stop.clone()).unwrap();
        assert!(stop.wait_timeout(Duration::from_secs(60)));
    }
}
