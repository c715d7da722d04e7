//! A scheduler and executors as processes, for tests.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use crate::common::{Ended, command, end_of, tierloom};
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
        let mut child = command(folder, args).spawn().expect("the binary starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("readable");
        let Some(rest) = line.trim().strip_prefix(word) else {
            panic!("{args:?}: {line:?}\n{}", end_of(child).stderr);
        };
        let mut errors = child.stderr.take().expect("piped");
        // A full pipe would block it.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        (Process(child), rest.trim().to_owned())
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
    /// The same for statements of this process.
    pub options: ClientOptions,
    pub scheduler: Process,
    pub executors: Vec<Process>,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    pub fn start(executors: usize) -> Cluster {
        // A failed test leaves nothing behind that matters to the next one.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (scheduler, url) = scheduler(folder.path(), "127.0.0.1:0", &[]);
        let mut cluster = Cluster {
            folder,
            url,
            access: Vec::new(),
            identity: Vec::new(),
            options: ClientOptions::default(),
            scheduler,
            executors: Vec::new(),
            _alone: alone,
        };
        for name in ["a", "b", "c", "d", "e"].into_iter().take(executors) {
            cluster.add(name);
        }
        cluster
    }

    /// The same with a token, and certificates if `tls`.
    pub fn guarded(executors: usize, tls: bool) -> Cluster {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let token = Token::generate().expect("random bytes");
        let file = |name: &str| folder.path().join(name);
        token.write_new(&file("token")).expect("written");
        let (mut access, mut identity) = (vec!["--token-file", "token"], Vec::new());
        let mut shown = Access {
            token: Some(token),
            ..Access::default()
        };
        if tls {
            let (certificate, key) = self_signed();
            std::fs::write(file("cert.pem"), &certificate).expect("written");
            std::fs::write(file("key.pem"), key).expect("written");
            access.extend(["--tls-ca", "cert.pem"]);
            identity.extend(["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
            shown.tls_ca = Some(certificate);
        }
        let more = [&access[..2], &identity].concat();
        let (scheduler, url) = scheduler(folder.path(), "127.0.0.1:0", &more);
        let mut cluster = Cluster {
            folder,
            url,
            access,
            identity,
            options: ClientOptions {
                access: shown,
                ..ClientOptions::default()
            },
            scheduler,
            executors: Vec::new(),
            _alone: alone,
        };
        for name in ["a", "b", "c"].into_iter().take(executors) {
            cluster.add(name);
        }
        cluster
    }

    pub fn add(&mut self, name: &str) {
        let args = ["--name", name, "--threads", "1"];
        let args = [
            &["cluster", "executor", "--scheduler", &self.url],
            &args[..],
            &self.access,
            &self.identity,
        ];
        let (executor, _) = Process::start(self.folder.path(), &args.concat(), "executor");
        self.executors.push(executor);
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

    /// Waits until `seen` holds for the map, at most as long as a loss may go unnoticed.
    pub fn until(&self, seen: impl Fn(&ClusterMap) -> bool) {
        let start = Instant::now();
        while !seen(&self.map()) {
            assert!(start.elapsed() < NOTICED * 2, "{:?}", self.map());
            std::thread::sleep(Duration::from_millis(50));
        }
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
