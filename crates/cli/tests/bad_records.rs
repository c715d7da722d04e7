//! Files that are not records, and reports that cannot be written: exit code 2, one error, nothing
//! written.
#![cfg(feature = "sql")]

mod common;

use common::{refused, tierloom};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A folder with the records of a small run in `good.jsonl`, and the file's text.
fn with_records() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "run",
        "ssb",
        "--sf",
        "0.01",
        "--repeat",
        "1",
        "--queries",
        "q1.1,q2.1",
        "--machine",
        "nus24",
        "--records",
        "good.jsonl",
    ];
    tierloom(folder.path(), &args).with_code(0);
    let text = fs::read_to_string(folder.path().join("good.jsonl")).unwrap();
    (folder, text)
}

#[track_caller]
fn bad_file(folder: &Path, text: impl AsRef<[u8]>, says: &[&str]) {
    fs::write(folder.join("bad.jsonl"), text).unwrap();
    refused(folder, &["report", "bad.jsonl", "-o", "r.html"], says);
    let compare = [
        "report",
        "good.jsonl",
        "bad.jsonl",
        "--compare",
        "-o",
        "r.html",
    ];
    refused(folder, &compare, says);
}

#[test]
fn a_file_cut_anywhere_is_refused_with_its_last_line() {
    let (folder, text) = with_records();
    let whole_lines = text.lines().count();
    for part in [0.05, 0.3, 0.5, 0.9, 0.999] {
        let cut = &text[..(text.len() as f64 * part) as usize];
        assert!(!cut.ends_with('\n'), "the cut must hit a line");
        let line = cut.lines().count();
        assert!(line <= whole_lines);
        bad_file(
            folder.path(),
            cut,
            &[&format!("bad.jsonl:{line}:"), "cut off"],
        );
    }
}

#[test]
fn a_damaged_line_in_the_middle_is_named() {
    let (folder, text) = with_records();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let half = lines[2].len() / 2;
    lines[2].truncate(half);
    bad_file(
        folder.path(),
        lines.join("\n") + "\n",
        &["bad.jsonl:3:", "not a record"],
    );
}

#[test]
fn records_of_another_schema_are_named_as_such() {
    let (folder, text) = with_records();
    let other = text.replacen("tierloom-record/1", "tierloom-record/9", 1);
    assert_ne!(other, text);
    bad_file(
        folder.path(),
        other,
        &["bad.jsonl:1:", "tierloom-record/9", "tierloom-record/1"],
    );
}

/// Another version has other fields: the error must name the version, not a missing field.
#[test]
fn records_of_another_schema_with_other_fields_are_named_as_such() {
    let (folder, _) = with_records();
    let other = "{\"type\":\"run\",\"schema\":\"tierloom-record/9\",\"run_id\":\"a\",\"new\":1}\n";
    bad_file(
        folder.path(),
        other,
        &["bad.jsonl:1:", "tierloom-record/9", "tierloom-record/1"],
    );
}

#[test]
fn files_that_hold_no_records_are_refused() {
    let (folder, text) = with_records();
    let path = folder.path();
    bad_file(path, "", &["bad.jsonl", "no records"]);
    bad_file(path, "\n\n", &["bad.jsonl", "no records"]);
    bad_file(path, "<!DOCTYPE html>\n", &["bad.jsonl:1:", "not a record"]);
    bad_file(path, [0xff, 0xfe, b'\n'], &["bad.jsonl"]);
    let without_run = text.split_once('\n').unwrap().1;
    bad_file(path, without_run, &["bad.jsonl:1:", "a run record before"]);
    refused(
        path,
        &["report", "none.jsonl", "-o", "r.html"],
        &["none.jsonl", "No such file"],
    );
    refused(path, &["report", ".", "-o", "r.html"], &["Is a directory"]);
}

#[test]
fn a_report_needs_to_know_where_it_goes() {
    let (folder, _) = with_records();
    refused(folder.path(), &["report", "good.jsonl"], &["-o FILE.html"]);
}

#[test]
fn a_comparison_takes_exactly_two_files() {
    let (folder, _) = with_records();
    let compare = ["report", "good.jsonl", "--compare", "-o", "r.html"];
    refused(
        folder.path(),
        &compare,
        &["--compare takes two files", "1 given"],
    );
    let three = [
        "report",
        "good.jsonl",
        "good.jsonl",
        "good.jsonl",
        "--compare",
    ];
    refused(
        folder.path(),
        &three,
        &["--compare takes two files", "3 given"],
    );
}

#[test]
fn a_report_path_that_cannot_be_is_bad_input() {
    let (folder, _) = with_records();
    refused(
        folder.path(),
        &["report", "good.jsonl", "-o", "none/r.html"],
        &["none/r.html"],
    );
    refused(
        folder.path(),
        &["report", "good.jsonl", "-o", "."],
        &["it is a folder"],
    );
    let compare = [
        "report",
        "good.jsonl",
        "good.jsonl",
        "--compare",
        "-o",
        "none/r.html",
    ];
    refused(folder.path(), &compare, &["none/r.html"]);
}

/// Measuring cannot be repeated, the report can: the records must survive a failure to write it.
#[test]
fn a_report_never_replaces_the_records_it_is_made_from() {
    let (folder, _) = with_records();
    refused(
        folder.path(),
        &["report", "good.jsonl", "-o", "good.jsonl"],
        &["good.jsonl"],
    );
    refused(
        folder.path(),
        &["report", "good.jsonl", "-o", "./good.jsonl"],
        &["good.jsonl"],
    );
}
