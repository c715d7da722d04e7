//! Runs all tests.
//!
//! `cargo test` runs one binary after the other. Most of them wait for guests, servers and files
//! for a part of their time, or have fewer tests than there are processors, so two at a time are
//! done sooner. Guests get a processor each, and a test that boots one while all processors are
//! taken by other guests would only wait: one binary with guests runs beside one without.

use crate::everything::EVERYTHING;
use crate::needs::free_gib;
use crate::notes;
use crate::python::install_clients;
use crate::sqlfuzz::install_duckdb;
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tierloom_testing::NOTES;
use xshell::{Shell, cmd};

/// Binaries that run at the same time, beside those of [`WAITS`].
const AT_ONCE: usize = 2;

/// What waits for heartbeats and lost nodes for half of its ten minutes: it runs beside all others.
const WAITS: &str = "cluster";

/// Those that take longest are begun first, so that none is left alone at the end.
const LONG: [&str; 6] = [
    "lab_operators",
    "lab_adaptive",
    "lab",
    "suite",
    "sql_cli",
    "calibrate_cli",
];

/// Those that boot guests, beside those whose names begin with `lab`.
const GUESTS: [&str; 7] = [
    "blocks_guest",
    "dcd_guest",
    "devdax",
    "guests",
    "numa",
    "router_nodes",
    "together",
];

/// The steps after this one need less disk than this (GiB).
const ROOM_GIB: u64 = 5;

/// A binary with tests.
#[derive(Debug, Clone, PartialEq)]
struct TestBinary {
    /// The name of its target, and the folder of its package, in which it runs.
    name: String,
    folder: PathBuf,
    program: PathBuf,
}

impl TestBinary {
    fn boots_guests(&self) -> bool {
        self.name == "lab" || self.name.starts_with("lab_") || GUESTS.contains(&&*self.name)
    }
}

/// What is left to run.
#[derive(Debug)]
struct Queue {
    guests: VecDeque<TestBinary>,
    others: VecDeque<TestBinary>,
    /// Binaries with guests that run now.
    booted: usize,
}

impl Queue {
    fn new(binaries: Vec<TestBinary>) -> Queue {
        let (guests, others): (Vec<_>, Vec<_>) =
            binaries.into_iter().partition(TestBinary::boots_guests);
        Queue {
            guests: guests.into(),
            others: others.into(),
            booted: 0,
        }
    }

    /// One with guests if none runs, else one without; what is left at the end.
    fn next(&mut self) -> Option<TestBinary> {
        let guests_first = self.booted == 0 || self.others.is_empty();
        let guest = if guests_first {
            self.guests.pop_front()
        } else {
            None
        };
        self.booted += usize::from(guest.is_some());
        guest.or_else(|| self.others.pop_front())
    }

    fn ended(&mut self, binary: &TestBinary) {
        self.booted -= usize::from(binary.boots_guests());
    }
}

/// Unit, property, snapshot and integration tests; all run even if some fail.
pub fn tests(shell: &Shell) -> Result<()> {
    install_duckdb(shell)?;
    install_clients(shell)?;
    let messages = cmd!(
        shell,
        "cargo test {EVERYTHING...} --no-run --message-format json-render-diagnostics"
    )
    .read()?;
    let mut binaries = messages
        .lines()
        .filter_map(|line| binary_of(line).transpose())
        .collect::<Result<Vec<_>>>()?;
    if binaries.is_empty() {
        bail!("cargo has built no tests");
    }
    binaries.sort_by_key(|binary| !LONG.contains(&binary.name.as_str()));
    let count = binaries.len();
    let programs: Vec<_> = binaries.iter().map(|b| b.program.clone()).collect();
    let failed = run_all(binaries, &notes::file(shell));
    if !failed.is_empty() {
        bail!(
            "{} of {count} binaries failed: {}",
            failed.len(),
            failed.join(", ")
        );
    }
    make_room(&programs, free_gib(shell)?)
}

/// Removes test binaries that have passed if the steps that follow would fill the disk. The next
/// build links them again.
fn make_room(programs: &[PathBuf], free_gib: u64) -> Result<()> {
    if free_gib >= ROOM_GIB {
        return Ok(());
    }
    eprintln!(
        "{free_gib} GiB of disk are free and {ROOM_GIB} may be needed: removing {} test binaries",
        programs.len()
    );
    for program in programs {
        std::fs::remove_file(program).with_context(|| program.display().to_string())?;
    }
    Ok(())
}

/// The binary that a message of cargo is about; `None` for other messages.
fn binary_of(line: &str) -> Result<Option<TestBinary>> {
    let message: serde_json::Value =
        serde_json::from_str(line).with_context(|| format!("cargo said {line}"))?;
    let is_test = message["profile"]["test"] == true;
    let Some(program) = message["executable"].as_str().filter(|_| is_test) else {
        return Ok(None);
    };
    let text = |value: &serde_json::Value| {
        let text = value.as_str().map(str::to_owned);
        text.with_context(|| format!("cargo said {line}"))
    };
    let manifest = PathBuf::from(text(&message["manifest_path"])?);
    let folder = manifest.parent().context("a manifest without a folder")?;
    Ok(Some(TestBinary {
        name: text(&message["target"]["name"])?,
        folder: folder.to_owned(),
        program: program.into(),
    }))
}

/// Runs the binaries; returns what failed.
fn run_all(binaries: Vec<TestBinary>, notes: &Path) -> Vec<String> {
    let (waits, binaries): (Vec<_>, Vec<_>) = binaries.into_iter().partition(|b| b.name == WAITS);
    let [waits, binaries] = [waits, binaries].map(|some| Mutex::new(Queue::new(some)));
    let failed = Mutex::new(Vec::new());
    let lanes = std::iter::once(&waits).chain(std::iter::repeat_n(&binaries, AT_ONCE));
    std::thread::scope(|scope| {
        for lane in lanes {
            let failed = &failed;
            scope.spawn(move || {
                loop {
                    // In a statement of its own: `while let` would hold the lock meanwhile.
                    let next = locked(lane).next();
                    let Some(binary) = next else { break };
                    let passed = run(&binary, notes);
                    locked(lane).ended(&binary);
                    if !passed {
                        let name = format!("{} ({})", binary.name, binary.folder.display());
                        locked(failed).push(name);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one binary; whether it passed. Its output is shown if it did not.
fn run(
    TestBinary {
        name,
        folder,
        program,
    }: &TestBinary,
    notes: &Path,
) -> bool {
    let start = Instant::now();
    let crate_name = folder.file_name().unwrap_or_default().to_string_lossy();
    // Tells which one hangs if one does.
    eprintln!("{crate_name} {name} begins");
    let output = Command::new(program)
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder)
        .env(NOTES, notes)
        .stdin(Stdio::null())
        .output();
    let seconds = start.elapsed().as_secs();
    match output {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            let result = said
                .lines()
                .rev()
                .find(|line| line.starts_with("test result"));
            eprintln!(
                "{crate_name} {name}: {} ({seconds} s)",
                result.unwrap_or("ok")
            );
            true
        }
        Ok(output) => {
            // In one piece, or the outputs of two binaries would mix.
            eprintln!(
                "{crate_name} {name}: FAILED, {} ({seconds} s)\n{}{}",
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            false
        }
        Err(error) => {
            eprintln!(
                "{crate_name} {name}: {} does not start: {error}",
                program.display()
            );
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_with_tests_are_told_from_other_messages() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml",
            "target":{"name":"b"},"profile":{"test":true},"executable":"/r/target/b-1"}"#;
        let binary = binary_of(line).unwrap().unwrap();
        assert_eq!(binary.name, "b");
        assert_eq!(binary.folder, Path::new("/r/crates/a"));
        let library = line.replace("\"/r/target/b-1\"", "null");
        assert_eq!(binary_of(&library).unwrap(), None);
        let program = line.replace("true", "false");
        assert_eq!(binary_of(&program).unwrap(), None);
        assert_eq!(
            binary_of(r#"{"reason":"build-finished","success":true}"#).unwrap(),
            None
        );
        assert!(binary_of("no JSON").is_err());
    }

    #[test]
    fn binaries_are_removed_only_if_the_disk_is_short() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let programs = [file.path().to_owned()];
        make_room(&programs, ROOM_GIB).unwrap();
        assert!(file.path().exists());
        make_room(&programs, ROOM_GIB - 1).unwrap();
        assert!(!file.path().exists());
        assert!(make_room(&programs, 0).is_err());
    }

    #[test]
    fn one_binary_with_guests_runs_beside_others_and_all_run() {
        let binary = |name: &&str| TestBinary {
            name: (*name).into(),
            folder: "/".into(),
            program: "/".into(),
        };
        let names = ["lab", "label", "numa", "session"];
        let mut queue = Queue::new(names.iter().map(binary).collect());
        let mut next = || queue.next().unwrap();
        let (guest, other) = (next(), next());
        assert_eq!((&*guest.name, &*other.name), ("lab", "label"));
        queue.ended(&other);
        assert_eq!(queue.next().unwrap().name, "session");
        queue.ended(&guest);
        assert_eq!(queue.next().unwrap().name, "numa");
        assert_eq!(queue.next(), None);
        let mut queue = Queue::new(["lab", "lab_tune"].iter().map(binary).collect());
        assert!(
            queue.next().is_some() && queue.next().is_some(),
            "no others"
        );
    }

    #[test]
    fn a_binary_that_fails_or_does_not_start_is_reported_and_the_others_run() {
        let folder = tempfile::tempdir().unwrap();
        let binary = |name: &str| TestBinary {
            name: name.into(),
            folder: folder.path().into(),
            program: Path::new("/bin").join(name),
        };
        let names = ["true", "false", "nothing of this name", "true"];
        let all = names.iter().map(|name| binary(name)).collect();
        let mut failed = run_all(all, &folder.path().join("notes"));
        failed.sort_unstable();
        assert_eq!(failed.len(), 2, "{failed:?}");
        assert!(failed[0].starts_with("false") && failed[1].starts_with("nothing"));
    }
}
