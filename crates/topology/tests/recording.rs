//! Recording: a copy reads like the original, and no partial one is left behind.

mod common;

use std::fs;
use std::path::Path;

use common::{Copy, MACHINES, machine, root};
use tierloom_topology::record::{PATHS, record};
use tierloom_topology::{SysRoot, Topology, TopologyError};

fn entries(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().flatten();
    names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_recording_reads_like_the_original() {
    for name in MACHINES {
        let copy = Topology {
            root: SysRoot::host(),
            ..Copy::of(name).read()
        };
        assert_eq!(copy, machine(name), "{name}");
    }
}

#[test]
fn the_running_machine_records_completely() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("machine");
    let summary = record(&SysRoot::host(), &into, 64 << 20).unwrap();
    assert!(summary.files > 10 && summary.size_bytes > 0, "{summary:?}");
    let (here, there) = (
        Topology::read(&SysRoot::host()).unwrap(),
        Topology::read(&SysRoot::at(&into)).unwrap(),
    );
    assert_eq!(
        (&here.cpus, &here.cxl, &here.tiers, &here.notes),
        (&there.cpus, &there.cxl, &there.tiers, &there.notes)
    );
    assert_eq!(
        (&here.limits, &here.weighted_interleave),
        (&there.limits, &there.weighted_interleave)
    );
    assert_eq!(here.huge_pages.thp_sizes, there.huge_pages.thp_sizes);
}

#[test]
fn links_stay_links() {
    let copy = Copy::of("guest-cxl");
    let device = copy.path("sys/bus/cxl/devices/mem0");
    assert!(device.is_symlink());
    assert!(device.join("ram/size").is_file());
    let driver = copy.path("sys/bus/dax/devices/dax0.0/driver");
    assert!(
        fs::read_link(driver)
            .unwrap()
            .ends_with("bus/dax/drivers/kmem")
    );
}

#[test]
fn a_limit_that_is_passed_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("machine");
    let error = record(&root("guest-cxl"), &into, 100).unwrap_err();
    assert!(
        matches!(error, TopologyError::TooLarge { max_bytes: 100, .. }),
        "{error}"
    );
    assert_eq!(entries(dir.path()), Vec::<String>::new());
}

#[test]
fn a_directory_in_use_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine"), "text").unwrap();
    let error = record(&root("vm-1node"), dir.path(), 1 << 20).unwrap_err();
    assert!(matches!(error, TopologyError::NotEmpty { .. }), "{error}");
    assert_eq!(entries(dir.path()), ["mine"]);
}

#[test]
fn nothing_to_record_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    for from in ["empty", "missing"] {
        let from = SysRoot::at(dir.path().join(from));
        let error = record(&from, &dir.path().join("into"), 1 << 20).unwrap_err();
        assert!(
            matches!(error, TopologyError::NotASystemTree { .. }),
            "{error}"
        );
    }
    assert_eq!(entries(dir.path()), ["empty"]);
}

#[test]
fn a_file_where_a_directory_should_be_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = record(&root("vm-1node"), &dir.path().join("file/into"), 1 << 20).unwrap_err();
    assert!(
        matches!(
            error,
            TopologyError::Write {
                action: "create",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("file/"), "{error}");
}

#[test]
fn the_list_of_paths_is_well_formed() {
    for line in PATHS.lines().filter(|line| !line.starts_with('#')) {
        assert!(
            line.starts_with("sys/") || line.starts_with("proc/"),
            "{line}"
        );
        assert_eq!(line, line.trim());
        assert!(
            !line.contains("..") && !line.contains("//") && !line.contains("**"),
            "{line}"
        );
    }
}
