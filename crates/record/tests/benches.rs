//! Records of memory benchmarks: they are self-contained, survive files bit by bit, grow by whole
//! lines, and become CSV.

mod support;

use proptest::prelude::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use support::{bench, latency, region, setting, task};
use tierloom_record::{
    BenchRecord, CutTail, Record, RecordError, RecordFile, RecordSet, RecordWriter, SCHEMA, Spread,
    bench_csv,
};

fn record(run_id: &str) -> Record {
    Record::Bench(Box::new(bench(run_id, vec![setting("threads", "2")])))
}

fn line(record: &Record) -> String {
    let mut bytes = Vec::new();
    RecordWriter::new(&mut bytes, "memory")
        .write(record)
        .expect("writing to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

fn ids(set: &RecordSet) -> Vec<&str> {
    set.benches.iter().map(|b| b.run_id.as_str()).collect()
}

/// A file in a separate folder.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("bench.jsonl");
    (folder, path)
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("folder is there");
    entries
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_benchmark_needs_no_run_before_it_and_comes_back_as_it_was() {
    let mut all = bench("a", vec![setting("placement", "dram:3,cxl:2")]);
    all.tasks.push(support::task("load"));
    all.tasks[0].latency = Some(latency());
    let text = line(&Record::Bench(Box::new(all.clone()))) + &line(&record("b"));
    let set = RecordSet::parse(&text, "x.jsonl").expect("own lines");
    assert!(!set.is_empty() && set.runs.is_empty());
    assert_eq!(ids(&set), ["a", "b"]);
    assert_eq!(set.benches[0], all);
    assert_eq!(RecordSet::from_records(set.to_records()).expect("own"), set);
    let merged = RecordSet::merged([set.clone(), set.clone()]);
    assert_eq!(ids(&merged), ["a", "b", "a", "b"]);
}

#[test]
fn another_schema_is_refused_on_every_line() {
    let text = line(&record("a")) + &line(&record("b")).replace(SCHEMA, "tierloom-record/99");
    let error = RecordSet::parse(&text, "x.jsonl").expect_err("another schema");
    assert!(
        error.to_string().starts_with("x.jsonl:2:") && error.to_string().contains("record/99"),
        "{error}"
    );
}

#[test]
fn a_cut_last_line_is_an_error_for_reports_and_told_for_resuming() {
    let (_folder, path) = place();
    let mut second = bench("b", vec![]);
    // A file can also be truncated inside a character of several bytes.
    second.workload = "größe".into();
    let (first, second) = (line(&record("a")), line(&Record::Bench(Box::new(second))));
    let umlaut = second.find('ö').expect("there") + 1;
    for cut in [1, umlaut, second.len() - 2] {
        let mut bytes = first.clone().into_bytes();
        bytes.extend(&second.as_bytes()[..cut]);
        std::fs::write(&path, bytes).expect("written");
        let error = RecordSet::read(&path).expect_err("cut");
        assert!(error.is_bad_input() && error.to_string().contains("cut off here"));
        let (set, tail) = RecordSet::read_whole(&path).expect("the first line is whole");
        assert_eq!(ids(&set), ["a"]);
        let bytes = cut as u64;
        assert_eq!(tail, Some(CutTail { line: 2, bytes }));
    }
    // A broken line in the middle is not a truncation.
    std::fs::write(&path, format!("{}\n{first}", &second[..9])).expect("written");
    RecordSet::read_whole(&path).expect_err("the first line is broken");
    std::fs::write(&path, "").expect("written");
    assert!(
        RecordSet::read_whole(&path)
            .expect("nothing yet")
            .0
            .is_empty()
    );
    assert!(matches!(
        RecordSet::read(&path),
        Err(RecordError::Empty { .. })
    ));
}

#[test]
fn a_file_grows_by_records_and_is_continued() {
    let (folder, path) = place();
    let (mut file, set, tail) = RecordFile::open(&path).expect("made");
    assert!(set.is_empty() && tail.is_none());
    file.append(&record("a")).expect("added");
    file.append(&record("b")).expect("added");
    assert_eq!(
        file.size_bytes(),
        std::fs::metadata(&path).expect("there").len()
    );
    drop(file);
    let (mut file, set, _) = RecordFile::open(&path).expect("opened again");
    assert_eq!(ids(&set), ["a", "b"]);
    file.append(&record("c")).expect("added");
    assert_eq!(ids(&RecordSet::read(&path).expect("read")), ["a", "b", "c"]);
    assert_eq!(names_in(folder.path()), ["bench.jsonl"]);
    drop(file);
    let mut file = RecordFile::begin(&path).expect("begun anew");
    assert_eq!(ids(&RecordSet::read(&path).expect("still there")).len(), 3);
    file.append(&record("d")).expect("added");
    assert_eq!(ids(&RecordSet::read(&path).expect("read")), ["d"]);
}

#[test]
fn a_cut_tail_is_replaced_and_a_missing_line_end_is_made_up_for() {
    let (_folder, path) = place();
    let whole = line(&record("a"));
    for (text, tail) in [
        (format!("{whole}{}", &whole[..40]), true),
        (whole.trim_end().to_string(), false),
    ] {
        std::fs::write(&path, text).expect("written");
        let (mut file, set, found) = RecordFile::open(&path).expect("opened");
        assert_eq!((ids(&set), found.is_some()), (vec!["a"], tail));
        file.append(&record("b")).expect("added");
        assert_eq!(ids(&RecordSet::read(&path).expect("whole")), ["a", "b"]);
    }
}

#[test]
fn a_file_of_other_things_is_refused_and_left_as_it_is() {
    let (folder, path) = place();
    std::fs::write(&path, "my thesis\n").expect("written");
    for error in [
        RecordFile::open(&path).map(|_| ()).expect_err("no records"),
        RecordFile::begin(&path)
            .map(|_| ())
            .expect_err("no records"),
    ] {
        assert!(error.is_bad_input(), "{error}");
    }
    assert_eq!(std::fs::read(&path).expect("read"), b"my thesis\n");
    for no_file in [folder.path(), Path::new("/dev/null")] {
        let error = RecordFile::open(no_file).map(|_| ()).expect_err("no file");
        assert!(
            error.is_bad_input() && error.to_string().contains("no ordinary file"),
            "{error}"
        );
    }
    let missing = folder.path().join("missing/bench.jsonl");
    assert!(
        RecordFile::open(&missing)
            .map(|_| ())
            .expect_err("no folder")
            .is_bad_input()
    );
}

#[test]
fn two_writers_at_once_are_refused() {
    let (_folder, path) = place();
    let (mut first, ..) = RecordFile::open(&path).expect("opened");
    let refused = || {
        RecordFile::open(&path)
            .map(|_| ())
            .expect_err("locked")
            .to_string()
    };
    assert!(refused().contains("another process"), "{}", refused());
    // The lock must also apply to the file that replaces the first one.
    first.append(&record("a")).expect("added");
    assert!(refused().contains("another process"));
    drop(first);
    RecordFile::open(&path).expect("free again");
}

#[test]
fn a_record_that_cannot_be_read_back_leaves_the_file_as_it_was() {
    let (folder, path) = place();
    let (mut file, ..) = RecordFile::open(&path).expect("opened");
    file.append(&record("a")).expect("added");
    let mut broken = bench("b", vec![]);
    broken.elapsed_s = f64::NAN;
    let error = file
        .append(&Record::Bench(Box::new(broken)))
        .expect_err("NaN");
    assert!(error.to_string().contains("finite"), "{error}");
    file.append(&record("c")).expect("goes on");
    assert_eq!(ids(&RecordSet::read(&path).expect("read")), ["a", "c"]);
    assert_eq!(names_in(folder.path()).len(), 1);
}

#[test]
fn permissions_and_links_survive_appending() {
    let (folder, path) = place();
    std::fs::write(&path, line(&record("a"))).expect("written");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("set");
    let link = folder.path().join("link.jsonl");
    symlink(&path, &link).expect("linked");
    let (mut file, ..) = RecordFile::open(&link).expect("opened");
    file.append(&record("b")).expect("added");
    let meta = std::fs::metadata(&path).expect("there");
    assert_eq!(meta.permissions().mode() & 0o777, 0o640);
    assert!(
        std::fs::symlink_metadata(&link)
            .expect("there")
            .is_symlink()
    );
    assert_eq!(ids(&RecordSet::read(&path).expect("read")), ["a", "b"]);
}

fn table(records: &[BenchRecord]) -> String {
    String::from_utf8(bench_csv(records).expect("written")).expect("text")
}

#[test]
fn the_csv_table_is_as_it_was_agreed() {
    let expected = concat!(
        "run_id,session_id,started_at,workload,task,role,host,cpu_model,valid,provenance,kind,access,threads,bytes_per_operation,",
        "rate_gbps,bandwidth_gbps_median,bandwidth_gbps_min,bandwidth_gbps_max,bandwidth_n,operations_per_s_median,latency_ns_median,",
        "latency_ns_mean,latency_ns_min,latency_ns_max,latency_samples,timer_overhead_ns,threads (varied),operation,memory,size_bytes,",
        "page_size,placement,resolved,moved_pages,shares_before,shares_after,counter.instructions,counter.cas_count_read [GB/s],",
        "data_check,remarks\n",
        "a,s1,2026-01-02T03:04:05Z,sequential read,main,main,here,\"Sample Processor, \"\"9000\"\"\",true,measured,throughput,",
        "\"read, ascending, 64 B, avx512\",2,64,,20.5,20,21,3,312500000,,,,,,,2,read,anonymous memory,1073741824,thp,3:2,\"0:3,1:2\",0,",
        "0:0.6 1:0.4,0:0.6 1:0.4,8500000000,,as filled,\"spread of 31%, \"\"two modes\"\"\nof speed\"\n",
    );
    let varied = vec![setting("threads", "2"), setting("operation", "read")];
    assert_eq!(table(&[bench("a", varied)]), expected);
}

#[test]
fn the_csv_table_has_a_column_for_whatever_any_record_has_and_no_zero_for_what_one_lacks() {
    let mut first = bench("a", vec![setting("threads", "2")]);
    first.tasks[0].regions[0].after = None;
    let mut second = bench("b", vec![setting("order", "random")]);
    let mut chase = task("chase");
    (chase.bandwidth_gbps, chase.latency) = (None, Some(latency()));
    chase.regions.push(region("m1"));
    second.tasks = vec![chase, task("load")];
    let text = table(&[first, second]);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let unique: std::collections::BTreeSet<&str> = header.iter().collect();
    assert_eq!(unique.len(), header.len(), "two columns of one name");
    let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.expect("a row")).collect();
    assert_eq!(rows.len(), 3);
    let field = |row: usize, name: &str| {
        let column = header.iter().position(|h| h == name);
        rows[row][column.unwrap_or_else(|| panic!("no column {name}"))].to_string()
    };
    assert_eq!(field(0, "moved_pages"), "");
    assert_eq!(
        (field(0, "order"), field(1, "order")),
        ("".into(), "random".into())
    );
    assert_eq!(
        (field(0, "latency_ns_p99.9"), field(1, "latency_ns_p99.9")),
        ("".into(), "400".into())
    );
    assert_eq!(
        (field(1, "m1_size_bytes"), field(2, "m1_size_bytes")),
        ("1073741824".into(), "".into())
    );
    assert_eq!(
        (
            field(1, "bandwidth_gbps_median"),
            field(2, "bandwidth_gbps_median")
        ),
        ("".into(), "20.5".into())
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_in_a_record_comes_back_from_file_and_table(
        texts in prop::array::uniform4("\\PC{0,20}[,\"\n\r]?\\PC{0,5}"),
        values in prop::collection::vec(1e-9f64..1e12, 1..6),
    ) {
        let mut made = bench(&texts[0], vec![setting("key", &texts[1])]);
        made.tasks[0].access = texts[2].clone();
        made.remarks[0].text = texts[3].clone();
        made.tasks[0].bandwidth_gbps = Spread::of(values);
        let set = RecordSet::parse(&line(&Record::Bench(Box::new(made.clone()))), "x").expect("own line");
        prop_assert_eq!(&set.benches[0], &made);
        let text = bench_csv(&[made]).expect("written");
        let mut reader = csv::Reader::from_reader(text.as_slice());
        let header = reader.headers().expect("a header").clone();
        let row = reader.records().next().expect("a row").expect("well formed");
        let field = |name: &str| &row[header.iter().position(|h| h == name).expect("column")];
        prop_assert_eq!(field("run_id"), &texts[0]);
        prop_assert_eq!(field("key"), &texts[1]);
        prop_assert_eq!(field("access"), &texts[2]);
        prop_assert_eq!(field("remarks"), &texts[3]);
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_lines(cut in 0usize..10_000) {
        let text: String = ["a", "b", "c"].map(|id| line(&record(id))).concat();
        let cut = cut % (text.len() + 1);
        let (_folder, path) = place();
        std::fs::write(&path, &text[..cut]).expect("written");
        let (set, tail) = RecordSet::read_whole(&path).expect("a prefix");
        // A line that lacks only its line end is complete.
        let ends = |at: &usize| *at <= cut + 1;
        let whole = text.match_indices('\n').map(|(at, _)| at + 1).filter(ends).count();
        prop_assert_eq!(set.benches.len(), whole);
        let begun = text[..cut].rfind('\n').map_or(0, |at| at + 1) < cut;
        prop_assert_eq!(tail.is_some(), begun && !text[cut..].starts_with('\n'));
    }
}
