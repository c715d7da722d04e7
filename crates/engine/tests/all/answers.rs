//! Results do not depend on placement, and equal those of an independent engine.

use crate::common;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use tierloom_engine::answer::to_text;
use tierloom_engine::capture::{HostCosts, capture};
use tierloom_engine::load::column_uses;
use tierloom_engine::{Engine, EngineOptions};
use tierloom_placement::Policy;
use tierloom_workloads::ssb::{SsbConfig, golden_answer, queries};

const PLACEMENTS: [&str; 9] = [
    "dram",
    "cxl",
    "3:2",
    "9:1",
    "0:3,1:2",
    "0=70%,1=30%",
    "tier",
    "columns:8",
    "columns:23%",
];

fn assert_golden(engine: &Engine, scale_factor: f64, what: &str) {
    let config = SsbConfig::new(scale_factor, 1).unwrap();
    for query in queries() {
        let planned = engine.plan(query.id, query.sql).unwrap();
        // Twice: a plan is run many times, and the second run must not see state of the first one.
        for round in 0..2 {
            let answer = to_text(
                &engine
                    .execute(query.id, &planned, &|| false)
                    .unwrap()
                    .batches,
            )
            .unwrap();
            let golden = golden_answer(&config, query.id).unwrap();
            let same = answer == golden || (answer.is_empty() && golden.lines().count() == 1);
            assert!(
                same,
                "{} under {what}, run {round}:\n{answer}\nexpected\n{golden}",
                query.id
            );
        }
    }
}

fn answers_hold_under_every_placement(scale_factor: f64) {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, scale_factor);
    let engine = common::engine(&tables);
    let host = HostCosts {
        stream_ns_per_byte: 0.0,
        working_set_bytes: 0,
    };
    let mut reads = BTreeMap::new();
    for query in queries() {
        let planned = engine.plan(query.id, query.sql).unwrap();
        let captured = capture(
            &engine.execute(query.id, &planned, &|| false).unwrap(),
            &host,
        );
        for (column, bytes) in captured.column_reads {
            *reads.entry(column).or_insert(0) += bytes;
        }
    }
    let uses = column_uses(&tables, &reads);
    for text in PLACEMENTS {
        let decisions = text.parse::<Policy>().unwrap().decide(&uses);
        tables.iter().for_each(|t| {
            t.place(&decisions, &topology, &AtomicBool::new(false))
                .unwrap()
        });
        assert_golden(&engine, scale_factor, text);
    }
}

#[test]
fn tiny_data_gives_golden_answers_under_every_placement() {
    answers_hold_under_every_placement(0.01);
}

#[test]
fn larger_data_gives_golden_answers_under_every_placement() {
    answers_hold_under_every_placement(0.1);
}

#[test]
fn plain_datafusion_on_the_same_memory_gives_golden_answers() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.1);
    let engine = Engine::new(EngineOptions::plain(2)).unwrap();
    tables
        .iter()
        .for_each(|t| engine.register_as_mem_table(t).unwrap());
    assert_golden(&engine, 0.1, "MemTable");
}
