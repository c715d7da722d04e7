//! The description of an execution: rows, bytes and structures that the model prices.

use crate::common;
use std::sync::Arc;
use tierloom_engine::adapt::describe;
use tierloom_engine::bigjoin::{BigAggregateOptions, BigJoinOptions};
use tierloom_engine::capture::{Captured, HostCosts, capture};
use tierloom_engine::load::Encoding;
use tierloom_engine::{Engine, EngineOptions, PlacedTable, Staging};
use tierloom_model::{Access, Phase, PhaseKind, StructureClass};
use tierloom_workloads::ssb::query;

const HOST: HostCosts = HostCosts {
    stream_ns_per_byte: 0.0,
    working_set_bytes: 1 << 30,
};

fn captured(id: &str, prepare: impl Fn(&PlacedTable)) -> (Captured, f64) {
    captured_as(Encoding::Auto, id, prepare)
}

fn captured_as(encoding: Encoding, id: &str, prepare: impl Fn(&PlacedTable)) -> (Captured, f64) {
    captured_by(common::unfiltered, encoding, id, prepare)
}

fn captured_by(
    engine: fn(&[Arc<PlacedTable>]) -> Engine,
    encoding: Encoding,
    id: &str,
    prepare: impl Fn(&PlacedTable),
) -> (Captured, f64) {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb_as(backend, &topology, 0.1, encoding);
    tables.iter().for_each(|t| prepare(t));
    let engine = engine(&tables);
    let planned = engine.plan(id, query(id).unwrap().sql).unwrap();
    let execution = engine.execute(id, &planned, &|| false).unwrap();
    (capture(&execution, &HOST), tables[0].rows() as f64)
}

fn phase<'a>(captured: &'a Captured, name: &str) -> &'a Phase {
    captured.phases.iter().find(|p| p.name == name).unwrap()
}

fn access<'a>(phase: &'a Phase, structure: &str) -> &'a Access {
    phase
        .accesses
        .iter()
        .find(|a| a.structure == structure)
        .unwrap_or_else(|| panic!("{structure} in {phase:?}"))
}

#[test]
fn a_scan_with_a_filter_reads_filter_columns_whole_and_others_where_rows_survive() {
    let (captured, rows) = captured_as(Encoding::Plain, "q1.3", |_| {});
    let fact = phase(&captured, "lineorder");
    assert_eq!(fact.tuples, rows);
    let whole = 4.0 / 64.0;
    assert!((access(fact, "lineorder.lo_discount").lines_per_tuple - whole).abs() < 1e-9);
    assert!((access(fact, "lineorder.lo_quantity").lines_per_tuple - whole).abs() < 1e-9);
    // Three discounts of eleven and five quantities of fifty: a share s of the rows leaves 1 - (1 -
    // s)^16 of the lines.
    let kept: f64 = 3.0 / 11.0 * 5.0 / 50.0;
    let expected = whole * (1.0 - (1.0 - kept).powi(16));
    let price = access(fact, "lineorder.lo_extendedprice").lines_per_tuple;
    assert!(
        (price / expected - 1.0).abs() < 0.05,
        "{price} against {expected}"
    );
    assert_eq!(
        captured.column_reads["lineorder.lo_discount"],
        rows as u64 * 4
    );
}

#[test]
fn columns_that_are_decoded_are_read_whole_at_the_width_of_their_codes() {
    let (captured, rows) = captured("q2.1", |_| {});
    let fact = phase(&captured, "lineorder");
    for (column, code_bytes) in [
        ("lineorder.lo_partkey", 2),
        ("lineorder.lo_orderdate", 2),
        ("lineorder.lo_revenue", 3),
    ] {
        let lines = access(fact, column).lines_per_tuple;
        assert!(
            (lines - f64::from(code_bytes) / 64.0).abs() < 1e-9,
            "{column}: {lines}"
        );
        assert_eq!(
            captured.column_reads[column],
            rows as u64 * code_bytes as u64
        );
    }
}

#[test]
fn where_codes_are_filtered_only_filter_columns_are_read_whole() {
    let (captured, rows) = captured("q1.3", |_| {});
    let fact = phase(&captured, "lineorder");
    assert_eq!(
        fact.tuples, rows,
        "rows that are looked at, not those that come out"
    );
    let whole = 1.0 / 64.0;
    assert!((access(fact, "lineorder.lo_discount").lines_per_tuple - whole).abs() < 1e-9);
    assert!((access(fact, "lineorder.lo_quantity").lines_per_tuple - whole).abs() < 1e-9);
    let kept: f64 = 3.0 / 11.0 * 5.0 / 50.0;
    let expected = 3.0 / 64.0 * (1.0 - (1.0 - kept).powf(64.0 / 3.0));
    let price = access(fact, "lineorder.lo_extendedprice").lines_per_tuple;
    assert!(
        (price / expected - 1.0).abs() < 0.05,
        "{price} against {expected}"
    );
}

#[test]
fn where_keys_of_joins_filter_the_other_columns_are_read_for_rows_that_survive() {
    let (captured, rows) = captured_by(common::unfused, Encoding::Auto, "q2.1", |_| {});
    let fact = phase(&captured, "lineorder");
    assert_eq!(fact.tuples, rows);
    let partkey = access(fact, "lineorder.lo_partkey").lines_per_tuple;
    assert!((partkey - 2.0 / 64.0).abs() < 1e-9, "{partkey}");
    // One category of 25 and one region of five.
    let kept: f64 = 1.0 / 125.0;
    let expected = 3.0 / 64.0 * (1.0 - (1.0 - kept).powf(64.0 / 3.0));
    let revenue = access(fact, "lineorder.lo_revenue").lines_per_tuple;
    assert!(
        (revenue / expected - 1.0).abs() < 0.2,
        "{revenue} against {expected}"
    );
}

#[test]
fn every_join_is_a_build_phase_and_probes_in_the_fact_phase() {
    let (captured, rows) = captured("q2.1", |_| {});
    let fact = phase(&captured, "lineorder");
    assert_eq!(fact.kind, PhaseKind::Probe);
    for dimension in ["part", "supplier", "date"] {
        let build = phase(&captured, &format!("build {dimension}"));
        assert_eq!(build.kind, PhaseKind::Build);
        let table = format!("hash({dimension})");
        assert_eq!(access(build, &table).class, StructureClass::HashTable);
        assert!(access(fact, &table).footprint_bytes > 0);
    }
    // Every fact row probes the parts; one in 25 is left for the suppliers.
    let first = access(fact, "hash(part)").lines_per_tuple;
    let second = access(fact, "hash(supplier)").lines_per_tuple;
    assert!(
        (1.0..1.2).contains(&first) && second < 0.1,
        "{first} {second}"
    );
    let probes = captured
        .operators
        .iter()
        .find(|o| o.operator == "probe part")
        .unwrap();
    assert_eq!(probes.input_rows as f64, rows);
    assert!(
        captured
            .operators
            .iter()
            .all(|o| captured.phases.iter().any(|p| p.name == o.phase)),
        "{:?}",
        captured.operators
    );
}

#[test]
fn columns_of_a_phase_stand_for_the_working_set_of_the_workload() {
    let (captured, _) = captured("q2.1", |_| {});
    let fact = phase(&captured, "lineorder");
    let columns = fact
        .accesses
        .iter()
        .filter(|a| a.class == StructureClass::Column);
    let footprint: u64 = columns.map(|a| a.footprint_bytes).sum();
    assert!(
        footprint.abs_diff(HOST.working_set_bytes) < 16,
        "{footprint}"
    );
}

#[test]
fn a_staged_column_is_read_whole_by_the_scan() {
    // Without filters on the facts, which the scan would use to read some rows alone.
    let (captured, rows) = captured_as(Encoding::Plain, "q2.1", |table| {
        (0..table.columns().len()).for_each(|i| table.set_staging(i, Staging::WorkingBuffer));
    });
    assert_eq!(
        captured.column_reads["lineorder.lo_revenue"],
        rows as u64 * 4
    );
}

#[test]
fn phases_can_be_stored_and_read_back() {
    let (captured, _) = captured("q4.2", |_| {});
    for phase in &captured.phases {
        phase.check().unwrap();
        let text = serde_json::to_string(phase).unwrap();
        let back: Phase = serde_json::from_str(&text).unwrap();
        assert_eq!(back.name, phase.name);
        assert_eq!(back.accesses.len(), phase.accesses.len());
    }
}

/// Joins and group-bys that Tierloom's own operators have taken over need placement the most.
#[test]
fn tables_of_large_joins_and_group_bys_are_known_before_a_run_and_after_it() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb_as(backend, &topology, 0.05, Encoding::Auto);
    let engine = Engine::new(EngineOptions {
        fused: false,
        big_joins: BigJoinOptions {
            min_build_rows: 1,
            dense_keys: true,
        },
        big_aggregates: BigAggregateOptions { min_groups: 1 },
        ..EngineOptions::tuned(2)
    })
    .unwrap();
    tables.iter().for_each(|t| engine.register(t).unwrap());
    let sql = "select lo_orderkey, sum(lo_revenue) as r from lineorder, customer \
               where lo_custkey = c_custkey group by lo_orderkey";
    let planned = engine.plan("q", sql).unwrap();
    for operator in ["BigJoinExec", "BigAggregateExec"] {
        assert!(
            planned.display().contains(operator),
            "{}",
            planned.display()
        );
    }
    let execution = engine.execute("q", &planned, &|| false).unwrap();
    let measured = capture(&execution, &HOST).phases;
    let estimated: Vec<Phase> = describe(planned.plan())
        .into_iter()
        .map(|d| d.phase)
        .collect();
    for phases in [&measured, &estimated] {
        for class in [StructureClass::HashTable, StructureClass::GroupTable] {
            let known = phases.iter().any(|phase| {
                let mut accesses = phase.accesses.iter();
                accesses.any(|a| a.class == class && a.footprint_bytes > 64)
            });
            assert!(known, "{class:?} in {phases:#?}");
        }
        assert!(phases.iter().any(|p| p.kind == PhaseKind::Build));
    }
    // The final group-by reads states and not the table.
    let merged = measured.iter().find(|p| p.name == "merge groups").unwrap();
    assert_eq!(merged.kind, PhaseKind::Aggregate);
}
