//! Metrics over HTTP: what they show, to whom, and what Prometheus makes of them.

use super::support::{ENDLESS, Server, eventually, open, secret, session, with_ssb};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_counters::{Count, CountStep, Counters, FakeOpener};
use tierloom_engine::EngineOptions;
use tierloom_memory::{AnonymousNuma, PageSize};
use tierloom_metrics::{FAMILIES, Snapshot, alerts, dashboard, screen};
use tierloom_serve::{Certificate, MetricsOptions, Passwords, ServeError, ServeOptions};
use tierloom_sql::{CollectedRows, Generated, Silent, SqlOptions, SqlSession, split};
use tierloom_topology::{SysRoot, Topology};
use tierloom_workloads::ssb::SsbConfig;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

const PASSWORD: &str = "secret";

/// A server with metrics on a free port.
fn watched(token: Option<&str>) -> ServeOptions {
    ServeOptions {
        metrics: Some(MetricsOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            token: token.map(str::to_owned),
            counters: None,
        }),
        ..open()
    }
}

/// A server with the hardware counters of a recorded machine.
fn counted(machine: &str, opener: FakeOpener) -> ServeOptions {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../counters/tests/fixtures");
    let root = SysRoot::at(machines.join(machine));
    let counters = Counters::with_opener(&root, Arc::new(opener));
    let mut options = watched(None);
    options.metrics.as_mut().unwrap().counters = Some(Arc::new(counters));
    options
}

/// Every counter has counted a million events.
fn counting() -> FakeOpener {
    FakeOpener::all(CountStep::Adds(Count {
        count: 1 << 20,
        enabled_ns: 1000,
        running_ns: 1000,
    }))
}

/// Status and text of what is at `path`, asked for with these headers.
fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let config = Agent::config_builder().http_status_as_error(false);
    let agent: Agent = config
        .timeout_global(Some(Duration::from_secs(20)))
        .build()
        .into();
    let url = format!("{}{path}", server.metrics.as_deref().unwrap());
    let request = headers
        .iter()
        .fold(agent.get(url), |request, (name, value)| {
            request.header(*name, *value)
        });
    let mut answer = request.call().unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), text)
}

fn snapshot(server: &Server) -> Snapshot {
    let (status, text) = get(server, "api/snapshot", &[]);
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Statements of a kind that have ended in a way.
fn ended(server: &Server, kind: &str, end: &str) -> u64 {
    let all = snapshot(server).statements;
    let of = all
        .iter()
        .find(|count| count.kind == kind && count.end == end);
    of.unwrap().count
}

/// psql that is stopped when the test ends.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn in_background(mut command: Command) -> Stopped {
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    Stopped(silent.spawn().unwrap())
}

#[test]
fn tables_nodes_and_every_statement_are_shown() {
    let server = Server::with(watched(None), with_ssb());
    let before = snapshot(&server);
    let lineorder = |of: &Snapshot| {
        let found = of.tables.iter().find(|table| table.table == "lineorder");
        found.unwrap().clone()
    };
    let table = lineorder(&before);
    assert!(
        table.rows > 50_000 && table.size_bytes > 1 << 20,
        "{table:?}"
    );
    assert_eq!(table.misplaced, Some(0.0));
    assert_eq!(table.nodes.len(), 1, "{table:?}");
    assert_eq!(table.read_bytes, 0);
    assert!(before.nodes.iter().any(|node| node.columns_bytes > 1 << 20));
    let Some(mut psql) = server.psql("ada") else {
        return;
    };
    let star = "SELECT d_year, sum(lo_revenue) FROM lineorder, date WHERE lo_orderdate = d_datekey GROUP BY d_year";
    assert!(psql.args(["-c", star]).output().unwrap().status.success());
    let mut wrong = server.psql("ada").unwrap();
    let wrong = wrong
        .args(["-c", "SELECT 1/0 FROM lineorder"])
        .output()
        .unwrap();
    assert!(!wrong.status.success());
    assert_eq!(ended(&server, "star", "done"), 1);
    assert_eq!(ended(&server, "query", "failed"), 1);
    assert!(lineorder(&snapshot(&server)).read_bytes > 100_000);
}

#[test]
fn a_running_statement_is_shown_with_its_text_and_counted_when_it_is_stopped() {
    let server = Server::with(watched(None), session());
    let Some(mut psql) = server.psql("ada") else {
        return;
    };
    psql.args(["-c", ENDLESS]);
    let running = in_background(psql);
    eventually(|| snapshot(&server).running == 1);
    let sessions = snapshot(&server).sessions.unwrap();
    let ada = sessions
        .iter()
        .find(|session| session.user == "ada")
        .unwrap();
    assert_eq!(ada.statement.as_deref(), Some(ENDLESS));
    assert!(ada.running_seconds.is_some());
    drop(running);
    eventually(|| snapshot(&server).running == 0 && ended(&server, "query", "stopped") == 1);
}

#[test]
fn a_scrape_has_every_metric_that_is_listed() {
    let server = Server::with(counted("intel-2s-cxl", counting()), session());
    let (status, text) = get(&server, "metrics", &[]);
    assert_eq!(status, 200);
    // Not of a simulated machine: free memory; not of this session: classes, decisions and counts.
    let absent = ["node_free", "class_", "model_error", "counted"];
    let is_absent = |name: &str| absent.iter().any(|part| name.contains(part));
    for family in FAMILIES.iter().filter(|family| !is_absent(family.name)) {
        assert!(text.contains(family.help), "{}:\n{text}", family.name);
    }
    assert!(text.contains("tierloom_statement_seconds_bucket"));
    assert!(
        text.contains("tierloom_table_rows{table=\"n\"} 20000.0"),
        "{text}"
    );
}

#[test]
fn nobody_sees_what_is_not_for_them() {
    // With passwords and no token: numbers, but no texts of statements.
    let passwords = Some(Passwords::One(PASSWORD.to_owned()));
    let server = Server::with(
        ServeOptions {
            passwords: passwords.clone(),
            ..watched(None)
        },
        session(),
    );
    if let Some(mut psql) = server.psql("ada") {
        psql.env("PGPASSWORD", PASSWORD).args(["-c", ENDLESS]);
        let _running = in_background(psql);
        eventually(|| snapshot(&server).running == 1);
        let sessions = snapshot(&server).sessions.unwrap();
        let running = sessions
            .iter()
            .find(|s| s.running_seconds.is_some())
            .unwrap();
        assert_eq!(running.statement, None);
    }
    // A page of another site reaches this machine under another name.
    let (status, _) = get(&server, "api/snapshot", &[("Host", "example.org")]);
    assert_eq!(status, 403);
    // With a token: nothing without it, texts with it.
    let server = Server::with(
        ServeOptions {
            passwords,
            ..watched(Some("open-sesame"))
        },
        session(),
    );
    for path in ["metrics", "api/snapshot"] {
        for headers in [
            &[][..],
            &[("Authorization", "Bearer open")],
            &[("Authorization", "open-sesame")],
        ] {
            assert_eq!(get(&server, path, headers).0, 401, "{path} {headers:?}");
        }
        assert_eq!(
            get(&server, path, &[("Authorization", "Bearer open-sesame")]).0,
            200
        );
    }
    let (status, page) = get(&server, "", &[]);
    assert!(status == 200 && page.contains("<title>Tierloom server</title>"));
    assert_eq!(get(&server, "nothing", &[]).0, 404);
}

#[test]
fn statements_of_all_sessions_that_count_are_added_up_and_no_others() {
    let server = Server::with(watched(None), with_ssb());
    assert!(snapshot(&server).counted.is_empty());
    let star = "SELECT d_year, sum(lo_revenue) FROM lineorder, date WHERE lo_orderdate = d_datekey GROUP BY d_year";
    for counters in ["on", "off", "on"] {
        let Some(mut psql) = server.psql("ada") else {
            return;
        };
        psql.args(["-c", &format!("SET tierloom.counters = {counters}")]);
        assert!(psql.args(["-c", star]).output().unwrap().status.success());
    }
    let counted = snapshot(&server).counted;
    let sum = |quantity: &str| counted.iter().find(|sum| sum.quantity == quantity).unwrap();
    assert_eq!(sum("statements").value, 2.0);
    assert!(sum("busy_seconds").value > 0.0, "{counted:?}");
    assert!(
        counted.iter().all(|sum| sum.quantity != "busy_ns"),
        "{counted:?}"
    );
    let (_, text) = get(&server, "metrics", &[]);
    assert!(
        text.contains("tierloom_counted_total{quantity=\"statements\"} 2.0"),
        "{text}"
    );
}

#[test]
fn traffic_of_memory_is_shown_where_it_is_counted_and_why_where_it_is_not() {
    let server = Server::with(counted("intel-2s-cxl", counting()), session());
    let traffic = snapshot(&server).traffic;
    let dram = traffic.iter().find(|t| t.place.starts_with("dram/socket"));
    let dram = dram.unwrap_or_else(|| panic!("{traffic:?}"));
    // Of one memory controller or more, each with lines of 64 bytes.
    assert!(dram.bytes.unwrap() >= f64::from(64 << 20), "{dram:?}");
    assert!(
        traffic.iter().any(|t| t.place.starts_with("cxl/")),
        "{traffic:?}"
    );
    let (_, text) = get(&server, "metrics", &[]);
    let line = format!(
        "tierloom_memory_traffic_bytes_total{{place=\"{}\"",
        dram.place
    );
    assert!(text.contains(&line), "{text}");
    let refused = FakeOpener::all(CountStep::Refused(13));
    for (machine, opener) in [
        ("intel-2s-cxl", refused),
        ("empty-guest", FakeOpener::default()),
    ] {
        let server = Server::with(counted(machine, opener), session());
        let traffic = snapshot(&server).traffic;
        assert!(!traffic.is_empty(), "{machine}");
        for place in traffic {
            assert_eq!(place.bytes, None, "{machine}: {place:?}");
            assert!(place.missing.is_some_and(|why| why.len() > 10), "{machine}");
        }
        let (_, text) = get(&server, "metrics", &[]);
        assert!(
            !text.contains("tierloom_memory_traffic_bytes_total{"),
            "{text}"
        );
    }
    assert!(
        snapshot(&Server::with(watched(None), session()))
            .traffic
            .is_empty()
    );
}

#[test]
fn the_terminal_shows_traffic_as_the_page_does() {
    let server = Server::with(counted("intel-2s-cxl", counting()), session());
    let now = snapshot(&server);
    // Two seconds before, nothing had been counted.
    let mut before = now.clone();
    before.at_seconds -= 2.0;
    before.uptime_seconds -= 2.0;
    for used in &mut before.traffic {
        used.bytes = used.bytes.map(|_| 0.0);
    }
    let shown = screen(&now, Some(&before));
    let row = |place: &str, direction: &str| -> Vec<String> {
        let rows = shown.lines().map(|line| line.split('┆'));
        let mut rows = rows.map(|cells| cells.map(|c| c.trim_matches([' ', '│']).to_owned()));
        let found = rows.find_map(|cells| {
            let cells: Vec<String> = cells.collect();
            (cells[0] == place && cells.get(1)? == direction).then_some(cells)
        });
        found.unwrap_or_else(|| panic!("{place} {direction}:\n{shown}"))
    };
    let size = |bytes: f64| tierloom_text::Bytes(bytes as u64).rounded();
    for used in &now.traffic {
        let cells = row(&used.place, &used.direction);
        let expected = match (used.bytes, &used.missing) {
            (Some(bytes), _) => [
                format!("{}/s", size(bytes / 2.0)),
                size(bytes),
                String::new(),
            ],
            (None, why) => {
                let why = format!("not available: {}", why.as_ref().unwrap());
                [String::new(), String::new(), why]
            }
        };
        assert_eq!(cells[2..], expected, "{shown}");
    }
    let known = now.traffic.iter().filter(|used| used.bytes.is_some());
    assert!(known.count() > 3 && !screen(&now, None).contains("B/s"));
    // The headings of the page, whose own are in its script.
    for word in ["place", "direction", "now", "since the start"] {
        assert!(shown.contains(word) && tierloom_metrics::PAGE.contains(&format!("[\"{word}\"")));
    }
    let refused = Server::with(counted("empty-guest", FakeOpener::default()), session());
    let state = snapshot(&refused);
    let why = state.traffic[0].missing.clone().unwrap();
    let shown = screen(&state, None);
    assert!(shown.contains(&format!("not available: {why}")), "{shown}");
    let uncounted = screen(&snapshot(&Server::with(watched(None), session())), None);
    assert!(uncounted.contains("memory traffic") && uncounted.contains("not counted"));
}

#[test]
fn metrics_that_other_machines_reach_need_a_token_and_encryption() {
    let at = |token: Option<&str>| {
        let mut options = watched(token);
        options.metrics.as_mut().unwrap().address = "0.0.0.0:0".parse().unwrap();
        options
    };
    for (options, fix) in [
        (at(None), "--metrics-token-file"),
        (at(Some("x")), "--tls-cert"),
    ] {
        match Server::refused(&options, session()) {
            ServeError::Input(message) => assert!(message.contains(fix), "{message}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn connections_that_send_nothing_leave_places_for_others() {
    let server = Server::with(watched(None), session());
    let address = server.metrics.as_deref().unwrap();
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let mut silent: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    for stream in &mut silent[20..] {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
    }
    assert_eq!(get(&server, "metrics", &[]).0, 200);
    let mut rubbish = TcpStream::connect(address).unwrap();
    rubbish.write_all(&[0xff; 4096]).unwrap();
    assert_eq!(get(&server, "metrics", &[]).0, 200);
}

#[test]
fn metrics_are_encrypted_where_the_server_has_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let pem = made.cert.pem();
    let certificate = secret(folder.path(), "c.pem", &pem);
    let key = secret(folder.path(), "k.pem", &made.signing_key.serialize_pem());
    let server = Server::with(
        ServeOptions {
            certificate: Some(Certificate::read(&certificate, &key).unwrap()),
            ..watched(None)
        },
        session(),
    );
    let url = server.metrics.as_deref().unwrap();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let trusted = ureq::tls::Certificate::from_pem(pem.as_bytes()).unwrap();
    let roots = RootCerts::Specific(Arc::new(vec![trusted]));
    let trusting = TlsConfig::builder().root_certs(roots).build();
    let agent: Agent = Agent::config_builder().tls_config(trusting).build().into();
    let mut answer = agent.get(format!("{url}metrics")).call().unwrap();
    assert!(
        answer
            .body_mut()
            .read_to_string()
            .unwrap()
            .ends_with("# EOF\n")
    );
    let plain = url.replace("https://", "http://");
    assert!(Agent::new_with_defaults().get(plain).call().is_err());
}

/// Prometheus of the system with one target; it ends with the test.
struct Prometheus {
    _child: Stopped,
    port: u16,
}

impl Prometheus {
    fn of(server: &Server, folder: &std::path::Path) -> Prometheus {
        let target = server.metrics.as_deref().unwrap();
        let target = target.trim_start_matches("http://").trim_end_matches('/');
        let rules = folder.join("alerts.yaml");
        std::fs::write(&rules, alerts().to_string()).unwrap();
        let config = serde_json::json!({
            "global": {"scrape_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [
                {"job_name": "tierloom", "static_configs": [{"targets": [target]}]},
            ],
        });
        let path = folder.join("prometheus.yml");
        std::fs::write(&path, config.to_string()).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Prometheus {
            _child: Stopped(child),
            port,
        }
    }

    /// The number of series that an expression has now; an error of its syntax is one of the test.
    fn series(&self, expr: &str) -> Option<usize> {
        let url = format!("http://127.0.0.1:{}/api/v1/query", self.port);
        let config = Agent::config_builder().http_status_as_error(false);
        let agent: Agent = config.build().into();
        let mut answer = agent.get(url).query("query", expr).call().ok()?;
        let text = answer.body_mut().read_to_string().ok()?;
        let answer: serde_json::Value = serde_json::from_str(&text).ok()?;
        assert_ne!(answer["errorType"], "bad_data", "{expr}: {answer}");
        answer["data"]["result"].as_array().map(Vec::len)
    }
}

/// A session on this machine with the tables of the Star Schema Benchmark.
fn here() -> SqlSession {
    let topology = Topology::read(&SysRoot::host()).unwrap();
    let options = SqlOptions {
        engine: EngineOptions::tuned(2),
        topology,
        page_size: PageSize::Base,
        placement: "dram".parse().unwrap(),
        backend: Arc::new(AnonymousNuma::new()),
    };
    let mut session = SqlSession::new(options).unwrap();
    let data = Generated::Ssb(SsbConfig::new(0.01, 42).unwrap());
    session.generate(&data, &Silent::default()).unwrap();
    session
}

/// Expressions of the dashboard with its variables filled in.
fn expressions() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap().clone());
    let filled = targets.map(|target| {
        let expr = target["expr"].as_str().unwrap();
        expr.replace("$job", "tierloom")
            .replace("$instance", ".*")
            .replace("$__rate_interval", "5s")
    });
    filled.collect()
}

#[test]
fn a_real_prometheus_answers_every_expression_of_the_dashboard() {
    if Command::new("prometheus")
        .arg("--version")
        .output()
        .is_err()
    {
        tierloom_testing::checked_nothing("there is no prometheus (Debian: prometheus)");
        return;
    }
    let mut session = here();
    // So that there are classes of operator memory.
    for text in [
        "SET tierloom.routing = on",
        "SET tierloom.memory.join = 'dram'",
    ] {
        let piece = split(text).unwrap().remove(0);
        let mut rows = CollectedRows::default();
        session.run(&piece, &mut rows, &Silent::default()).unwrap();
    }
    let server = Server::with(counted("intel-2s-cxl", counting()), session);
    let folder = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::of(&server, folder.path());
    eventually(|| prometheus.series("tierloom_uptime_seconds") == Some(1));
    if let Some(mut psql) = server.psql("ada") {
        psql.args(["-c", "SELECT count(*) FROM lineorder WHERE lo_quantity < 7"]);
        assert!(psql.output().unwrap().status.success());
    }
    let start = Instant::now();
    for expr in expressions() {
        // Only processors with counters have cycles.
        let fewest = usize::from(!expr.contains("tierloom_counted_total"));
        eventually(|| {
            prometheus
                .series(&expr)
                .is_some_and(|series| series >= fewest)
        });
    }
    for rule in alerts()["groups"][0]["rules"].as_array().unwrap() {
        // Fires or not, it can be asked.
        assert!(prometheus.series(rule["expr"].as_str().unwrap()).is_some());
    }
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn promtool_finds_nothing_wrong_with_the_rules() {
    if Command::new("promtool").arg("--version").output().is_err() {
        tierloom_testing::checked_nothing("there is no promtool (Debian: prometheus)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alerts.yaml");
    std::fs::write(&path, format!("{:#}", alerts())).unwrap();
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}
