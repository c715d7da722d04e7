//! Anonymous memory and files on the real kernel of this machine. One node is enough.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tierloom_memory::{
    AnonymousNuma, AuditMode, FileBackend, KernelInterleave, MIB, MemoryBackend, MemoryError,
    MigrationOptions, PageSize, Placement, Region, RegionOptions,
};
use tierloom_testing::checked_nothing;
use tierloom_topology::{NodeId, SysRoot, Topology};

fn machine() -> Topology {
    Topology::read(&SysRoot::host()).unwrap()
}

fn first_node(topology: &Topology) -> NodeId {
    topology.memory_nodes()[0]
}

fn region(
    backend: Arc<dyn MemoryBackend>,
    page_size: PageSize,
    size_bytes: usize,
) -> Result<Region, MemoryError> {
    let topology = machine();
    let placement = Placement::bind(first_node(&topology));
    let options = RegionOptions {
        page_size,
        threads: 2,
        ..RegionOptions::new("column", size_bytes, placement)
    };
    Region::create(backend, &topology, options)
}

fn fill_and_check(region: &mut Region) {
    region
        .as_mut_slice()
        .iter_mut()
        .enumerate()
        .for_each(|(index, byte)| *byte = (index % 251) as u8);
    assert!(
        region
            .as_slice()
            .iter()
            .enumerate()
            .all(|(index, byte)| *byte == (index % 251) as u8)
    );
}

#[test]
fn bound_pages_are_on_their_node_and_hold_their_bytes() {
    for page_size in [PageSize::Base, PageSize::Thp] {
        let mut region = region(Arc::new(AnonymousNuma::new()), page_size, 32 * MIB).unwrap();
        assert!(region.as_slice().iter().all(|byte| *byte == 0));
        assert_eq!(region.address() % page_size.bytes(), 0);
        fill_and_check(&mut region);
        let audit = region.audit(AuditMode::Full).unwrap();
        assert_eq!(
            (audit.worst_deviation(), audit.absent_pages),
            (0.0, 0),
            "{audit:?}"
        );
        assert_eq!(audit.pages_checked, 8192);
    }
}

#[test]
fn a_region_stays_one_mapping() {
    let region = region(Arc::new(AnonymousNuma::new()), PageSize::Base, 32 * MIB).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let inside = maps.lines().filter(|line| {
        let start = line
            .split('-')
            .next()
            .and_then(|start| usize::from_str_radix(start, 16).ok());
        start.is_some_and(|start| start > region.address() && region.contains(start))
    });
    assert_eq!(inside.count(), 0, "{maps}");
}

#[test]
fn migrating_to_the_own_node_moves_nothing_and_keeps_the_bytes() {
    let mut region = region(Arc::new(AnonymousNuma::new()), PageSize::Base, 8 * MIB).unwrap();
    fill_and_check(&mut region);
    let topology = machine();
    let to = Placement::bind(first_node(&topology));
    let mut migration = match region.migrate(&to, &topology, MigrationOptions::default()) {
        Ok(migration) => migration,
        Err(MemoryError::Syscall { errno: 1, .. }) => {
            return checked_nothing("page queries are forbidden (container)");
        }
        Err(error) => panic!("{error}"),
    };
    let state = migration.run_to_end(&AtomicBool::new(false)).unwrap();
    assert_eq!((state.moved_pages, state.already_there_pages), (0, 2048));
    assert!(
        region
            .as_slice()
            .iter()
            .enumerate()
            .all(|(index, byte)| *byte == (index % 251) as u8)
    );
}

#[test]
fn a_size_that_no_node_has_is_refused_not_killed() {
    let error = region(Arc::new(AnonymousNuma::new()), PageSize::Base, 1 << 44).unwrap_err();
    assert!(
        matches!(error, MemoryError::NotEnoughMemory { .. }),
        "{error}"
    );
    let error = region(Arc::new(AnonymousNuma::new()), PageSize::Huge1G, 1 << 44).unwrap_err();
    assert!(
        matches!(error, MemoryError::NotEnoughHugePages { .. }),
        "{error}"
    );
}

#[test]
fn files_hold_the_bytes_and_vanish_with_their_region() {
    let directory = tempfile::tempdir().unwrap();
    let count = || std::fs::read_dir(directory.path()).unwrap().count();
    let mut region = region(
        Arc::new(FileBackend::in_directory(directory.path())),
        PageSize::Base,
        4 * MIB,
    )
    .unwrap();
    fill_and_check(&mut region);
    assert_eq!(count(), 1);
    let audit = region.audit(AuditMode::Full).unwrap();
    assert_eq!(audit.pages_checked, 1024);
    drop(region);
    assert_eq!(count(), 0);
}

#[test]
fn a_kept_file_is_mapped_again_with_its_contents() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    let keep = || Arc::new(FileBackend::at_path(&path).keep(true));
    fill_and_check(&mut region(keep(), PageSize::Base, 4 * MIB).unwrap());
    let again = region(
        Arc::new(FileBackend::at_path(&path)),
        PageSize::Base,
        4 * MIB,
    )
    .unwrap();
    assert!(
        again
            .as_slice()
            .iter()
            .enumerate()
            .all(|(index, byte)| *byte == (index % 251) as u8)
    );
    let error = region(keep(), PageSize::Base, 4 * MIB).unwrap_err();
    assert!(
        matches!(error, MemoryError::FileInUse { .. }),
        "two owners of the same bytes: {error}"
    );
    drop(again);
    assert!(
        path.exists(),
        "a file that was there before is not ours to delete"
    );
    let error = region(keep(), PageSize::Base, 8 * MIB).unwrap_err();
    assert!(matches!(error, MemoryError::FileSize { .. }), "{error}");
}

#[test]
fn tmpfs_regions_follow_the_placement() {
    let directory = match tempfile::tempdir_in("/dev/shm") {
        Ok(directory) => directory,
        Err(error) => return checked_nothing(format!("no folder in /dev/shm: {error}")),
    };
    let mut region = region(
        Arc::new(FileBackend::in_directory(directory.path())),
        PageSize::Base,
        8 * MIB,
    )
    .unwrap();
    fill_and_check(&mut region);
    let audit = region.audit(AuditMode::Full).unwrap();
    assert_eq!(
        (audit.worst_deviation(), audit.misplaced_pages),
        (0.0, 0),
        "{audit:?}"
    );
}

#[test]
fn an_offset_maps_exactly_those_bytes_of_a_longer_file() {
    for parent in ["/dev/shm", "/tmp"] {
        let Ok(directory) = tempfile::tempdir_in(parent) else {
            tierloom_testing::left_out(format!("no folder can be made in {parent}"));
            continue;
        };
        let path = directory.path().join("pool");
        std::fs::write(&path, vec![1_u8; 4 * MIB]).unwrap();
        let at =
            |offset_bytes: u64| Arc::new(FileBackend::at_path(&path).offset_bytes(offset_bytes));
        let mut second = region(at(MIB as u64), PageSize::Base, MIB).unwrap();
        second.as_mut_slice().fill(2);
        // Other bytes of the same file are not locked, the same ones are.
        let fourth = region(at(3 * MIB as u64), PageSize::Base, MIB).unwrap();
        assert!(fourth.as_slice().iter().all(|byte| *byte == 1));
        let error = region(at(0), PageSize::Base, 2 * MIB).unwrap_err();
        assert!(matches!(error, MemoryError::FileInUse { .. }), "{error}");
        drop(second);
        let bytes = std::fs::read(&path).unwrap();
        let expected: Vec<u8> = [1, 2, 1, 1]
            .into_iter()
            .flat_map(|byte| vec![byte; MIB])
            .collect();
        assert!(bytes == expected, "{parent}");
    }
}

#[test]
fn offsets_that_cannot_work_are_refused_before_mapping() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    std::fs::write(&path, vec![0_u8; 4 * MIB]).unwrap();
    let at = |offset_bytes| Arc::new(FileBackend::at_path(&path).offset_bytes(offset_bytes));
    let error = region(at(4 * MIB as u64), PageSize::Base, MIB).unwrap_err();
    assert!(
        matches!(error, MemoryError::FileSize { needed_bytes, .. } if needed_bytes == 5 * MIB as u64),
        "{error}"
    );
    let error = region(at(u64::MAX - 4095), PageSize::Base, MIB).unwrap_err();
    assert!(matches!(error, MemoryError::FileSize { .. }), "{error}");
    let error = region(at(100), PageSize::Base, MIB).unwrap_err();
    assert!(
        matches!(
            error,
            MemoryError::Offset {
                below_bytes: 0,
                above_bytes: 4096,
                ..
            }
        ),
        "{error}"
    );
    let error = region(at(MIB as u64), PageSize::Thp, 2 * MIB).unwrap_err();
    assert!(matches!(error, MemoryError::Offset { .. }), "{error}");
    let in_directory = FileBackend::in_directory(directory.path()).offset_bytes(4096);
    let error = region(Arc::new(in_directory), PageSize::Base, MIB).unwrap_err();
    assert!(error.to_string().contains("name a file"), "{error}");
    let error = region(
        Arc::new(FileBackend::at_path("/dev/zero")),
        PageSize::Base,
        MIB,
    )
    .unwrap_err();
    assert!(error.to_string().contains("devdax"), "{error}");
}

#[test]
fn the_kernels_interleaving_is_a_policy_of_the_range() {
    let topology = machine();
    let node = first_node(&topology);
    for weighted in [false, true] {
        let backend = match KernelInterleave::new(&topology, [node], weighted) {
            Ok(backend) => backend,
            Err(error @ MemoryError::KernelPolicy { .. }) => {
                assert!(
                    weighted && error.to_string().contains("as a placement"),
                    "{error}"
                );
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(backend.expected_shares(&topology).unwrap(), [(node, 1.0)]);
        let options = RegionOptions::new("m0", 8 * MIB, Placement::kernel_default());
        let mut region = match Region::create(Arc::new(backend), &topology, options) {
            Ok(region) => region,
            Err(MemoryError::Syscall {
                errno: libc::EPERM, ..
            }) => return checked_nothing("memory policies are forbidden (container)"),
            Err(error) => panic!("{error}"),
        };
        fill_and_check(&mut region);
        let audit = region.audit(AuditMode::Full).unwrap();
        assert_eq!(
            (audit.worst_deviation(), audit.absent_pages),
            (0.0, 0),
            "{audit:?}"
        );
        assert_eq!(audit.requested.len(), 1);
        let start = format!("{:x} ", region.address());
        let areas = std::fs::read_to_string("/proc/self/numa_maps").unwrap_or_default();
        let mut own = areas.lines().filter(|line| line.starts_with(&start));
        let wanted = if weighted {
            "weighted interleave:"
        } else {
            "interleave:"
        };
        if !areas.is_empty() {
            assert!(own.any(|line| line.contains(wanted)), "{wanted}\n{areas}");
        }
    }
}

#[test]
fn interleaving_over_nodes_that_cannot_be_had_is_refused() {
    let topology = machine();
    let node = first_node(&topology);
    let error = KernelInterleave::new(&topology, [], false).unwrap_err();
    assert!(error.to_string().contains("name at least one"), "{error}");
    for nodes in [vec![node, node], vec![node, NodeId(999)]] {
        let error = KernelInterleave::new(&topology, nodes, false).unwrap_err();
        assert!(matches!(error, MemoryError::Placement(_)), "{error}");
    }
}

#[test]
fn file_regions_that_cannot_work_leave_no_file_behind() {
    let directory = tempfile::tempdir().unwrap();
    let in_directory = || Arc::new(FileBackend::in_directory(directory.path()));
    let error = region(in_directory(), PageSize::Base, 1 << 50).unwrap_err();
    assert!(
        matches!(
            error,
            MemoryError::NoSpace { .. } | MemoryError::NotEnoughMemory { .. }
        ),
        "{error}"
    );
    let error = region(in_directory(), PageSize::Huge2M, 2 * MIB).unwrap_err();
    assert!(
        matches!(error, MemoryError::FileSystem { .. }) && error.to_string().contains("hugetlbfs"),
        "{error}"
    );
    let missing = FileBackend::in_directory(directory.path().join("missing"));
    let error = region(Arc::new(missing), PageSize::Base, MIB).unwrap_err();
    assert!(
        matches!(error, MemoryError::File { .. })
            && error.to_string().contains("create the directory"),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
