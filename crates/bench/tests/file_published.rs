//! Reads workload files in the folder that `TIERLOOM_PEER_WORKLOADS` names, such as an unpacked
//! CXL-Bench.

use std::path::{Path, PathBuf};

use tierloom_bench::file::{LoadOptions, parse};

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            files.push(path);
        }
    }
}

/// Ignored by default, because this repository does not contain those files.
#[test]
#[ignore = "needs TIERLOOM_PEER_WORKLOADS=FOLDERS (separated by colons) with published workload files"]
fn published_workload_files_make_runs() {
    let folders =
        std::env::var("TIERLOOM_PEER_WORKLOADS").expect("TIERLOOM_PEER_WORKLOADS is not set");
    let mut files = Vec::new();
    for folder in folders.split(':') {
        collect(Path::new(folder), &mut files);
    }
    files.sort();
    let (mut runs, mut wrong) = (0, Vec::new());
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        match parse(&text, &path.display().to_string(), &LoadOptions::default()) {
            Ok(read) => runs += read.runs.len(),
            Err(errors) => wrong.push(errors.to_string()),
        }
    }
    println!(
        "{} of {} files parse, {runs} runs",
        files.len() - wrong.len(),
        files.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
