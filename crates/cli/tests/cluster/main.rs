//! `tierloom cluster` as processes: answers, faults and what is refused.
#![cfg(feature = "cluster")]

mod backend;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod processes;
#[cfg(feature = "serve")]
mod serve;
mod shuffle;

use common::tierloom;
use processes::{Cluster, HUNG, NOTICED, SF, self_signed, text_of};
use std::time::{Duration, Instant};
use tierloom_agent::Token;
use tierloom_cluster::{Backend, ClusterClient, ClusterError, ClusterMap, DIRECT_BYTES, Layout};
use tierloom_model::cluster::{Sent, tpch_spread};
use tierloom_model::reference::work::Tpch;
use tierloom_tpc::Benchmark;
use tierloom_workloads::ssb::{self, SsbConfig};

/// Checks all queries of a benchmark against DuckDB's stored answers.
fn check(cluster: &Cluster, benchmark: Benchmark) {
    let mut wrong = Vec::new();
    for query in tierloom_tpc::queries(benchmark) {
        let stored = tierloom_tpc::stored_answer(query, SF).expect("an answer is stored");
        let outcome = match cluster.answer(&query.sql(SF)) {
            Ok(answer) => {
                tierloom_tpc::compare(query.id, stored, &answer.batches).map_err(|e| e.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = outcome {
            wrong.push(format!("{}: {why}", query.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_ssb(cluster: &Cluster) {
    let config = SsbConfig::new(SF, 1).expect("a scale factor");
    for query in ssb::queries() {
        let stored = ssb::golden_answer(&config, query.id).expect("an answer is stored");
        assert_eq!(cluster.text(query.sql), stored, "{}", query.id);
    }
}

fn sums(map: &ClusterMap, table: &str) -> u64 {
    let mut shards = std::collections::BTreeMap::new();
    for held in map.nodes.values().filter_map(|n| n.tables.get(table)) {
        shards.extend(held.rows.clone());
    }
    shards.values().sum()
}

#[test]
fn ssb_and_tpch_answers_are_those_of_one_process_on_one_to_three_executors() {
    for (executors, shards) in [(1, "3"), (2, "7"), (3, "16")] {
        let cluster = Cluster::start(executors);
        for benchmark in ["ssb", "tpch"] {
            // Both have tables `part`, `supplier` and `customer`.
            cluster.load(&[benchmark, "--sf", "0.01", "--shards", shards]);
            match benchmark {
                "ssb" => check_ssb(&cluster),
                _ => check(&cluster, Benchmark::TpcH),
            }
        }
        for table in ["lineorder", "lineitem", "orders", "part"] {
            let rows = sums(&cluster.map(), table);
            let counted = cluster.text(&format!("SELECT count(*) FROM {table}"));
            assert_eq!(counted, format!("count(*)\n{rows}\n"), "{table}");
            let twice = format!(
                "SELECT count(*) FROM (SELECT * FROM {table} UNION ALL SELECT * FROM {table})"
            );
            assert_eq!(cluster.text(&twice), format!("count(*)\n{}\n", 2 * rows));
        }
        assert!(sums(&cluster.map(), "lineorder") > 50_000);
    }
}

#[test]
fn tpcds_answers_are_those_of_one_process() {
    let cluster = Cluster::start(2);
    cluster.load(&["tpcds", "--sf", "0.01", "--shards", "5"]);
    check(&cluster, Benchmark::TpcDs);
}

#[test]
fn a_killed_executor_changes_no_answer_if_its_shards_have_copies() {
    let mut cluster = Cluster::start(3);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "7", "--replicas", "2"]);
    let sql = ssb::query("q2.1").expect("a query").sql;
    let before = cluster.text(sql);
    // In the middle of statements, not between two.
    let url = cluster.url.clone();
    let asking = std::thread::spawn(move || {
        let client = ClusterClient::new(&url).expect("a URL");
        let start = Instant::now();
        let ask = |_| client.run(sql, &|| start.elapsed() > HUNG);
        (0..40).map(ask).collect::<Vec<_>>()
    });
    std::thread::sleep(Duration::from_millis(300));
    cluster.executors[1].kill();
    // The next process of the node comes while it is not yet missed.
    cluster.add("b");
    cluster.until(|map| map.nodes["b"].tables.len() == 5);
    cluster.executors[2].kill();
    for answer in asking.join().expect("no panic") {
        let answer = answer.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(text_of(&answer), before);
    }
    check_ssb(&cluster);
}

#[test]
fn a_shard_without_a_holder_is_one_error_in_time_that_names_shard_and_node() {
    let mut cluster = Cluster::start(2);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "4"]);
    let sql = "SELECT sum(lo_revenue) FROM lineorder";
    cluster.text(sql);
    cluster.executors[1].kill();
    let start = Instant::now();
    // Statements of the first seconds meet an executor that was not yet missed.
    while start.elapsed() < NOTICED {
        let asked = Instant::now();
        let error = cluster.answer(sql).expect_err("half of the rows are lost");
        let text = error.to_string();
        for part in ["shard 2 of lineorder", "b (does not answer)"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(asked.elapsed() < NOTICED, "{:?}: {text}", asked.elapsed());
    }
    let ended = cluster.run(&["sql", sql]).with_code(1);
    let error = ended.one_error();
    assert!(error.contains("shard 2 of lineorder"), "{error}");
    assert!(error.contains("b (does not answer)"), "{error}");
    // What is left can still be read.
    assert_eq!(
        cluster.text("SELECT count(*) FROM \"date\""),
        "count(*)\n2556\n"
    );
    // The node comes back and loads its shards again.
    cluster.add("b");
    // One table after the other: it may have the rows of lineorder before those of its dimensions.
    cluster.until(|map| {
        let b = &map.nodes["b"];
        b.alive && b.tables.len() == 5 && map.usable("lineorder").is_ok()
    });
    check_ssb(&cluster);
}

#[test]
fn an_executor_that_stops_answering_is_an_error_and_not_a_hang() {
    let mut cluster = Cluster::start(2);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "4"]);
    cluster.executors[1].signal("-STOP");
    let start = Instant::now();
    let error = cluster.answer("SELECT sum(lo_tax) FROM lineorder");
    let text = error.expect_err("the node is stopped").to_string();
    assert!(
        start.elapsed() < NOTICED * 2,
        "{:?}: {text}",
        start.elapsed()
    );
    cluster.executors[1].signal("-CONT");
    cluster.executors[1].kill();
}

#[test]
fn tables_survive_the_scheduler_and_executors_find_the_next_one() {
    let mut cluster = Cluster::start(2);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "3"]);
    let before = cluster.map();
    cluster.scheduler.kill();
    let error = cluster.answer("SELECT count(*) FROM part").unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    cluster.restart_scheduler();
    cluster.until(|map| map.nodes.values().filter(|node| node.alive).count() == 2);
    cluster.until(|map| map.usable("lineorder").is_ok());
    assert_eq!(cluster.map().tables, before.tables);
    check_ssb(&cluster);
    keep_shards_without_scheduler(&mut cluster);
    check_ssb(&cluster);
}

#[test]
fn files_are_sharded_by_a_column_or_everywhere_and_joined_where_they_lie() {
    let cluster = Cluster::start(2);
    let folder = cluster.folder.path();
    tierloom(folder, &["generate", "tpch", "--sf", "0.01", "-o", "made"]).with_code(0);
    for (table, layout) in [
        ("orders", &["--by", "o_orderkey"][..]),
        ("lineitem", &["--by", "l_orderkey"]),
        ("customer", &["--everywhere"]),
    ] {
        let path = format!("made/{table}.parquet");
        cluster.load(&[&[path.as_str(), "--shards", "5"], layout].concat());
    }
    let map = cluster.map();
    let Layout::Sharded { holders, .. } = &map.tables["orders"].layout else {
        panic!("orders is not sharded");
    };
    assert_eq!(holders.len(), 5);
    let q03 = &tierloom_tpc::query(Benchmark::TpcH, "q03").unwrap()[0];
    let answer = cluster.answer(&q03.sql(SF)).unwrap();
    let stored = tierloom_tpc::stored_answer(q03, SF).unwrap();
    tierloom_tpc::compare(q03.id, stored, &answer.batches).unwrap();
    let explained = cluster
        .run(&["sql", "--explain", &q03.sql(SF)])
        .with_code(0);
    let text = explained.stdout;
    let plans = text.lines().filter(|line| line.starts_with("node plan"));
    assert_eq!(plans.count(), 1, "{text}");
    assert!(text.contains("orders on a: shards"), "{text}");
    assert!(text.contains("pages: node 0 (dram): 100%"), "{text}");
    let status = cluster.run(&["status"]).with_code(0).stdout;
    assert!(
        status.contains("table orders: 15000 rows, 5 shards by o_orderkey"),
        "{status}"
    );
    assert!(status.contains("node a: 1 threads"), "{status}");
}

#[test]
fn nothing_of_the_fact_table_leaves_its_node_in_ssb() {
    let cluster = Cluster::start(1);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "2"]);
    for query in ssb::queries() {
        let ended = cluster.run(&["sql", "--explain", query.sql]).with_code(0);
        let text = ended.stdout;
        let (nodes, last) = text.split_once("final plan").expect(&text);
        assert_eq!(
            nodes.matches("node plan").count(),
            1,
            "{}\n{text}",
            query.id
        );
        assert!(nodes.contains("AggregateExec: mode=Partial"), "{text}");
        assert!(!last.contains("HashJoinExec"), "{}\n{text}", query.id);
        let place = " in this process unless its input is more than 64 MiB:";
        assert!(last.starts_with(&format!(",{place}\n")), "{text}");
    }
    let sql = ssb::queries()[0].sql;
    let never = cluster.run(&["sql", "--explain", "--direct", "0", sql]);
    let text = never.with_code(0).stdout;
    assert!(text.contains("final plan, on all nodes:\n"), "{text}");
}

/// What the model of a cluster takes to leave a node is what plans say.
#[test]
fn what_leaves_a_node_in_tpch_is_what_the_model_takes() {
    let cluster = Cluster::start(2);
    cluster.load(&["tpch", "--sf", "0.01", "--shards", "4"]);
    let spread = tpch_spread(&Tpch {
        scale_factor: 0.01,
        ..Tpch::default()
    });
    for (query, model) in tierloom_tpc::queries(Benchmark::TpcH).iter().zip(&spread) {
        let explained = cluster.run(&["sql", "--explain", &query.sql(SF)]);
        let text = explained.with_code(0).stdout;
        let (nodes, _) = text.split_once("final plan").unwrap_or((&text, ""));
        // The operators at the top of node plans over shards.
        let plans = nodes.split("node plan ").skip(1);
        let tops: Vec<&str> = plans
            .filter(|plan| plan.contains("shards where they lie"))
            .filter_map(|plan| plan.lines().nth(1))
            .collect();
        assert_eq!(!tops.is_empty(), model.is_spread(), "{}\n{text}", query.id);
        let have = |word: &str| tops.iter().any(|top| top.contains(word));
        for sent in model.sent.iter().filter(|_| model.is_spread()) {
            match sent {
                Sent::States { .. } => assert!(have("mode=Partial"), "{}\n{text}", query.id),
                Sent::First { rows, .. } => {
                    assert!(have(&format!("TopK(fetch={rows})")), "{}\n{text}", query.id);
                }
                Sent::Rows { .. } => {
                    let rows = tops
                        .iter()
                        .any(|top| !top.contains("mode=Partial") && !top.contains("TopK"));
                    // Rows of a table on every node come from one of them.
                    assert!(
                        rows || nodes.contains("on one node"),
                        "{}\n{text}",
                        query.id
                    );
                }
            }
        }
        let states = model.sent.iter().any(|s| matches!(s, Sent::States { .. }));
        assert_eq!(
            states && model.is_spread(),
            have("mode=Partial"),
            "{}\n{text}",
            query.id
        );
    }
}

#[test]
fn what_cannot_be_is_one_error_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = "http://127.0.0.1:1";
    for (args, code, part) in [
        (
            &["sql", "SELECT 1", "--scheduler", "here"][..],
            2,
            "is no URL of a scheduler",
        ),
        (
            &["sql", "SELECT 1", "--format", "arrow"],
            2,
            "expected table, csv, json or jsonl",
        ),
        (
            &["sql", "SELECT 1", "--scheduler", nobody],
            1,
            "does not answer",
        ),
        (&["status", "--scheduler", nobody], 1, "does not answer"),
        // One that has no shards to keep waits for a scheduler for some seconds only.
        (
            &["executor", "--name", "a", "--scheduler", nobody],
            1,
            "does not answer",
        ),
        (&["load", "absent.parquet"], 2, "cannot read"),
        (
            &["load", "ssb", "--by", "lo_orderkey"],
            2,
            "have names and layouts of their own",
        ),
        (&["load", "ssb", "--sf", "0"], 2, "scale factor"),
        (
            &["executor", "--name", "a b"],
            2,
            "expected letters, digits",
        ),
        (
            &["executor", "--name", "a", "--shuffle", "4000"],
            2,
            "--shuffle 4000: node 4000 does not exist",
        ),
        (
            &["executor", "--name", "a", "--shuffle", "default"],
            2,
            "equal weights",
        ),
        (
            &[
                "executor",
                "--name",
                "a",
                "--shuffle",
                "0",
                "--shuffle-size",
                "4TiB",
            ],
            2,
            "4194304 MiB",
        ),
        (
            &["executor", "--name", "a", "--placement", "tier"],
            2,
            "takes a tier, a node or weights",
        ),
    ] {
        let ended = tierloom(folder.path(), &[&["cluster"], args].concat()).with_code(code);
        let error = ended.one_error();
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn statements_that_are_no_queries_and_tables_that_are_not_there_are_errors() {
    let mut cluster = Cluster::start(0);
    let refused = cluster.run(&["load", "ssb", "--sf", "0.01"]).with_code(2);
    assert!(refused.one_error().contains("no executor has reported yet"));
    cluster.add("a");
    let refused = cluster
        .run(&["load", "ssb", "--replicas", "2"])
        .with_code(2);
    assert!(refused.one_error().contains("2 replicas need 2 executors"));
    for (sql, part) in [
        ("SELECT * FROM absent", "absent"),
        ("CREATE TABLE t AS SELECT 1", "queries only"),
        ("SELEC 1", "SELEC"),
    ] {
        let ended = cluster.run(&["sql", sql]).with_code(2);
        assert!(ended.one_error().contains(part), "{sql}: {}", ended.stderr);
    }
    assert_eq!(
        cluster
            .run(&["sql", "SELECT 1 AS one", "--format", "csv"])
            .stdout,
        "one\n1\n"
    );
    let report = r#"{"version":"0.0.1/1","node":"old","process":1,"threads":1,"tables":{}}"#;
    let answer = ureq::post(format!("{}/tierloom/report", cluster.url))
        .header("Content-Type", "application/json")
        .config()
        .http_status_as_error(false)
        .build()
        .send(report);
    let mut answer = answer.expect("an answer");
    assert_eq!(answer.status().as_u16(), 409);
    let said = answer.body_mut().read_to_string().expect("a text");
    assert!(
        said.contains("a process of 0.0.1/1 asks to take part"),
        "{said}"
    );
    let ended = cluster.run(&["executor", "--name", "a"]).with_code(2);
    assert!(ended.one_error().contains("another executor is named a"));
}

#[test]
fn ends_of_statements_are_the_same_here_and_on_a_node() {
    let mut cluster = Cluster::start(2);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "5"]);
    for backend in [Backend::Distributed, Backend::Ballista] {
        cluster.options.backend = backend;
        // With the first, nodes are given all work; with the second, they send too much.
        for bytes in [0, 1] {
            cluster.options.direct_bytes = bytes;
            check_ssb(&cluster);
        }
    }
    let sql = "SELECT lo_custkey, count(*) FROM lineorder GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3";
    let on_a_node = cluster.text(sql);
    cluster.options.direct_bytes = usize::MAX;
    assert_eq!(cluster.text(sql), on_a_node);
    let both = ["sql", sql, "SELECT 1 AS one", "--format", "csv"];
    let ended = cluster.run(&both).with_code(0);
    assert_eq!(ended.stdout, format!("{on_a_node}one\n1\n"));
}

#[test]
fn a_cluster_with_a_token_and_certificates_answers_those_who_have_them() {
    let mut cluster = Cluster::guarded(2, true);
    assert!(cluster.url.starts_with("https://"), "{}", cluster.url);
    cluster.load(&["tpch", "--sf", "0.01", "--shards", "5"]);
    // Ballista cannot work there: the client does all final plans.
    cluster.options.backend = Backend::Ballista;
    check(&cluster, Benchmark::TpcH);
    let folder = cluster.folder.path();
    let other = Token::generate().expect("random bytes");
    other.write_new(&folder.join("other")).expect("written");
    std::fs::write(folder.join("other.pem"), self_signed().0).expect("written");
    let plain = cluster.url.replace("https://", "http://");
    let right = "--token-file token --tls-ca cert.pem";
    let wrong_token = "--token-file other --tls-ca cert.pem";
    let wrong_certificate = "--token-file token --tls-ca other.pem";
    let identity = "--tls-cert cert.pem --tls-key key.pem";
    let executor = "executor --name c";
    let refused = "does not accept this token";
    let for_an_executor = |access: &str| format!("{executor} {access} {identity}");
    let certificate = "certificate";
    for (url, command, code, said) in [
        (&cluster.url, format!("status {wrong_token}"), 2, refused),
        (
            &cluster.url,
            format!("sql VALUES(1) {wrong_token}"),
            2,
            refused,
        ),
        (&cluster.url, for_an_executor(wrong_token), 2, refused),
        (
            &cluster.url,
            format!("status {wrong_certificate}"),
            2,
            certificate,
        ),
        (
            &cluster.url,
            for_an_executor(wrong_certificate),
            2,
            certificate,
        ),
        (
            &cluster.url,
            format!("{executor} {right}"),
            2,
            "needs --tls-cert and --tls-key",
        ),
        (
            &plain,
            format!("status {right}"),
            2,
            "expected a URL as https",
        ),
        (
            &plain,
            "status --token-file token".into(),
            1,
            "does not answer",
        ),
        (
            &cluster.url,
            "status --token-file token".into(),
            2,
            "to trust with --tls-ca",
        ),
    ] {
        let mut words = vec!["cluster"];
        words.extend(command.split(' '));
        words.extend(["--scheduler", url]);
        let ended = tierloom(folder, &words).with_code(code);
        let error = ended.one_error();
        assert!(error.contains(said), "{command}: {error}");
    }
    assert_eq!(cluster.map().nodes.len(), 2, "nobody else has joined");
}

#[test]
fn without_the_token_nobody_reads_anything_of_a_cluster_that_asks_for_one() {
    let cluster = Cluster::guarded(1, false);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "2"]);
    check_ssb(&cluster);
    let node = cluster.map().nodes["a"].address.clone();
    let token = cluster.options.access.token.clone().expect("a token");
    let get = |url: String, token: Option<&Token>| {
        let request = ureq::get(url).config().http_status_as_error(false).build();
        let request = match token {
            Some(token) => request.header("Authorization", format!("Bearer {}", token.to_hex())),
            None => request,
        };
        let mut answer = request.call().expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (answer.status().as_u16(), text)
    };
    for path in ["/metrics", "/tierloom/map", "/"] {
        assert_eq!(
            get(format!("{}{path}", cluster.url), None),
            (401, String::new())
        );
    }
    assert_eq!(get(format!("http://{node}/"), None).0, 401);
    let (status, metrics) = get(format!("{}/metrics", cluster.url), Some(&token));
    assert_eq!(status, 200);
    assert!(
        metrics.contains("tierloom_cluster_node_alive{node=\"a\"} 1"),
        "{metrics}"
    );
    let unasked = ClusterClient::new(&cluster.url).expect("a URL").map();
    let error = unasked.expect_err("no token was shown").to_string();
    assert!(error.contains("asks for a token"), "{error}");
    let listen = ["--listen", "0.0.0.0:0", "--token-file", "token"];
    let args = [&["cluster", "scheduler"], &listen[..]].concat();
    let ended = tierloom(cluster.folder.path(), &args).with_code(2);
    assert!(ended.one_error().contains("--allow-plain-remote"));
}

#[test]
fn a_lost_executor_of_a_cluster_with_a_token_is_an_error_in_time() {
    let mut cluster = Cluster::guarded(2, false);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "4"]);
    let sql = "SELECT sum(lo_revenue) FROM lineorder";
    let before = cluster.text(sql);
    lose_b(&mut cluster, sql, "shard 2 of lineorder");
    cluster.restart(1, "b");
    cluster.until(|map| map.usable("lineorder").is_ok());
    assert_eq!(cluster.text(sql), before);
    keep_shards_without_scheduler(&mut cluster);
    assert_eq!(cluster.text(sql), before);
}

/// Kills the second executor, without which `sql` is one error in time that names `shard` and node.
fn lose_b(cluster: &mut Cluster, sql: &str, shard: &str) {
    cluster.executors[1].kill();
    let asked = Instant::now();
    let error = cluster.answer(sql).expect_err("half of the rows are lost");
    let text = error.to_string();
    assert!(text.contains(shard), "{text}");
    assert!(text.contains("b (does not answer)"), "{text}");
    assert!(asked.elapsed() < NOTICED, "{:?}: {text}", asked.elapsed());
}

/// Takes the scheduler away for so long that an executor that starts would give up: those that have
/// shards keep them, and find the next scheduler.
fn keep_shards_without_scheduler(cluster: &mut Cluster) {
    let before = cluster.map();
    cluster.scheduler.kill();
    std::thread::sleep(NOTICED + Duration::from_secs(2));
    cluster.restart_scheduler();
    cluster.until(|map| map.nodes.len() == before.nodes.len() && map.usable("lineorder").is_ok());
    assert_eq!(cluster.map().tables, before.tables);
    cluster.expect_all();
}

#[test]
fn a_statement_that_is_stopped_ends_on_its_nodes_too() {
    let mut cluster = Cluster::start(2);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "4"]);
    let endless = "SELECT count(*) FROM part x, part y, lineorder z \
                   WHERE x.p_size * y.p_size + z.lo_quantity = -7";
    cluster.options.backend = Backend::Ballista;
    for direct_bytes in [0, DIRECT_BYTES] {
        cluster.options.direct_bytes = direct_bytes;
        stop_at_work(&cluster, endless);
    }
}

/// Stops `endless` when it has been working for a while, after which no node works on it.
fn stop_at_work(cluster: &Cluster, endless: &str) {
    let start = Instant::now();
    let before = cluster.worked();
    let stopped = cluster.client().run(endless, &|| {
        cluster.worked() > before + Duration::from_millis(500) || start.elapsed() > HUNG
    });
    assert!(
        matches!(stopped, Err(ClusterError::Interrupted)),
        "{stopped:?}"
    );
    assert!(start.elapsed() < HUNG);
    cluster.until_idle(NOTICED);
    assert!(cluster.text("SELECT count(*) FROM lineorder").len() > 5);
}
