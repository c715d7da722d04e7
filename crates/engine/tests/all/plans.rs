//! Plans of the SSB queries: order of joins, build sides, and that other SQL is left unchanged.

use crate::common;
use tierloom_engine::Engine;
use tierloom_workloads::ssb::query;

fn engine() -> Engine {
    let (backend, topology) = common::two_nodes();
    common::unfused(&common::ssb(backend, &topology, 0.1))
}

fn plan(engine: &Engine, sql: &str) -> String {
    engine.plan("test", sql).unwrap().display()
}

/// The tables in the order in which the fact table's rows reach them.
fn probe_order(plan: &str) -> Vec<String> {
    let mut tables: Vec<String> = plan
        .lines()
        .filter_map(|l| l.split("table=").nth(1))
        .map(|rest| rest.split(',').next().unwrap().to_owned())
        .collect();
    // The plan lists build sides from the outermost join inwards and the fact table last.
    tables.reverse();
    tables
}

#[test]
fn the_fact_table_probes_the_most_selective_dimension_first() {
    let engine = engine();
    // Q2.3 keeps one brand in a thousand, one region in five, and every date. Fewer rows are left
    // then than there are dates, which are the probe side and come last in the plan.
    assert_eq!(
        probe_order(&plan(&engine, query("q2.3").unwrap().sql)),
        ["date", "lineorder", "part", "supplier"]
    );
    // Q3.1 keeps one region in five of customers and suppliers, and six years in seven.
    assert_eq!(
        probe_order(&plan(&engine, query("q3.1").unwrap().sql))
            .last()
            .unwrap(),
        "date"
    );
    assert_eq!(
        probe_order(&plan(&engine, query("q4.1").unwrap().sql))[0],
        "lineorder"
    );
}

#[test]
fn plans_of_the_queries_do_not_change_unseen() {
    let engine = engine();
    for id in ["q1.1", "q2.1", "q3.1", "q4.1"] {
        insta::assert_snapshot!(id, plan(&engine, query(id).unwrap().sql));
    }
}

#[test]
fn an_alias_does_not_hide_a_dimension_filter() {
    let engine = engine();
    let sql = "select sum(l.lo_revenue) from date d, supplier s, part p, lineorder l
               where l.lo_orderdate = d.d_datekey and l.lo_suppkey = s.s_suppkey and l.lo_partkey = p.p_partkey and p.p_brand1 = 'MFGR#2221' and s.s_region = 'ASIA'";
    let plan = plan(&engine, sql);
    // After the filter on the brand, fewer rows are left than the date table has, so the planner
    // may build on that side of the last join.
    let filtered: Vec<String> = probe_order(&plan)
        .into_iter()
        .filter(|t| t != "date")
        .collect();
    assert_eq!(filtered, ["lineorder", "part", "supplier"], "{plan}");
}

#[test]
fn joins_that_are_no_star_keep_their_answers() {
    let engine = engine();
    // A self join of the fact table, an outer join, and a dimension that depends on another
    // dimension.
    let count = |sql: &str| {
        let planned = engine.plan("test", sql).unwrap();
        tierloom_engine::answer::to_text(
            &engine.execute("test", &planned, &|| false).unwrap().batches,
        )
        .unwrap()
    };
    let self_join = count(
        "select count(*) as n from lineorder a, lineorder b where a.lo_orderkey = b.lo_orderkey and a.lo_linenumber = 1 and b.lo_linenumber = 2",
    );
    let counted = count("select count(*) as n from lineorder where lo_linenumber = 2");
    assert_eq!(self_join, counted);
    let outer = count(
        "select count(*) as n from customer left join lineorder on c_custkey = lo_custkey where lo_custkey is null",
    );
    let anti = count(
        "select count(*) as n from customer where c_custkey not in (select lo_custkey from lineorder)",
    );
    assert_eq!(outer, anti);
    let chain = count(
        "select count(*) as n from lineorder, customer, supplier where lo_custkey = c_custkey and c_city = s_city and lo_linenumber = 1",
    );
    let nested = count(
        "select count(*) as n from (select c_city from lineorder, customer where lo_custkey = c_custkey and lo_linenumber = 1) x, supplier where c_city = s_city",
    );
    assert_eq!(chain, nested);
}

#[test]
fn a_statement_that_does_not_plan_says_which_and_why() {
    let error = engine()
        .plan("mine", "select nope from lineorder")
        .unwrap_err()
        .to_string();
    assert!(error.contains("mine") && error.contains("nope"), "{error}");
}

#[test]
fn a_stopped_query_ends_and_the_next_one_runs() {
    let engine = engine();
    let planned = engine
        .plan(
            "long",
            "select count(*) from lineorder a, lineorder b where a.lo_partkey = b.lo_partkey",
        )
        .unwrap();
    let error = engine
        .execute("long", &planned, &|| true)
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(error, tierloom_engine::EngineError::Interrupted),
        "{error}"
    );
    let next = engine
        .plan("next", "select count(*) as n from supplier")
        .unwrap();
    assert_eq!(
        tierloom_engine::answer::row_count(
            &engine.execute("next", &next, &|| false).unwrap().batches
        ),
        1
    );
}
