//! `tierloom run tpch|tpcds` and `tierloom generate tpch|tpcds`, run as programs.
#![cfg(feature = "sql")]

mod common;

use common::runs::from_json;
use common::{contents, tierloom_anywhere};
use tierloom_record::{EngineKind, Provenance, Record, RecordSet};

const SMALL: [&str; 6] = ["run", "tpch", "--sf", "0.01", "--repeat", "2"];

#[test]
fn a_run_checks_its_answers_and_models_other_machines() {
    let more = [
        "--query",
        "q1,6,q14",
        "--placement",
        "dram,columns:25%",
        "--machine",
        "nus24",
        "--baseline",
        "--json",
    ];
    let ended = tierloom_anywhere(&[&SMALL[..], &more].concat()).with_code(0);
    ended.no_panic();
    let run = from_json(&ended.stdout);
    assert_eq!(run.run.workload, "tpch");
    assert_eq!(run.run.settings.queries, ["q01", "q06", "q14"]);
    assert_eq!(run.run.data.tables.len(), 8);
    let (measured, modelled): (Vec<_>, Vec<_>) = run
        .queries
        .iter()
        .partition(|q| q.provenance == Provenance::Measured);
    for engine in [EngineKind::Tierloom, EngineKind::Datafusion] {
        let of = measured
            .iter()
            .filter(|q| q.placement == "dram" && q.engine == engine);
        assert_eq!(of.count(), 3, "{engine}");
    }
    for query in &measured {
        let answer = query.answer.as_ref().unwrap();
        assert!(answer.checked, "{}: {}", query.query, answer.check);
        assert_eq!(query.time_ms.values.len(), 2);
    }
    assert_eq!(modelled.len(), 2 * 3);
    assert!(modelled.iter().all(|q| q.machine == "nus24"));
}

#[test]
fn streams_give_throughput_that_is_the_sum_of_their_rates() {
    let more = [
        "--query",
        "q1,q6",
        "--placement",
        "dram",
        "--streams",
        "3",
        "--duration",
        "1s",
        "--baseline",
        "--jsonl",
    ];
    let ended = tierloom_anywhere(&[&SMALL[..], &more].concat()).with_code(0);
    ended.no_panic();
    let set = RecordSet::parse(&ended.stdout, "stdout").unwrap();
    let throughputs = &set.runs[0].throughputs;
    assert_eq!(
        throughputs.iter().map(|t| t.engine).collect::<Vec<_>>(),
        [EngineKind::Tierloom, EngineKind::Datafusion]
    );
    for record in throughputs {
        assert_eq!(record.streams.len(), 3);
        assert!(record.streams.iter().all(|s| s.queries > 0));
        let queries: u64 = record.streams.iter().map(|s| s.queries).sum();
        assert_eq!(queries, record.queries);
        let rates: f64 = record.streams.iter().map(|s| s.queries_per_hour).sum();
        assert!((rates / record.queries_per_hour - 1.0).abs() < 1e-9);
    }
    let summary = set.runs[0].summary.as_ref().expect("a summary");
    assert!(!summary.interrupted);
    assert_eq!((summary.finished, summary.planned), (2, 2));
    let audit = summary.placements[0].audit_after.as_ref();
    assert!(audit.is_some_and(|audit| audit.worst_deviation < 0.01));
    assert!(
        summary.findings[0].contains("3 concurrent sessions"),
        "{:?}",
        summary.findings
    );
    // Records that were read can be written again.
    let again = set.to_records();
    let same = again
        .iter()
        .filter(|r| matches!(r, Record::Throughput(_)))
        .count();
    assert_eq!(same, 2);
}

#[test]
fn a_wrong_answer_ends_the_run_and_names_the_query() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tpch")).unwrap();
    std::fs::write(folder.path().join("tpch/q06.csv"), "revenue\n\n1.0000\n").unwrap();
    let answers = folder.path().to_str().unwrap();
    let more = ["--query", "q6", "--placement", "dram", "--answers", answers];
    let ended = tierloom_anywhere(&[&SMALL[..], &more].concat()).with_code(1);
    let error = ended.one_error();
    assert!(error.contains("q06") && error.contains("1.0000"), "{error}");
}

#[test]
fn files_of_every_table_are_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().to_str().unwrap();
    let args = ["generate", "tpch", "--sf", "0.01", "-o", into];
    tierloom_anywhere(&args).with_code(0).no_panic();
    let files = contents(folder.path());
    assert_eq!(files.len(), 8);
    for (name, bytes) in files {
        let bytes = bytes.expect("a file, no folder");
        assert!(name.to_string_lossy().ends_with(".parquet"), "{name:?}");
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{name:?}"
        );
    }
}

#[test]
fn bad_input_is_refused_before_data_is_made() {
    let cases: [(&[&str], &str); 9] = [
        (&["run", "tpch", "--sf", "0"], "scale factor 0"),
        (&["run", "tpcds", "--sf", "NaN"], "scale factor NaN"),
        (&["run", "tpch", "--query", "q23"], "q1 to q22"),
        (&["run", "tpcds", "--query", "q100"], "q1 to q99"),
        (&["run", "tpch", "--streams", "2"], "--duration"),
        (
            &["run", "tpch", "--streams", "0", "--duration", "1s"],
            "--streams 0",
        ),
        (
            &["run", "tpch", "--streams", "2", "--duration", "0s"],
            "--duration 0s",
        ),
        (
            &["run", "tpch", "--answers", "/no/such/folder"],
            "golden_tpc.py",
        ),
        (
            &["generate", "tpcds", "--sf", "0.001", "-o", "x"],
            "scale factor 0.001",
        ),
    ];
    for (args, says) in cases {
        let ended = tierloom_anywhere(args).with_code(2);
        ended.no_panic();
        assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("generating"), "{args:?}");
    }
}

#[test]
fn a_dry_run_says_what_would_run() {
    let args = [
        &SMALL[..],
        &["--streams", "4", "--duration", "5m", "--dry-run"],
    ]
    .concat();
    let ended = tierloom_anywhere(&args).with_code(0);
    for says in ["TPC-H", "no TPC result", "4 at once, for 5m", "q01 q02"] {
        assert!(ended.stdout.contains(says), "{}", ended.stdout);
    }
}
