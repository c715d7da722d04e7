//! The suites of the publications: they must name figures that exist and runs that there are, run
//! small, leave out what this machine lacks, and say of each relation what came out.

mod common;

use common::{contents, repository, tierloom};
use std::fs;
use std::path::Path;
use tierloom_record::findings::{PublishedVerdict, of_publication};
use tierloom_record::{PublicationRecord, RecordSet};

/// Bad input: exit code 2, an error with its line and `says`, and no file made or changed.
fn refused(folder: &Path, args: &[&str], says: &str) {
    let before = contents(folder);
    let ended = tierloom(folder, args);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(2), ""),
        "{args:?}"
    );
    assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(says),
        "no {says:?} in {}",
        ended.stderr
    );
    assert!(contents(folder) == before, "files were changed");
}

fn suite(name: &str) -> String {
    let path = repository().join("examples/papers").join(name);
    path.display().to_string()
}

fn read(folder: &Path, name: &str) -> RecordSet {
    RecordSet::read(&folder.join(name)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_suite_finds_its_figures_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["nus24", "epfl25", "hpi25", "bench25"] {
        let args = ["bench", &suite(name), "--scale", "1/64", "--dry-run"];
        let ended = tierloom(folder.path(), &args).with_code(0);
        assert!(
            ended.stdout.contains(" runs, about "),
            "{name}: {}",
            ended.stdout
        );
    }
    // The only one without published figures needs its tier like any other file.
    let args = ["bench", &suite("sap26"), "--scale", "1/64", "--dry-run"];
    let ended = tierloom(folder.path(), &args);
    assert!(
        ended.code == Some(0) || ended.stderr.contains("no cxl tier"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_whole_sizes_are_the_published_ones() {
    let folder = tempfile::tempdir().unwrap();
    for (file, sizes) in [
        ("nus24/hash-join.yaml", &["2 GiB", "8 GiB", "4 GiB"][..]),
        ("epfl25/index-join.yaml", &["2 GiB", "16 GiB"]),
        ("nus24/selective-read.yaml", &["16 GiB"]),
        ("hpi25/latency.yaml", &["8 GiB"]),
    ] {
        let args = ["bench", &suite(file), "--dry-run"];
        let shown = tierloom(folder.path(), &args).with_code(0).stdout;
        for size in sizes {
            assert!(shown.contains(size), "{file}: no {size} in\n{shown}");
        }
    }
}

#[test]
fn a_small_run_of_a_suite_is_recorded_judged_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let file = suite("nus24/partition.yaml");
    let args = [
        "bench",
        &file,
        "--scale",
        "1/16384",
        "--repeat",
        "2",
        "--records",
        "r.jsonl",
    ];
    let ended = tierloom(path, &args).with_code(0);
    assert!(
        ended.stdout.contains("NUS24, partition.yaml: 6 published"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("1/16384 of the published sizes"),
        "{}",
        ended.stdout
    );

    let set = read(path, "r.jsonl");
    let [record] = set.publications.as_slice() else {
        panic!("{} publications", set.publications.len());
    };
    assert!(
        set.benches
            .iter()
            .all(|b| b.valid && b.plan["scale"] == 1.0 / 16384.0)
    );
    let answers = of_publication(record, &set.benches);
    let fanouts = answers
        .iter()
        .find(|a| a.series.name == "nus24-partition-high-fanout");
    let fanouts = fanouts.expect("asked of DRAM alone");
    assert!(
        fanouts.measured.is_some() && fanouts.point.left_out.is_none(),
        "{fanouts:?}"
    );
    assert!(
        fanouts.fits_caches() || !fanouts.remarks.is_empty(),
        "{fanouts:?}"
    );
    let modelled = answers.iter().filter_map(|a| a.point.figure.as_ref());
    assert!(modelled.clone().count() >= 6 && modelled.clone().all(|f| f.modelled.is_finite()));

    tierloom(path, &["report", "r.jsonl", "-o", "r.html"]).with_code(0);
    let page = fs::read_to_string(path.join("r.html")).unwrap();
    for part in ["nus24-partition-{x}-3to2", "holds here", "Huang et al."] {
        assert!(page.contains(part), "{part}");
    }
    // What one tier cannot answer has a reason, the model's value, and no verdict.
    let left_out = answers.iter().filter(|a| a.point.left_out.is_some());
    for answer in left_out {
        assert!(
            matches!(answer.verdict, PublishedVerdict::NotAsked(_)),
            "{answer:?}"
        );
        assert!(answer.measured.is_none());
    }
}

#[test]
fn resuming_repeats_neither_runs_nor_publications() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let file = suite("nus24/partition.yaml");
    let more = [
        "--set",
        "fanout=[64, 16K]",
        "--repeat",
        "1",
        "--records",
        "r.jsonl",
    ];
    let args = [&["bench", &file, "--scale", "1/16384"], &more[..]].concat();
    tierloom(path, &args).with_code(0);
    let first = fs::read(path.join("r.jsonl")).unwrap();
    tierloom(path, &[&args[..], &["--resume"]].concat()).with_code(0);
    assert_eq!(fs::read(path.join("r.jsonl")).unwrap(), first);
    // At another scale everything is another run, and what is asked changes with it.
    let other = ["bench", &file, "--scale", "1/8192", "--resume"];
    tierloom(path, &[&other[..], &more[..]].concat()).with_code(0);
    let set = read(path, "r.jsonl");
    let scales: Vec<f64> = set
        .publications
        .iter()
        .map(|p: &PublicationRecord| p.scale)
        .collect();
    assert_eq!(scales, [1.0 / 16384.0, 1.0 / 8192.0]);
    assert_eq!(set.latest_publications().len(), 1);
}

#[test]
fn mistakes_in_published_figures_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let with = |published: &str| {
        let text = format!(
            "w:\n  matrix: {{memory: [dram, \"0\"]}}\n  args: {{size: 1M}}\n  published:\n    {published}\n"
        );
        fs::write(path.join("w.yaml"), text).unwrap();
    };
    for (published, says) in [
        (
            "nus24-read-drm: {at: {memory: dram}}",
            "w.yaml:5: published `nus24-read-drm`: no such",
        ),
        ("nus24-gain-3to2: {at: {memory: dram}}", "add `versus:"),
        (
            "nus24-best-share: {at: {memory: dram}}",
            "add `search: KEY`",
        ),
        (
            "epfl25-scalar-48-not-saturated: {at: {memory: dram}}",
            "not measured",
        ),
        (
            "nus24-read-dram: {at: {memory: dram}, phase: probe}",
            "no run has a phase `probe`",
        ),
        (
            "nus24-read-dram: {at: {memory: cxl}}",
            "no run has memory=cxl",
        ),
    ] {
        with(published);
        refused(path, &["bench", "w.yaml", "--records", "r.jsonl"], says);
    }
}

#[test]
fn a_scale_that_is_none_or_makes_a_structure_too_small_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let file = suite("nus24/partition.yaml");
    for (scale, says) in [
        ("2", "--scale `2`; expected a factor above 0 and at most 1"),
        ("0", "--scale `0`"),
        ("1/2097152", "less than 1024"),
    ] {
        refused(path, &["bench", &file, "--scale", scale], says);
    }
}
