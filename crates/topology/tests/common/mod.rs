//! Recorded machines, and copies of them that tests damage.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tierloom_topology::{SysRoot, Topology, record::record};

/// All machines under `tests/fixtures`.
pub const MACHINES: [&str; 4] = [
    "vm-1node",
    "server-2s-4cxl",
    "guest-2node-hmat",
    "guest-cxl",
];

/// The root of a recorded machine.
pub fn root(machine: &str) -> SysRoot {
    SysRoot::at(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(machine),
    )
}

/// A recorded machine, as if it had been read at `/`, so that texts do not depend on the path of
/// the repository.
pub fn machine(name: &str) -> Topology {
    Topology {
        root: SysRoot::host(),
        ..Topology::read(&root(name)).unwrap()
    }
}

/// A copy of a recorded machine that a test may change.
pub struct Copy {
    _dir: TempDir,
    path: PathBuf,
}

impl Copy {
    pub fn of(machine: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        record(&root(machine), &path, 1 << 20).unwrap();
        Self { _dir: dir, path }
    }

    pub fn root(&self) -> SysRoot {
        SysRoot::at(&self.path)
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    pub fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn remove(&self, path: &str) -> &Self {
        let path = self.path(path);
        if path.is_symlink() || path.is_file() {
            fs::remove_file(path).unwrap();
        } else {
            fs::remove_dir_all(path).unwrap();
        }
        self
    }

    pub fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    pub fn read(&self) -> Topology {
        Topology::read(&self.root()).unwrap()
    }

    pub fn error(&self) -> String {
        Topology::read(&self.root()).unwrap_err().to_string()
    }
}
