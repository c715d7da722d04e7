//! Records as files: what is written is read back, and broken ones are refused with file and line.

use proptest::prelude::*;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tierloom_record::{
    Answer, DataCard, EngineKind, HERE, HostCard, MemoryUse, Provenance, QueryRecord, Record,
    RecordError, RecordSet, RecordWriter, RunRecord, SCHEMA, Settings, Spread, SummaryRecord,
    TimeBreakdown, atomic_write,
};

fn run(run_id: &str) -> Record {
    Record::Run(Box::new(RunRecord {
        schema: SCHEMA.into(),
        run_id: run_id.into(),
        tool_version: "0.1.0".into(),
        commit: None,
        build: "dev".into(),
        started_at: "2025-01-01T00:00:00Z".into(),
        command: vec!["tierloom".into(), "run".into(), "ssb".into()],
        workload: "ssb".into(),
        settings: Settings {
            scale_factor: 0.01,
            seed: 1,
            generator_version: 1,
            threads: 2,
            modelled_workers: "all cores".into(),
            repeat: 3,
            warmup: 1,
            page_size: "thp".into(),
            batch_rows: 8192,
            queries: vec!["q1.1".into()],
            placements: vec!["dram".into()],
            machines: vec![],
            time_per_tuple_ns: None,
        },
        host: HostCard {
            cpu_model: "a \"quoted\" processor\nwith a line break".into(),
            cpus: 2,
            smt: 1,
            caches: vec![],
            kernel: "6.1".into(),
            thp: "madvise".into(),
            numa_balancing: None,
            governor: "unknown: no cpufreq".into(),
            memory_bytes: 1 << 30,
            tiers: vec![],
            probe: None,
            notes: vec![],
        },
        machines: vec![],
        data: DataCard {
            tables: vec![],
            column_bytes: 10,
            region_bytes: 4096,
        },
    }))
}

fn query(run_id: &str, name: &str, values_ms: Vec<f64>) -> Record {
    Record::Query(Box::new(QueryRecord {
        run_id: run_id.into(),
        query: name.into(),
        placement: "dram".into(),
        machine: HERE.into(),
        provenance: Provenance::Measured,
        engine: EngineKind::Tierloom,
        time_ms: Spread::of(values_ms).expect("finite values"),
        speedup_over_dram: Some(1.0),
        plan_ms: Some(0.5),
        text_ms: Spread::of(vec![2.5, 2.0]),
        answer: Some(Answer {
            rows: 1,
            digest: "abc".into(),
            checked: true,
            check: "golden".into(),
        }),
        shares: None,
        bottleneck: None,
        tiers: vec![],
        phases: vec![],
        operators: vec![],
        counters: vec![],
    }))
}

fn summary(run_id: &str) -> Record {
    Record::Summary(Box::new(SummaryRecord {
        run_id: run_id.into(),
        interrupted: false,
        finished: 1,
        planned: 1,
        means: vec![],
        placements: vec![],
        intensity: vec![],
        notes: vec!["another".into()],
        findings: vec!["one".into()],
        times: TimeBreakdown::default(),
        memory: MemoryUse {
            loaded_bytes: Some(7),
            loading_peak_bytes: None,
            peak_resident_bytes: None,
        },
    }))
}

fn lines(records: &[Record]) -> String {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, "memory");
    for record in records {
        writer.write(record).expect("writing to memory");
    }
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

fn malformed(text: &str) -> (usize, String, String) {
    match RecordSet::parse(text, "some.jsonl") {
        Err(error @ RecordError::Malformed { .. }) => {
            assert!(error.is_bad_input());
            assert!(error.to_string().starts_with("some.jsonl:"), "{error}");
            let RecordError::Malformed {
                line,
                problem,
                expected,
                ..
            } = error
            else {
                unreachable!()
            };
            (line, problem, expected)
        }
        other => panic!("expected a malformed line, got {other:?}"),
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("folder is there");
    entries
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn what_is_written_is_read_back_in_the_same_order() {
    let records = [
        run("a"),
        query("a", "q2.1", vec![3.0, 1.0]),
        query("a", "q1.1", vec![0.1 + 0.2]),
        run("b"),
        query("b", "q1.1", vec![5e-324]),
        // Records of several runs may be interleaved in one file; each belongs to its own run.
        query("a", "q3.1", vec![f64::MAX]),
        summary("a"),
    ];
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("run.jsonl");
    atomic_write(&path, lines(&records).as_bytes()).expect("written");
    let set = RecordSet::read(&path).expect("read");
    assert_eq!(set.runs.len(), 2);
    let names: Vec<&str> = set.runs[0]
        .queries
        .iter()
        .map(|q| q.query.as_str())
        .collect();
    assert_eq!(names, ["q2.1", "q1.1", "q3.1"]);
    assert_eq!(set.runs[0].queries[0].time_ms.values, [3.0, 1.0]);
    assert!(set.runs[0].summary.is_some() && set.runs[1].summary.is_none());
    assert_eq!(set, RecordSet::from_records(records).expect("same records"));
    assert_eq!(
        RecordSet::from_records(set.to_records()).expect("own records"),
        set
    );
    assert!(
        set.runs[1]
            .find("q1.1", "dram", HERE, EngineKind::Tierloom)
            .is_some()
    );
    assert!(
        set.runs[1]
            .find("q1.1", "dram", HERE, EngineKind::Datafusion)
            .is_none()
    );
}

#[test]
fn a_line_break_in_a_value_does_not_break_the_line() {
    assert_eq!(lines(&[run("a")]).matches('\n').count(), 1);
}

#[test]
fn a_file_cut_anywhere_is_refused_or_a_whole_prefix() {
    let text = lines(&[run("a"), query("a", "q1.1", vec![1.0]), summary("a")]);
    let ends: Vec<usize> = text.match_indices('\n').map(|(i, _)| i).collect();
    for cut in 1..text.len() {
        let part = &text[..cut];
        let whole_lines = part.ends_with('\n') || ends.contains(&cut);
        match RecordSet::parse(part, "cut.jsonl") {
            Ok(_) => assert!(whole_lines, "cut at {cut} was accepted"),
            Err(error) => {
                assert!(!whole_lines, "cut at {cut}: {error}");
                assert!(error.to_string().contains("cut off here"), "{error}");
            }
        }
    }
}

#[test]
fn an_unknown_schema_is_refused_by_name() {
    let text = lines(&[run("a")]).replace(SCHEMA, "tierloom-record/99");
    let (line, problem, _) = malformed(&text);
    assert_eq!(line, 1);
    assert!(
        problem.contains("tierloom-record/99") && problem.contains(SCHEMA),
        "{problem}"
    );
}

#[test]
fn a_query_before_its_run_is_refused_with_its_line() {
    let text = lines(&[run("a"), query("b", "q1.1", vec![1.0])]);
    let (line, problem, expected) = malformed(&text);
    assert_eq!(line, 2);
    assert!(problem.contains("\"b\""), "{problem}");
    assert!(expected.contains("run record before"), "{expected}");
    assert!(RecordSet::from_records([query("a", "q1.1", vec![1.0]), run("a")]).is_err());
}

#[test]
fn text_that_is_no_record_is_refused_with_its_line() {
    let text = format!("{}\n{{\"type\":\"elephant\"}}\n", lines(&[run("a")]));
    assert_eq!(malformed(&text).0, 3);
    assert_eq!(malformed("hello\n").0, 1);
}

#[test]
fn a_file_without_records_says_so() {
    for text in ["", "\n\n  \n"] {
        let error = RecordSet::parse(text, "empty.jsonl").expect_err("nothing in it");
        assert!(
            matches!(error, RecordError::Empty { .. }) && error.is_bad_input(),
            "{error}"
        );
    }
}

#[test]
fn a_missing_file_is_bad_input_and_named() {
    let error = RecordSet::read(Path::new("/nonexistent/run.jsonl")).expect_err("not there");
    assert!(error.is_bad_input());
    assert!(
        error.to_string().contains("/nonexistent/run.jsonl"),
        "{error}"
    );
}

#[test]
fn bytes_that_are_no_text_are_bad_input() {
    let mut file = tempfile::NamedTempFile::new().expect("temporary file");
    file.write_all(&[0xff, 0xfe, 0x00]).expect("written");
    assert!(
        RecordSet::read(file.path())
            .expect_err("not text")
            .is_bad_input()
    );
}

#[test]
fn a_figure_that_is_not_finite_is_refused_when_written_not_when_read() {
    let mut record = summary("a");
    if let Record::Summary(summary) = &mut record {
        summary.times.total_s = f64::NAN;
    }
    let mut bytes = Vec::new();
    let error = RecordWriter::new(&mut bytes, "out.jsonl")
        .write(&record)
        .expect_err("NaN");
    assert!(
        error.to_string().contains("out.jsonl") && error.to_string().contains("finite"),
        "{error}"
    );
    assert!(bytes.is_empty());
}

#[test]
fn a_full_disk_is_the_machines_fault_and_names_the_file() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("Linux has /dev/full");
    let error = RecordWriter::new(full, "/dev/full")
        .write(&run("a"))
        .expect_err("no space");
    assert!(!error.is_bad_input());
    assert!(
        error.to_string().starts_with("cannot write /dev/full"),
        "{error}"
    );
}

#[test]
fn a_device_is_written_to_and_never_replaced() {
    let error = atomic_write(Path::new("/dev/full"), b"x").expect_err("no space");
    assert!(error.to_string().contains("/dev/full"), "{error}");
    assert!(
        std::fs::metadata("/dev/full")
            .expect("still there")
            .file_type()
            .is_char_device()
    );
    atomic_write(Path::new("/dev/null"), b"x").expect("takes everything");
    assert!(
        std::fs::metadata("/dev/null")
            .expect("still there")
            .file_type()
            .is_char_device()
    );
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let inside = folder.path().join("taken");
    std::fs::create_dir(&inside).expect("made");
    atomic_write(&inside, b"x").expect_err("a folder cannot be replaced by a file");
    atomic_write(&folder.path().join("missing/report.html"), b"x").expect_err("no such folder");
    assert_eq!(names_in(folder.path()), ["taken"]);
    assert!(names_in(&inside).is_empty());
}

#[test]
fn a_rewrite_replaces_all_of_the_old_content_also_behind_a_link() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (file, link) = (
        folder.path().join("real.html"),
        folder.path().join("link.html"),
    );
    atomic_write(&file, b"a long first version").expect("written");
    std::os::unix::fs::symlink(&file, &link).expect("linked");
    atomic_write(&link, b"short").expect("written");
    assert_eq!(std::fs::read(&file).expect("read"), b"short");
    assert!(
        std::fs::symlink_metadata(&link)
            .expect("there")
            .file_type()
            .is_symlink()
    );
    assert_eq!(names_in(folder.path()).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_or_refused_but_never_a_panic(text in "\\PC{0,80}(\n\\PC{0,40}){0,3}") {
        let _ = RecordSet::parse(&text, "any.jsonl");
    }

    #[test]
    fn any_times_survive_the_file_bit_by_bit(values in prop::collection::vec(1e-9f64..1e12, 1..9), name in "\\PC{0,12}") {
        let text = lines(&[run("a"), query("a", &name, values.clone())]);
        let set = RecordSet::parse(&text, "any.jsonl").expect("own lines");
        prop_assert_eq!(&set.runs[0].queries[0].time_ms.values, &values);
        prop_assert_eq!(&set.runs[0].queries[0].query, &name);
    }
}
