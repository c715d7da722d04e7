//! The real kernel of this machine: anonymous memory and files. Nodes that are not there are not needed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tierloom_memory::{
    AnonymousNuma, AuditMode, FileBackend, MIB, MemoryBackend, MemoryError, MigrationOptions,
    PageSize, Placement, Region, RegionOptions,
};
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
        // A container may forbid page queries.
        Err(MemoryError::Syscall { errno: 1, .. }) => return,
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
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return;
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
