//! The article on queries of several hosts.

mod support;

use tierloom_record::{
    Answer, AuditRecord, HERE, HostBeside, HostInCase, HostRun, InterferenceCase, InterferenceHost,
    InterferenceRecord, NodeShare, Provenance, QueryOnHost, RecordSet, SCHEMA, Spread,
};
use tierloom_report::{ReportOptions, extract_records, render};

fn query(name: &str, alone: [f64; 4], together: [f64; 4]) -> QueryOnHost {
    let spread = |values: [f64; 4]| Spread::of(values.to_vec()).unwrap();
    let answer = Answer {
        rows: 7,
        digest: "d".into(),
        checked: true,
        check: "equals DuckDB's stored answer on the same data".into(),
    };
    QueryOnHost::new(name.into(), spread(alone), spread(together), answer)
}

fn run(beside: Option<&str>) -> HostRun {
    let on_node_2 = || {
        vec![NodeShare {
            node: 2,
            share: 1.0,
        }]
    };
    let audit = AuditRecord {
        bytes_checked: 4096,
        pages_checked: 1,
        pages_absent: 0,
        requested: on_node_2(),
        effective: on_node_2(),
        actual: on_node_2(),
        worst_deviation: 0.0,
    };
    let beside = beside.map(|host| HostBeside {
        host: host.into(),
        executions: 23,
        late_ns: 2000,
        clock_uncertainty_ns: 40_000,
    });
    HostRun {
        late_ns: 1000,
        clock_offset_ns: -5,
        clock_uncertainty_ns: 50_000,
        elapsed_s: 1.0,
        audit_before: Some(audit.clone()),
        audit_after: Some(audit),
        beside: beside.into_iter().collect(),
    }
}

fn record() -> InterferenceRecord {
    let card = support::sample().runs[0].run.host.clone();
    let host = |name: &str| InterferenceHost {
        name: name.into(),
        agent: format!("{name}.example"),
        card: card.clone(),
        threads: 4,
        column_bytes: 1 << 30,
    };
    let in_case = |name: &str, other: &str, together: [f64; 4]| HostInCase {
        host: name.into(),
        placement: "2".into(),
        pool: None,
        alone: run(None),
        together: run(Some(other)),
        queries: vec![query("q09", [10.0, 11.0, 10.0, 10.0], together)],
    };
    InterferenceRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Measured,
        run_id: HERE.into(),
        tool_version: "0.1.0".into(),
        commit: None,
        build: "dev".into(),
        started_at: "2026-11-25T00:00:00Z".into(),
        command: vec!["tierloom".into()],
        workload: "tpch".into(),
        scale_factor: 1.0,
        seed: 0,
        generator_version: 1,
        repeat: 4,
        page_size: "thp".into(),
        hosts: vec![host("a"), host("b")],
        cases: vec![InterferenceCase {
            case: "one device".into(),
            hosts: vec![
                in_case("a", "b", [20.0, 21.0, 20.0, 20.0]),
                in_case("b", "a", [10.0, 11.0, 10.5, 10.0]),
            ],
        }],
        interrupted: None,
        valid: true,
        remarks: Vec::new(),
    }
    .judged()
}

/// The text of the page without tags, one space between words.
fn words(html: &str) -> String {
    let text = html.split('<').filter_map(|piece| piece.split_once('>'));
    let text: Vec<&str> = text.map(|(_, text)| text.trim()).collect();
    let words: Vec<&str> = text.iter().flat_map(|t| t.split_whitespace()).collect();
    words.join(" ")
}

#[test]
fn each_host_has_its_times_ratio_company_and_pages() {
    let set = RecordSet {
        interferences: vec![record()],
        ..RecordSet::default()
    };
    assert!(
        set.interferences[0].valid,
        "{:?}",
        set.interferences[0].remarks
    );
    let html = render(&set, &ReportOptions::default()).unwrap();
    let text = words(&html);
    for part in [
        "Interference of the hosts a and b",
        "queries of host a take 2.00 times as long as alone",
        "slower beyond the spread: q09.",
        "a q09 10.00 (10.00 to 11.00) 20.00 (20.00 to 21.00) 2.00 (1.82 to 2.10) slower 7 rows;",
        "b q09 10.00 (10.00 to 11.00) 10.25 (10.00 to 11.00) 1.02 (0.91 to 1.10) no 7 rows;",
        "a 2 nobody 1 50 node 2: 100.0%",
        "a 2 b (23 queries) 1 50 node 2: 100.0%",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let embedded = extract_records(&html).expect("records are embedded");
    assert_eq!(RecordSet::parse(&embedded, "report").unwrap(), set);
}
