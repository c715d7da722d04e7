//! Which parts of statements nodes do, on tables that no node has.

use super::{Distributed, distribute, text_of};
use crate::codec::{Forwarded, PlanReader, plan_of};
use crate::functions::planning;
use crate::map::Layout;
use crate::plan::node_plan_of;
use crate::scan::ClusterTable;
use crate::wire::{Header, TableRef};
use arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;
use tierloom_engine::Engine;

/// An engine with `fact` and `line` in shards by `k`, `other` in shards by `v`, and `dim` on every
/// node.
fn engine() -> Engine {
    let engine = Engine::new(planning()).unwrap();
    let column = |name: &str| Field::new(name, DataType::Int64, true);
    let schema = Arc::new(Schema::new(vec![column("k"), column("v"), column("w")]));
    let holders = vec![vec!["a".into()], vec!["b".into()]];
    for (name, by, rows) in [
        ("fact", Some("k"), 1_000_000),
        ("line", Some("k"), 4_000_000),
        ("other", Some("v"), 2_000_000),
        ("dim", None, 1000),
    ] {
        let layout = match by {
            None => Layout::Everywhere,
            Some(by) => Layout::Sharded {
                by: by.into(),
                holders: holders.clone(),
            },
        };
        let table = ClusterTable {
            table: TableRef {
                name: name.into(),
                generation: 1,
                sharded: by.is_some(),
            },
            schema: Arc::clone(&schema),
            layout: Arc::new(layout),
            rows,
            size_bytes: rows * 24,
        };
        engine
            .context()
            .register_table(name, Arc::new(table))
            .unwrap();
    }
    engine
}

fn plan(sql: &str) -> Distributed {
    let engine = engine();
    let planned = engine
        .plan("test", sql)
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    distribute(Arc::clone(planned.plan())).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// Number of node plans, and whether something is left for a final plan.
fn shape(sql: &str) -> (usize, bool) {
    let plan = plan(sql);
    (plan.nodes.len(), plan.last.is_some())
}

#[test]
fn joins_with_tables_that_are_everywhere_and_by_the_key_of_the_shards_stay_on_the_nodes() {
    for sql in [
        "SELECT sum(f.v) FROM fact f JOIN dim d ON f.w = d.k WHERE d.v = 3",
        "SELECT d.v, sum(f.v) FROM fact f JOIN dim d ON f.w = d.k GROUP BY d.v ORDER BY 1",
        "SELECT sum(f.v) FROM fact f JOIN line l ON f.k = l.k",
        "SELECT count(*) FROM fact f LEFT JOIN line l ON f.k = l.k",
        "SELECT count(*) FROM fact WHERE k IN (SELECT k FROM line WHERE v > 3)",
        "SELECT count(*) FROM fact WHERE w NOT IN (SELECT k FROM dim)",
        "SELECT count(DISTINCT w) FROM fact",
        "SELECT avg(v), min(w) FROM (SELECT * FROM fact UNION ALL SELECT * FROM fact)",
        "SELECT * FROM fact ORDER BY v LIMIT 3",
        "SELECT * FROM fact LIMIT 3",
    ] {
        assert_eq!(shape(sql), (1, true), "{sql}");
    }
}

#[test]
fn groups_by_the_key_of_the_shards_are_finished_on_the_nodes() {
    for sql in [
        "SELECT k, sum(v) FROM fact GROUP BY k",
        "SELECT k, w, count(*) FROM line GROUP BY k, w HAVING count(*) > 3",
        "SELECT k + 1, v FROM fact WHERE w > 7",
        "SELECT f.k FROM fact f JOIN (SELECT k, sum(v) s FROM line GROUP BY k) l ON f.k = l.k",
    ] {
        assert_eq!(shape(sql), (1, false), "{sql}");
    }
    assert_eq!(shape("SELECT count(*) FROM dim"), (1, false));
    assert_eq!(shape("SELECT 1"), (1, false));
}

#[test]
fn rows_without_a_match_and_other_keys_come_together_in_the_final_plan() {
    for sql in [
        // Each node would add the rows of `dim` without a match.
        "SELECT count(*) FROM dim d LEFT JOIN fact f ON d.k = f.w",
        "SELECT count(*) FROM dim d WHERE NOT EXISTS (SELECT 1 FROM fact f WHERE f.w = d.k)",
        // Rows that match are on different nodes.
        "SELECT count(*) FROM fact f JOIN line l ON f.v = l.v",
        "SELECT count(*) FROM fact f JOIN other o ON f.k = o.k",
        "SELECT count(*) FROM fact f JOIN other o ON f.k = o.v AND f.w + 1 = o.w + 2 - f.v",
    ] {
        let (nodes, last) = shape(sql);
        assert!(last, "{sql}");
        let by_key = sql.contains("f.k = o.v");
        assert_eq!(nodes, if by_key { 1 } else { 2 }, "{sql}");
    }
    // Nodes may draw different numbers.
    let last = plan("SELECT count(*) FROM fact WHERE random() < 0.5").last;
    let text = text_of(&last.unwrap());
    assert!(text.contains("random"), "{text}");
}

#[test]
fn what_aggregations_and_limits_leave_is_small_and_rows_to_be_joined_are_not() {
    for sql in [
        "SELECT d.v, sum(f.v) FROM fact f JOIN dim d ON f.w = d.k GROUP BY d.v ORDER BY 1",
        "SELECT * FROM fact ORDER BY v LIMIT 3",
        "SELECT * FROM fact LIMIT 3",
        "SELECT * FROM dim LIMIT 3",
        // The rows are the answer.
        "SELECT k + 1, v FROM fact WHERE w > 7",
    ] {
        assert!(plan(sql).has_small_results(), "{sql}");
    }
    for sql in [
        "SELECT count(*) FROM fact f JOIN line l ON f.v = l.v",
        "SELECT count(*) FROM dim d LEFT JOIN fact f ON d.k = f.w",
        "SELECT * FROM fact ORDER BY v",
    ] {
        assert!(!plan(sql).has_small_results(), "{sql}");
    }
}

#[test]
fn a_leaf_has_a_partition_for_each_shard_and_comes_back_from_its_bytes() {
    let distributed = plan("SELECT k, sum(v) FROM fact GROUP BY k");
    let leaf = &distributed.plan;
    let message = node_plan_of(leaf.as_ref()).expect("a node plan");
    let Header::NodePlan(header) = &message.header else {
        panic!("{message:?}");
    };
    assert_eq!(header.shards, [0, 1]);
    assert_eq!(leaf.properties().output_partitioning().partition_count(), 2);
    let bytes = crate::codec::plan_bytes(leaf).unwrap();
    let engine = engine();
    let context = engine.context().task_ctx();
    let again = plan_of(&bytes, &context, Arc::new(Forwarded)).unwrap();
    assert_eq!(node_plan_of(again.as_ref()), Some(message.clone()));
    assert_eq!(again.schema(), leaf.schema());
    // The operators of a node plan name tables, which only a node can read.
    let reader: Arc<dyn PlanReader> = Arc::new(Forwarded);
    let error = plan_of(&message.plan, &context, reader).unwrap_err();
    assert!(
        error.to_string().contains("came without its plan"),
        "{error}"
    );
}
