//! A scheduler and executors as processes, for tests.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use crate::common::{Ended, command_behind, end_of, tierloom};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tierloom_agent::Token;
use tierloom_cluster::{Access, Answer, ClientOptions, ClusterClient, ClusterError, ClusterMap};
use tierloom_engine::answer::to_text;
use tierloom_engine::arrow::array::RecordBatch;
use tierloom_testing::{Network, NetworkHost};

/// Time after which a statement counts as hung.
pub const HUNG: Duration = Duration::from_secs(120);

/// Time in which a lost shard must be an error.
pub const NOTICED: Duration = Duration::from_secs(10);

/// Scale factor of all generated data; answers for it are stored.
pub const SF: f64 = 0.01;

/// Clusters have many processes and limits on time: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A process that is killed at the end of its test.
pub struct Process(pub Child);

impl Process {
    /// Starts the program and returns the rest of its first line behind `word`.
    pub fn start(folder: &Path, args: &[&str], word: &str) -> (Process, String) {
        Self::behind(&[], folder, args, word)
    }

    /// The same behind the words of a command that makes way for it, such as `ip netns exec NAME`.
    fn behind(wrapper: &[&str], folder: &Path, args: &[&str], word: &str) -> (Process, String) {
        let mut command = command_behind(wrapper, folder, args);
        let mut child = command.spawn().expect("the binary starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("readable");
        let Some(rest) = line.trim().strip_prefix(word) else {
            panic!("{command:?}: {line:?}\n{}", end_of(child).stderr);
        };
        let mut errors = child.stderr.take().expect("piped");
        // A full pipe would block it.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        (Process(child), rest.trim().to_owned())
    }

    /// Processor time that it has used.
    pub fn worked(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()));
        // Fields behind the name, which may have spaces.
        let stat = stat.expect("it lives");
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
        // Linux counts hundredths of a second.
        Duration::from_millis(10 * (ticks(11) + ticks(12)))
    }

    /// Sends it a signal, such as `-STOP`.
    pub fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("kill").success());
    }

    /// Waits for its end; what it has written to a piped stderr.
    pub fn errors(mut self) -> String {
        let mut text = String::new();
        let errors = self.0.stderr.as_mut().expect("piped");
        errors.read_to_string(&mut text).expect("readable");
        text
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A scheduler and executors `a`, `b`, `c`, ... with one thread each.
pub struct Cluster {
    pub folder: TempDir,
    pub url: String,
    /// What all processes are started with.
    pub access: Vec<&'static str>,
    /// What the servers are started with besides.
    pub identity: Vec<&'static str>,
    /// What executors are started with besides.
    pub of_executors: Vec<&'static str>,
    /// The same for statements of this process.
    pub options: ClientOptions,
    pub scheduler: Process,
    pub executors: Vec<Process>,
    /// Where each executor is if they are not where the scheduler is.
    pub hosts: Vec<NetworkHost>,
    _network: Option<Network>,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    pub fn start(executors: usize) -> Cluster {
        let mut cluster = Cluster::alone("127.0.0.1", |_| Secrets::default());
        cluster.add_first(executors);
        cluster
    }

    /// The same with a token, and certificates if `tls`.
    pub fn guarded(executors: usize, tls: bool) -> Cluster {
        let mut cluster = Cluster::alone("127.0.0.1", |folder| Secrets::made(folder, tls));
        cluster.add_first(executors);
        cluster
    }

    /// The same with each executor on a separate host; `Err` says what is missing for that.
    pub fn on_hosts(executors: usize) -> Result<Cluster, String> {
        let network = Network::make()?;
        let hosts = (0..executors).map(|_| network.host());
        let hosts = hosts.collect::<Result<_, _>>()?;
        let address = network.address().to_string();
        let mut cluster = Cluster::alone(&address, |_| Secrets::default());
        cluster.hosts = hosts;
        cluster._network = Some(network);
        cluster.add_first(executors);
        Ok(cluster)
    }

    /// A scheduler on this address, with secrets in the folder that all processes run in.
    fn alone(address: &str, secrets: impl FnOnce(&Path) -> Secrets) -> Cluster {
        // A failed test leaves nothing behind that matters to the next one.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Secrets {
            access,
            identity,
            shown,
        } = secrets(folder.path());
        let listen = format!("{address}:0");
        let more = of_scheduler(&access, &identity);
        let (scheduler, url) = scheduler(folder.path(), &listen, &more);
        Cluster {
            folder,
            url,
            access,
            identity,
            of_executors: Vec::new(),
            options: ClientOptions {
                access: shown,
                ..ClientOptions::default()
            },
            scheduler,
            executors: Vec::new(),
            hosts: Vec::new(),
            _network: None,
            _alone: alone,
        }
    }

    fn add_first(&mut self, executors: usize) {
        for name in ["a", "b", "c", "d", "e"].into_iter().take(executors) {
            self.add(name);
        }
    }

    /// Starts the scheduler again, where it was.
    pub fn restart_scheduler(&mut self) {
        self.scheduler.kill();
        let (_, listen) = self.url.split_once("://").expect("a URL");
        let more = of_scheduler(&self.access, &self.identity);
        let (next, url) = scheduler(self.folder.path(), listen, &more);
        assert_eq!(url, self.url);
        self.scheduler = next;
    }

    /// Starts the executor of a node again, which has ended.
    pub fn restart(&mut self, at: usize, name: &str) {
        self.executors[at] = self.executor(at, name);
    }

    pub fn add(&mut self, name: &str) {
        let next = self.executor(self.executors.len(), name);
        self.executors.push(next);
    }

    fn executor(&self, at: usize, name: &str) -> Process {
        let args = ["--name", name, "--threads", "1"];
        let args = [
            &["cluster", "executor", "--scheduler", &self.url],
            &args[..],
            &self.access,
            &self.identity,
            &self.of_executors,
        ];
        let (folder, args) = (self.folder.path(), args.concat());
        let Some(host) = self.hosts.get(at) else {
            return Process::start(folder, &args, "executor").0;
        };
        let address = host.address().to_string();
        let args = [&args[..], &["--listen", &address]].concat();
        Process::behind(&host.wrapper(), folder, &args, "executor").0
    }

    /// Panics if an executor has ended.
    pub fn expect_all(&mut self) {
        for executor in &mut self.executors {
            let ended = executor.0.try_wait().expect("a child");
            assert!(ended.is_none(), "an executor ended: {ended:?}");
        }
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        let head = ["cluster", args[0], "--scheduler", &self.url];
        tierloom(
            self.folder.path(),
            &[&head, &self.access[..], &args[1..]].concat(),
        )
    }

    pub fn load(&self, args: &[&str]) {
        self.run(&[&["load"], args].concat()).with_code(0);
    }

    pub fn client(&self) -> ClusterClient {
        ClusterClient::with_options(&self.url, self.options.clone()).expect("a URL")
    }

    pub fn map(&self) -> ClusterMap {
        self.client().map().expect("the scheduler answers")
    }

    /// The rows of a query, which must end in time.
    pub fn answer(&self, sql: &str) -> Result<Answer, ClusterError> {
        let start = Instant::now();
        let answer = self.client().run(sql, &|| start.elapsed() > HUNG);
        if let Err(ClusterError::Interrupted) = answer {
            panic!("hung: {sql}");
        }
        answer
    }

    pub fn text(&self, sql: &str) -> String {
        let answer = self.answer(sql).unwrap_or_else(|e| panic!("{sql}\n{e}"));
        text_of(&answer)
    }

    /// Processor time that its executors have used.
    pub fn worked(&self) -> Duration {
        self.executors.iter().map(Process::worked).sum()
    }

    /// Waits until no process does anything for a statement any more.
    pub fn until_idle(&self, patience: Duration) {
        let begun = Instant::now();
        let used = || self.worked() + self.scheduler.worked();
        loop {
            let before = used();
            std::thread::sleep(Duration::from_secs(1));
            let more = used() - before;
            // They report to the scheduler, and have timers.
            if more < Duration::from_millis(150) {
                return;
            }
            assert!(begun.elapsed() < patience, "{more:?} in a second");
        }
    }

    /// Waits until `seen` holds for the map, at most as long as a loss may go unnoticed.
    pub fn until(&self, seen: impl Fn(&ClusterMap) -> bool) {
        let start = Instant::now();
        while !seen(&self.map()) {
            assert!(start.elapsed() < NOTICED * 2, "{:?}", self.map());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What a scheduler is started with: it has no use for the certificate of others.
fn of_scheduler<'s>(access: &[&'s str], identity: &[&'s str]) -> Vec<&'s str> {
    [access.get(..2).unwrap_or_default(), identity].concat()
}

/// What processes of a cluster show each other.
#[derive(Default)]
struct Secrets {
    access: Vec<&'static str>,
    identity: Vec<&'static str>,
    shown: Access,
}

impl Secrets {
    /// A token, and certificates if `tls`, in files of `folder`.
    fn made(folder: &Path, tls: bool) -> Secrets {
        let token = Token::generate().expect("random bytes");
        let file = |name: &str| folder.join(name);
        token.write_new(&file("token")).expect("written");
        let mut secrets = Secrets {
            access: vec!["--token-file", "token"],
            ..Secrets::default()
        };
        secrets.shown.token = Some(token);
        if tls {
            let (certificate, key) = self_signed();
            std::fs::write(file("cert.pem"), &certificate).expect("written");
            std::fs::write(file("key.pem"), key).expect("written");
            secrets.access.extend(["--tls-ca", "cert.pem"]);
            secrets.identity = vec!["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
            secrets.shown.tls_ca = Some(certificate);
        }
        secrets
    }
}

pub fn scheduler(folder: &Path, listen: &str, more: &[&str]) -> (Process, String) {
    let args = ["cluster", "scheduler", "--listen", listen];
    let args = [&args[..], &["--tables", "tables.json"], more].concat();
    Process::start(folder, &args, "scheduler")
}

/// A certificate for this machine's own address and its key, as PEM.
pub fn self_signed() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
    let made = made.expect("a certificate");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// The rows as CSV with a header, also of an answer without rows.
pub fn text_of(answer: &Answer) -> String {
    let mut batches = vec![RecordBatch::new_empty(answer.schema.clone())];
    batches.extend(answer.batches.clone());
    to_text(&batches).expect("all types have a text form")
}
