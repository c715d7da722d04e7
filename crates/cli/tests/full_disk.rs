//! A full disk: exit code 1, one error that names the file, and no partial file under its name.
#![cfg(feature = "sql")]

mod common;

use common::{Ended, command, end_of, is_root, tierloom};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tierloom_testing::checked_nothing;

/// A small run; its report is far larger than its records.
const RUN: [&str; 10] = [
    "run",
    "ssb",
    "--sf",
    "0.01",
    "--repeat",
    "1",
    "--queries",
    "q1.1",
    "--placement",
    "dram",
];

fn run(folder: &Path, more: &[&str]) -> Ended {
    tierloom(folder, &[&RUN, more].concat())
}

#[test]
fn a_full_device_is_a_failure_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--report", "--records"] {
        let ended = run(folder.path(), &[option, "/dev/full"]).with_code(1);
        let error = ended.one_error();
        assert!(
            error.contains("/dev/full") && error.contains("No space left"),
            "{error}"
        );
        assert!(
            ended.stdout.contains("measured"),
            "what was measured is shown all the same"
        );
    }
    run(folder.path(), &["--records", "good.jsonl"]).with_code(0);
    let ended = tierloom(folder.path(), &["report", "good.jsonl", "-o", "/dev/full"]).with_code(1);
    assert!(ended.one_error().contains("/dev/full"), "{}", ended.stderr);
}

#[test]
fn records_are_kept_when_only_the_report_finds_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--report", "/dev/full", "--records", "good.jsonl"];
    let ended = run(folder.path(), &args).with_code(1);
    ended.one_error();
    tierloom_record::RecordSet::read(&folder.path().join("good.jsonl")).expect("a whole file");
}

#[test]
fn results_that_cannot_be_printed_are_a_failure_that_names_stdout() {
    let folder = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--json"], &["--jsonl"], &["--dry-run"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = command(folder.path(), &[&RUN, more].concat());
        let ended = end_of(command.stdout(full).spawn().unwrap()).with_code(1);
        let error = ended.one_error();
        assert!(error.contains("stdout"), "{more:?}: {error}");
    }
}

/// As in `tierloom run ssb --json | head -1`: a closed pipe is not reported as a failure.
#[test]
fn a_reader_that_went_away_ends_a_command_quietly() {
    let folder = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--json"], &["--jsonl"], &["--dry-run"]] {
        let mut command = command(folder.path(), &[&RUN, more].concat());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let ended = end_of(child);
        ended.no_panic();
        assert!(
            !ended.stderr.contains("error:"),
            "{more:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn records_are_written_even_if_nobody_reads_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(
        folder.path(),
        &[&RUN[..], &["--jsonl", "--records", "kept.jsonl"]].concat(),
    );
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let ended = end_of(child);
    ended.no_panic();
    let set = tierloom_record::RecordSet::read(&folder.path().join("kept.jsonl"));
    assert!(
        set.is_ok_and(|s| s.runs[0].summary.is_some()),
        "{}",
        ended.stderr
    );
}

/// A file system of a few KiB, unmounted on drop.
struct TinyDisk {
    at: PathBuf,
    _folder: TempDir,
}

impl TinyDisk {
    /// Requires root; otherwise prints the reason and returns `None`.
    fn new(size: &str) -> Option<TinyDisk> {
        if !is_root() {
            checked_nothing("only root can mount a small file system to fill");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("disk");
        fs::create_dir(&at).unwrap();
        let options = format!("size={size}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&at)
            .output();
        match mount {
            Ok(done) if done.status.success() => Some(TinyDisk {
                at,
                _folder: folder,
            }),
            Ok(done) => {
                checked_nothing(format!(
                    "a small file system cannot be mounted: {}",
                    String::from_utf8_lossy(&done.stderr)
                ));
                None
            }
            Err(error) => {
                checked_nothing(format!("mount cannot be run: {error}"));
                None
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.at)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.at).status();
        if !done.is_ok_and(|s| s.success()) {
            println!("could not unmount {}", self.at.display());
        }
    }
}

#[test]
fn a_disk_that_fills_up_keeps_no_half_written_file() {
    let Some(disk) = TinyDisk::new("8k") else {
        return;
    };
    for (option, name) in [("--report", "r.html"), ("--records", "r.jsonl")] {
        let ended = run(&disk.at, &[option, name]).with_code(1);
        let error = ended.one_error();
        assert!(
            error.contains(name) && error.contains("No space left"),
            "{error}"
        );
        assert_eq!(disk.names(), Vec::<String>::new(), "{option}");
    }
    let both = run(&disk.at, &["--report", "r.html", "--records", "r.jsonl"]).with_code(1);
    both.one_error();
    assert_eq!(disk.names(), Vec::<String>::new());
}

#[test]
fn a_full_disk_leaves_the_old_report_as_it_was() {
    let Some(disk) = TinyDisk::new("8k") else {
        return;
    };
    let elsewhere = tempfile::tempdir().unwrap();
    run(elsewhere.path(), &["--records", "good.jsonl"]).with_code(0);
    let records = elsewhere.path().join("good.jsonl").display().to_string();
    fs::write(disk.at.join("r.html"), "the old one").unwrap();
    let made = tierloom(&disk.at, &["report", &records, "-o", "r.html"]).with_code(1);
    assert!(made.one_error().contains("r.html"), "{}", made.stderr);
    assert_eq!(disk.names(), ["r.html"]);
    assert_eq!(
        fs::read_to_string(disk.at.join("r.html")).unwrap(),
        "the old one"
    );
}

#[test]
fn generated_files_that_find_no_room_are_taken_away() {
    for format in ["csv", "arrow", "parquet"] {
        let Some(disk) = TinyDisk::new("64k") else {
            return;
        };
        let args = ["generate", "ssb", "--sf", "0.01", "-o", "data", "--format"];
        let ended = tierloom(&disk.at, &[&args[..], &[format]].concat()).with_code(1);
        let error = ended.one_error();
        assert!(error.contains("No space left"), "{format}: {error}");
        let left = fs::read_dir(disk.at.join("data"))
            .unwrap()
            .map(|e| e.unwrap().file_name());
        let half: Vec<_> = left
            .filter(|n| n.to_string_lossy().ends_with(".tmp"))
            .collect();
        assert!(half.is_empty(), "{format}: {half:?}");
        assert!(!disk.at.join(format!("data/lineorder.{format}")).exists());
    }
}
