//! A server in this process, and the programs that connect to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tierloom_engine::EngineOptions;
use tierloom_memory::{FakeBackend, FakeNode, PageSize, fake_topology};
use tierloom_serve::{Address, Reached, ServeError, ServeOptions, serve};
use tierloom_sql::{
    AdmissionOptions, CollectedRows, Generated, SharedEngine, Silent, SqlOptions, SqlSession, split,
};
use tierloom_workloads::ssb::{SsbConfig, queries};

/// A server that ends with the test.
pub struct Server {
    /// Of PostgreSQL's protocol; 0 if it is not served.
    pub port: u16,
    /// URL of Flight SQL.
    pub flight: Option<String>,
    /// URL of its metrics.
    pub metrics: Option<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

/// Everybody on this machine, without passwords.
pub fn open() -> ServeOptions {
    ServeOptions {
        addresses: vec!["127.0.0.1:0".parse().unwrap()],
        flight: None,
        passwords: None,
        certificate: None,
        allow_plain: false,
        operators: Vec::new(),
        connections: 100,
        metrics: None,
    }
}

/// A session on a simulated machine with DRAM on node 0 and CXL on node 1.
pub fn session() -> SqlSession {
    let node = |node, cpus| FakeNode {
        node,
        cpus,
        memory_bytes: 4 << 30,
    };
    let options = SqlOptions {
        engine: EngineOptions::tuned(2),
        topology: fake_topology(&[node(0, 2), node(1, 0)]).unwrap(),
        page_size: PageSize::Base,
        placement: "dram".parse().unwrap(),
        backend: Arc::new(FakeBackend::with_nodes(&[(0, 4 << 30), (1, 4 << 30)])),
    };
    let mut session = SqlSession::new(options).unwrap();
    let made = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'one'), (2, ''), (3, NULL)) AS v(a, b);
        CREATE TABLE n AS SELECT * FROM generate_series(1, 20000) AS g(a)";
    for piece in split(made).unwrap() {
        let mut rows = CollectedRows::default();
        session.run(&piece, &mut rows, &Silent::default()).unwrap();
    }
    session
}

/// Same with the tables of the Star Schema Benchmark.
pub fn with_ssb() -> SqlSession {
    let mut session = session();
    let data = Generated::Ssb(SsbConfig::new(0.01, 42).unwrap());
    session.generate(&data, &Silent::default()).unwrap();
    session
}

/// A query that runs for hours.
pub const ENDLESS: &str = "SELECT count(*) FROM n x, n y, n z WHERE x.a * y.a + z.a = 7";

impl Server {
    pub fn start() -> Server {
        Server::with(open(), session())
    }

    /// A server on which psql has run `statements`; `None` without psql.
    pub fn with_tables(statements: &str) -> Option<Server> {
        let server = Server::start();
        let made = server.psql("tester")?.args(["-c", statements]).output();
        printed(&made.unwrap());
        Some(server)
    }

    pub fn with(options: ServeOptions, session: SqlSession) -> Server {
        let admission = AdmissionOptions {
            statements: 4,
            ..AdmissionOptions::default()
        };
        let engine = SharedEngine::new(session, admission);
        let stop = Arc::new(AtomicBool::new(false));
        let (send, ready) = channel();
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let ready = move |reached: &Reached| send.send(reached.clone()).unwrap();
                serve(engine, &options, ready, &stop)
            }
        });
        let Ok(reached) = ready.recv() else {
            panic!("{:?}", thread.join())
        };
        let port = match reached.addresses.first() {
            Some(Address::Tcp(address)) => address.port(),
            Some(Address::Unix(_)) => 5432,
            None => 0,
        };
        Server {
            port,
            flight: reached.flight,
            metrics: reached.metrics,
            stop,
            thread: Some(thread),
        }
    }

    /// Why a server with these options does not start.
    pub fn refused(options: &ServeOptions, session: SqlSession) -> ServeError {
        let engine = SharedEngine::new(session, AdmissionOptions::default());
        let stop = AtomicBool::new(true);
        serve(engine, options, |_| panic!("started"), &stop).unwrap_err()
    }

    /// Ends it, and says how.
    pub fn end(mut self) -> Result<(), ServeError> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }

    /// psql as `user`; `None` if it is not installed.
    pub fn psql(&self, user: &str) -> Option<Command> {
        if Command::new("psql").arg("--version").output().is_err() {
            tierloom_testing::checked_nothing("there is no psql (Debian: postgresql-client)");
            return None;
        }
        let mut psql = Command::new("psql");
        psql.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"])
            .args(["-p", &self.port.to_string(), "-U", user, "-d", "tierloom"])
            .env("PGCONNECT_TIMEOUT", "20")
            .env_remove("PGPASSWORD");
        Some(psql)
    }

    /// Runs a program of Python with what it needs imported; `None` if a module is missing.
    pub fn python(&self, modules: &[&str], program: &str) -> Option<Output> {
        let python =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pg-clients/bin/python");
        let imports = modules.join(", ");
        let there = Command::new(&python)
            .args(["-c", &format!("import {imports}")])
            .output();
        if !there.is_ok_and(|there| there.status.success()) {
            let told = format!(
                "{} has no {imports}; `cargo xtask tests` installs them",
                python.display()
            );
            tierloom_testing::checked_nothing(told);
            return None;
        }
        let program = format!("import {imports}\nPORT = {}\n{program}", self.port);
        Some(
            Command::new(&python)
                .args(["-c", &program])
                .output()
                .unwrap(),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok_and(|ended| ended.is_ok()));
        }
    }
}

/// What the shell answers, a line per row with `|` between values.
pub fn answer(engine: &SharedEngine, text: &str) -> String {
    let mut rows = CollectedRows::default();
    let piece = &split(text).unwrap()[0];
    engine
        .session()
        .run(piece, &mut rows, &Silent::default())
        .unwrap();
    let mut lines = String::new();
    for batch in &rows.batches {
        for row in 0..batch.num_rows() {
            let values = batch
                .columns()
                .iter()
                .map(|column| arrow::util::display::array_value_to_string(column, row).unwrap());
            lines.push_str(&values.collect::<Vec<_>>().join("|"));
            lines.push('\n');
        }
    }
    lines
}

/// Python: the queries of the Star Schema Benchmark as `QUERIES`, what the shell answers them as
/// `EXPECTED`.
pub fn ssb_answers() -> String {
    let engine = SharedEngine::new(with_ssb(), AdmissionOptions::default());
    let all = queries();
    assert_eq!(all.len(), 13);
    let list = |of: &dyn Fn(&'static str) -> String| {
        let texts: Vec<String> = all.iter().map(|q| format!("{:?}", of(q.sql))).collect();
        texts.join(", ")
    };
    format!(
        "QUERIES = [{}]\nEXPECTED = [{}]\n",
        list(&str::to_owned),
        list(&|sql| answer(&engine, sql))
    )
}

/// What a program printed; panics with its errors if it failed.
#[track_caller]
pub fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// What a program that failed said.
#[track_caller]
pub fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until `done`, and fails after a minute.
#[track_caller]
pub fn eventually(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it did not happen"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A file with this content that only its owner can read.
pub fn secret(folder: &Path, name: &str, content: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Resident memory of this process, MiB.
pub fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.unwrap().parse::<u64>().unwrap() / 1024
}
