//! Columns move while queries run, and every structure of a statement is explained.

use crate::common;
use arrow::array::{AsArray, RecordBatch};
use std::collections::BTreeMap;
use tierloom_engine::adapt::{ColumnMover, MoverOptions, explain_placement};
use tierloom_engine::answer::to_text;
use tierloom_memory::AuditMode;
use tierloom_model::profiles;
use tierloom_placement::Policy;
use tierloom_topology::NodeId;
use tierloom_workloads::ssb::queries;

fn text(batch: &RecordBatch, column: &str) -> Vec<String> {
    let array = batch
        .column_by_name(column)
        .expect(column)
        .as_string::<i32>();
    array
        .iter()
        .map(|value| value.unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn cold_columns_leave_hot_ones_stay_and_answers_do_not_change() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let engine = common::engine(&tables);
    let query = &queries()[0];
    let planned = engine.plan(query.id, query.sql).unwrap();
    let run = || {
        to_text(
            &engine
                .execute(query.id, &planned, &|| false)
                .unwrap()
                .batches,
        )
        .unwrap()
    };
    let before = run();
    let all: u64 = tables.iter().map(|t| t.size_bytes()).sum();
    let options = MoverOptions {
        max_bytes_per_s: 64 << 30,
        round_bytes: 64 << 20,
        ..MoverOptions::new(NodeId(0), NodeId(1), all / 4)
    };
    let mover = ColumnMover::new(tables.clone(), topology, options).unwrap();
    let fact = tables.iter().find(|t| t.name() == "lineorder").unwrap();
    let hot = "lo_discount";
    mover.note(&BTreeMap::from([(format!("lineorder.{hot}"), 1 << 30)]));
    let mut rounds = 0;
    while !mover.round().unwrap().is_empty() {
        rounds += 1;
        assert!(rounds < 50, "the mover comes to rest");
        assert_eq!(run(), before);
    }
    let mut on_fast = 0;
    for table in &tables {
        for column in table.columns() {
            for region in column.regions() {
                let audit = region.audit(AuditMode::Full).unwrap();
                let share = audit
                    .actual
                    .iter()
                    .find(|s| s.node == NodeId(0))
                    .map_or(0.0, |s| s.share);
                on_fast += (share * region.size_bytes() as f64) as u64;
                if table.name() == fact.name() && column.name() == hot {
                    assert!(share > 0.99, "{hot} is hot and stays: {share}");
                }
            }
        }
    }
    assert!(on_fast <= all / 4 + (1 << 20), "{on_fast} of {}", all / 4);
    assert_eq!(run(), before);
}

#[test]
fn two_tiers_on_one_node_are_refused() {
    let (_, topology) = common::two_nodes();
    let options = MoverOptions::new(NodeId(0), NodeId(0), 1 << 20);
    let error = ColumnMover::new(Vec::new(), topology, options)
        .err()
        .expect("refused");
    assert!(error.to_string().contains("name two nodes"), "{error}");
}

#[test]
fn every_column_and_table_of_a_query_is_explained_with_its_machine() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let engine = common::engine(&tables);
    let machine = profiles::load("nus24").unwrap();
    for policy in ["dram", "3:2", "adaptive"] {
        let policy: Policy = policy.parse().unwrap();
        let batch = explain_placement(&engine, queries()[3].sql, &machine, &policy).unwrap();
        let structures = text(&batch, "structure");
        for needed in ["lineorder.lo_revenue", "lineorder.lo_partkey"] {
            assert!(
                structures.iter().any(|s| s == needed),
                "{needed}: {structures:?}"
            );
        }
        assert!(
            structures.iter().any(|s| s.starts_with("hash(")),
            "{structures:?}"
        );
        assert!(text(&batch, "modelled_on").iter().all(|m| m == "nus24"));
        let at = structures
            .iter()
            .position(|s| s == "lineorder.lo_revenue")
            .unwrap();
        assert_eq!(text(&batch, "actual")[at], "nodes 0");
        if policy.to_string() == "dram:3,cxl:2" {
            assert_eq!(text(&batch, "wanted")[at], "dram=60.0%,cxl=40.0%");
        }
    }
    let missing = explain_placement(
        &engine,
        "select nothing from nowhere",
        &machine,
        &"dram".parse().unwrap(),
    );
    assert!(missing.is_err());
}
