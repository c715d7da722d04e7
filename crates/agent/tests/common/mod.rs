//! Agents for tests, in a thread of this process or in a separate process.

#![allow(dead_code)] // Each test file uses its part.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tierloom_agent::{
    AgentError, AgentOptions, Coordinator, HostAddress, HostRunner, LISTENING, Log, Ready,
    RunnerError, Stop, Token, WallClock, serve,
};

/// Long enough for anything on a busy machine; nothing should take this long.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Shorter than the default, so that tests wait less.
pub const LEASE: Duration = Duration::from_secs(2);

/// A runner that does what the first word of a request says; the rest of the request is a folder
/// for its marker files.
pub struct Script {
    pub clock: Arc<dyn WallClock>,
}

struct Work {
    clock: Arc<dyn WallClock>,
    words: Vec<String>,
}

impl Script {
    pub fn new(clock: Arc<dyn WallClock>) -> Arc<Self> {
        Arc::new(Self { clock })
    }
}

impl HostRunner for Script {
    fn prepare(&self, request: &str, stop: &Stop) -> Result<Box<dyn Ready>, RunnerError> {
        let words: Vec<String> = request.split(' ').map(str::to_owned).collect();
        match words[0].as_str() {
            "fail-prepare" => return Err(RunnerError::Failed("no node 7 here".to_owned())),
            "panic-prepare" => panic!("prepare broke"),
            "slow-prepare" if stop.wait_timeout(PATIENCE) => return Err(RunnerError::Stopped),
            _ => {}
        }
        Ok(Box::new(Work {
            clock: Arc::clone(&self.clock),
            words,
        }))
    }
}

impl Ready for Work {
    fn summary(&self) -> String {
        format!("ready for {}", self.words[0])
    }

    fn run(self: Box<Self>, start: SystemTime, stop: &Stop) -> Result<String, RunnerError> {
        let begun = self
            .clock
            .wait_until(start, stop)
            .ok_or(RunnerError::Stopped)?;
        let start_ns = start.duration_since(UNIX_EPOCH).unwrap().as_nanos();
        match self.words[0].as_str() {
            "fail-run" => Err(RunnerError::Failed("pages moved".to_owned())),
            "panic-run" => panic!("run broke"),
            "large" => Ok("\"".repeat(self.words[1].parse().unwrap())),
            "load" => {
                let folder = Path::new(&self.words[1]);
                std::fs::write(folder.join("begun"), "").unwrap();
                stop.wait_timeout(PATIENCE * 10);
                std::fs::write(folder.join("ended"), "").unwrap();
                Ok(format!(
                    "load until {}",
                    if stop.requested() {
                        "stopped"
                    } else {
                        "the end"
                    }
                ))
            }
            _ => Ok(format!("{} {start_ns} {}", self.words[0], begun.as_nanos())),
        }
    }
}

/// An agent in a thread of this process.
pub struct ThreadAgent {
    pub address: SocketAddr,
    pub token: Token,
    pub log: Arc<Mutex<Vec<String>>>,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), AgentError>>>,
}

impl ThreadAgent {
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut AgentOptions)) -> Self {
        let token = Token::generate().unwrap();
        let mut options = AgentOptions::new("127.0.0.1:0".parse().unwrap(), token.clone());
        options.lease = LEASE;
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        options.log = Log::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        change(&mut options);
        let (tell, ready) = mpsc::channel();
        let stop = Stop::new();
        let end = stop.clone();
        let runner = Script::new(Arc::clone(&options.clock));
        let thread = std::thread::spawn(move || {
            serve(options, runner, |address| tell.send(address).unwrap(), end)
        });
        let address = ready.recv_timeout(PATIENCE).expect("the agent listens");
        Self {
            address,
            token,
            log,
            stop,
            thread: Some(thread),
        }
    }

    pub fn host(&self, name: &str) -> HostAddress {
        HostAddress::new(name, self.address.to_string(), self.token.clone())
    }

    pub fn logged(&self, word: &str) -> bool {
        self.log
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains(word))
    }
}

impl Drop for ThreadAgent {
    fn drop(&mut self) {
        self.stop.request();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended
                .expect("the agent does not panic")
                .expect("the agent ends well");
        }
    }
}

/// A child process of this test program that runs one of its ignored tests, with its instructions
/// on standard input.
pub struct Process {
    pub child: Child,
    pub lines: mpsc::Receiver<String>,
}

impl Process {
    /// `wrapper` is a command that runs the child, such as `ip netns exec NAME`.
    pub fn start(wrapper: &[&str], test: &str, input: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut words: Vec<&str> = wrapper.to_vec();
        words.push(program.to_str().unwrap());
        words.extend(["--exact", test, "--ignored", "--nocapture"]);
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env(CHILD, "1")
            .spawn()
            .unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{input}").unwrap();
        let (tell, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// The rest of the first line that contains `word`.
    pub fn wait_for(&self, word: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("no `{word}` of the process"));
            // The test harness writes text before it on the same line.
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Set in processes that [`Process`] starts.
pub const CHILD: &str = "TIERLOOM_AGENT_TEST_CHILD";

/// Whether this is such a process.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// An agent process: standard input has the address to listen on and the token, standard output
/// gets `listening ADDRESS`.
pub fn agent_process(allow_plain_remote: bool) {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let (listen, token) = line.trim().split_once(' ').unwrap();
    let mut options = AgentOptions::new(listen.parse().unwrap(), Token::parse(token).unwrap());
    options.lease = LEASE;
    options.allow_plain_remote = allow_plain_remote;
    let runner = Script::new(Arc::clone(&options.clock));
    serve(
        options,
        runner,
        |address| println!("\n{LISTENING}{address}"),
        Stop::new(),
    )
    .unwrap();
}

/// Polls until a condition holds.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A folder, and the request for load that marks its beginning and end there.
pub struct Marks(pub tempfile::TempDir);

impl Marks {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn load(&self) -> String {
        format!("load {}", self.0.path().display())
    }

    pub fn mark(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn wait_for(&self, name: &str) {
        eventually(name, || self.mark(name).exists());
    }
}

pub fn connect(hosts: &[HostAddress]) -> Result<Coordinator, AgentError> {
    Coordinator::connect(hosts, Duration::from_secs(20))
}

/// Prepares and starts one request per host.
pub fn begin(
    coordinator: &mut Coordinator,
    requests: &[(&str, &str)],
) -> Result<SystemTime, AgentError> {
    let requests = requests
        .iter()
        .map(|(host, request)| ((*host).to_owned(), (*request).to_owned()))
        .collect();
    coordinator.prepare(requests)?;
    coordinator.start(Duration::from_millis(500))
}
