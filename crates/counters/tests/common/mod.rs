//! Machines described as trees, and copies of them that tests damage.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tierloom_counters::{Count, CountStep, Counters, FakeOpener, Reading};
use tierloom_topology::SysRoot;

pub const INTEL: &str = "intel-2s-cxl";
pub const AMD: &str = "amd-1s";
pub const EMPTY: &str = "empty-guest";
pub const DEVICES: &str = "sys/bus/event_source/devices";

fn fixture(machine: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(machine)
}

pub fn root(machine: &str) -> SysRoot {
    SysRoot::at(fixture(machine))
}

/// A copy of a machine that a test may change.
pub struct Copy {
    dir: TempDir,
}

impl Copy {
    pub fn of(machine: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(&fixture(machine), dir.path());
        Self { dir }
    }

    pub fn root(&self) -> SysRoot {
        SysRoot::at(self.dir.path())
    }

    pub fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn remove(&self, path: &str) -> &Self {
        let path = self.dir.path().join(path);
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
        self
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A counter that was on the hardware all the time.
pub fn counted(count: u64) -> CountStep {
    CountStep::Adds(Count {
        count,
        enabled_ns: 1_000_000,
        running_ns: 1_000_000,
    })
}

/// Readings of one measurement with scripted counters.
pub fn measure(root: &SysRoot, opener: &FakeOpener) -> Vec<Reading> {
    Counters::with_opener(root, Arc::new(opener.clone()))
        .start()
        .stop()
}

pub fn find<'a>(readings: &'a [Reading], name: &str) -> &'a Reading {
    readings
        .iter()
        .find(|reading| reading.name == name)
        .unwrap_or_else(|| {
            let names: Vec<&str> = readings.iter().map(|r| r.name.as_str()).collect();
            panic!("no {name} in {names:?}")
        })
}

pub fn note(reading: &Reading) -> &str {
    reading.note.as_deref().unwrap_or_default()
}
