//! Final plans on all nodes, which pass rows to each other as streams.

use super::{check, check_ssb, lose_b, stop_at_work};
use crate::processes::{Cluster, text_of};
use tierloom_cluster::Backend;
use tierloom_tpc::Benchmark;

/// A cluster whose statements are all finished by its nodes together.
fn together(mut cluster: Cluster) -> Cluster {
    cluster.options.direct_bytes = 0;
    cluster.options.backend = Backend::Distributed;
    cluster
}

#[test]
fn answers_are_those_of_one_process_when_all_nodes_finish_them() {
    for (executors, shards) in [(1, "3"), (2, "5"), (3, "16")] {
        let cluster = together(Cluster::start(executors));
        for benchmark in ["ssb", "tpch", "tpcds"] {
            cluster.load(&[benchmark, "--sf", "0.01", "--shards", shards]);
            match benchmark {
                "ssb" => check_ssb(&cluster),
                "tpch" => check(&cluster, Benchmark::TpcH),
                _ => check(&cluster, Benchmark::TpcDs),
            }
        }
    }
}

#[test]
fn one_node_alone_does_final_plans_and_not_the_client() {
    let cluster = together(Cluster::start(1));
    cluster.load(&["tpch", "--sf", "0.01", "--shards", "3"]);
    let sql = "SELECT count(*) AS n FROM orders JOIN lineitem ON o_custkey = l_partkey";
    let text = cluster.client().explain(sql, &|| false).expect("a plan");
    let of_client = text.split("┌───── Stage").next().expect("the first part");
    let of_client = of_client.split("final plan").nth(1).expect("a final plan");
    assert!(of_client.contains("NetworkCoalesceExec"), "{text}");
    for operator in ["HashJoinExec", "NodeRowsExec"] {
        assert!(!of_client.contains(operator), "{operator}\n{text}");
        assert!(text.contains(operator), "{operator}\n{text}");
    }
}

#[test]
fn facts_that_are_joined_by_other_columns_meet_on_all_nodes_and_not_on_one() {
    let mut cluster = together(Cluster::start(3));
    let load = ["tpch", "--sf", "0.01", "--shards", "7", "--replicas", "2"];
    cluster.load(&load);
    let sql = "SELECT o_orderpriority, count(*) AS n, sum(l_quantity) AS q, max(o_comment) AS c, \
               max(o_clerk) AS d, max(o_totalprice) AS e FROM orders JOIN lineitem ON o_custkey = l_partkey \
               GROUP BY o_orderpriority ORDER BY o_orderpriority";
    let explained = cluster.client().explain(sql, &|| false).expect("a plan");
    let shuffles = explained.matches("NetworkShuffleExec").count();
    assert!(shuffles >= 2, "both sides are sent by the key: {explained}");
    // A side that is much smaller goes to all nodes as a whole.
    let small = "SELECT count(*) FROM (SELECT DISTINCT o_custkey AS k FROM orders LIMIT 100) \
                 JOIN lineitem ON k = l_partkey";
    let small = cluster.client().explain(small, &|| false).expect("a plan");
    assert!(small.contains("NetworkBroadcastExec"), "{small}");
    for name in ["a", "b", "c"] {
        assert!(
            explained.contains(&format!("shards of {name}")),
            "{explained}"
        );
    }
    let on_all = cluster.text(sql);
    let windowed = "SELECT count(*) AS n, sum(r) AS s FROM (SELECT rank() OVER (PARTITION BY \
                    l_suppkey ORDER BY l_shipdate, l_orderkey, l_linenumber) AS r FROM lineitem)";
    let windows_on_all = cluster.text(windowed);
    cluster.options.backend = Backend::Ballista;
    assert_eq!(on_all, cluster.text(sql));
    assert_eq!(on_all.lines().count(), 6);
    assert_eq!(windows_on_all, cluster.text(windowed));
}

#[test]
fn statements_of_one_client_find_its_tables_again() {
    let cluster = together(Cluster::start(2));
    cluster.load(&["tpch", "--sf", "0.01", "--shards", "4"]);
    let client = cluster.client();
    // The value of a subquery is looked for each time, so that no plan is kept.
    let sql = "SELECT count(*) AS n FROM orders JOIN lineitem ON o_custkey = l_partkey \
               WHERE o_totalprice > (SELECT avg(o_totalprice) FROM orders)";
    let [first, second] =
        [(); 2].map(|()| text_of(&client.run(sql, &|| false).expect("an answer")));
    assert_eq!(first, second);
}

#[test]
fn statements_that_were_planned_before_read_what_was_loaded_since_and_find_nodes_again() {
    let mut cluster = Cluster::start(2);
    let client = cluster.client();
    let sql = "SELECT count(*) AS n, sum(lo_quantity) AS q FROM lineorder";
    let answer = || text_of(&client.run(sql, &|| false).expect("an answer"));
    let mut answers = Vec::new();
    for sf in ["0.01", "0.02"] {
        cluster.load(&["ssb", "--sf", sf, "--shards", "4"]);
        let first = answer();
        for _ in 0..2 {
            assert_eq!(answer(), first);
        }
        assert_eq!(cluster.text(sql), first, "a new client");
        answers.push(first);
    }
    assert_ne!(answers[0], answers[1]);
    cluster.executors[1].kill();
    cluster.restart(1, "b");
    cluster.until(|map| map.usable("lineorder").is_ok());
    for _ in 0..2 {
        assert_eq!(answer(), answers[1]);
    }
}

#[test]
fn a_cluster_with_a_token_and_certificates_finishes_statements_on_all_nodes() {
    let cluster = together(Cluster::guarded(2, true));
    cluster.load(&["tpch", "--sf", "0.01", "--shards", "5"]);
    check(&cluster, Benchmark::TpcH);
    let sql = "SELECT count(*) AS n FROM orders JOIN lineitem ON o_custkey = l_partkey";
    let explained = cluster.client().explain(sql, &|| false).expect("a plan");
    assert!(
        explained.contains("final plan, on all nodes"),
        "{explained}"
    );
    assert!(cluster.text(sql).starts_with("n\n"));
}

#[test]
fn an_executor_that_is_lost_while_all_nodes_work_is_one_error_that_names_shard_and_node() {
    let mut cluster = together(Cluster::start(2));
    cluster.load(&["tpch", "--sf", "0.01", "--shards", "4"]);
    let sql = "SELECT count(*) AS n FROM orders JOIN lineitem ON o_custkey = l_partkey";
    let before = cluster.text(sql);
    lose_b(&mut cluster, sql, "shard ");
    cluster.restart(1, "b");
    cluster.until(|map| map.usable("orders").is_ok() && map.usable("lineitem").is_ok());
    assert_eq!(cluster.text(sql), before);
}

#[test]
fn a_statement_that_is_stopped_while_all_nodes_work_ends_on_them() {
    let cluster = together(Cluster::start(2));
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "4"]);
    // Rows of two facts that meet by no key: in the final plan, not in node plans.
    let endless = "SELECT count(*) FROM lineorder x, lineorder y, part z \
                   WHERE x.lo_quantity * y.lo_quantity + z.p_size = -7";
    stop_at_work(&cluster, endless);
}
