//! Placement and migration over two real nodes.
//!
//! The tests that need them are ignored; the one that is not ignored runs them in a guest that has
//! two (`TIERLOOM_LAB=skip` skips it). On a machine with two nodes: `cargo test -p tierloom-memory
//! --test numa -- --ignored`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tierloom_lab::{GuestKind, GuestOptions, GuestStep, run_tests_in_guest};
use tierloom_memory::mapping::{MapRequest, MapWhat, timed_unmap};
use tierloom_memory::{
    AnonymousNuma, AuditMode, FileBackend, KernelInterleave, MIB, MemoryBackend, MemoryError,
    MigrationOptions, PageSize, Placement, Region, RegionOptions,
};
use tierloom_topology::{NodeId, SysRoot, Topology};

/// Two nodes with memory.
fn machine() -> (Topology, NodeId, NodeId) {
    let topology = Topology::read(&SysRoot::host()).unwrap();
    let nodes = topology.memory_nodes();
    assert!(
        nodes.len() >= 2,
        "this test needs two nodes with memory; this machine has {nodes:?}"
    );
    (topology, nodes[0], nodes[1])
}

fn weighted(first: NodeId, second: NodeId, weights: (u32, u32)) -> Placement {
    Placement::weighted(vec![(first, weights.0), (second, weights.1)]).unwrap()
}

fn create(
    backend: Arc<dyn MemoryBackend>,
    topology: &Topology,
    page_size: PageSize,
    placement: Placement,
) -> Region {
    let options = RegionOptions {
        page_size,
        threads: 2,
        ..RegionOptions::new("column", 40 * MIB, placement)
    };
    Region::create(backend, topology, options).unwrap()
}

fn all_in_place(region: &Region) {
    let audit = region.audit(AuditMode::Full).unwrap();
    assert_eq!(
        (
            audit.misplaced_pages,
            audit.absent_pages,
            audit.unknown_pages
        ),
        (0, 0, 0),
        "{audit:?}"
    );
    assert_eq!(audit.worst_deviation_from_plan(), 0.0, "{audit:?}");
}

/// Boots a guest with this same binary in it and runs the ignored tests there, one after another
/// because they check free memory.
#[test]
fn placements_hold_in_a_guest_with_two_nodes() {
    let mut options = GuestOptions::new(GuestKind::TwoNodes);
    // The kernel must not move pages while their places are checked.
    options.kernel_args.push("numa_balancing=disable".into());
    let pool = GuestStep::shell(
        "for n in 0 1; do echo 32 >/sys/devices/system/node/node$n/hugepages/hugepages-2048kB/nr_hugepages; done; grep HugePages_Free /sys/devices/system/node/node*/meminfo",
    );
    let tests = [
        "every_placement_is_exact_to_the_page",
        "the_kernel_interleaves_by_the_systems_weights",
        "timed_mappings_take_their_pages_from_the_nodes_asked_for",
        "tmpfs_pages_follow_the_weights",
        "migrations_move_every_page_and_keep_the_bytes",
        "hugetlb_pages_follow_the_weights_move_and_run_out_politely",
        "a_full_node_is_refused_before_the_kernel_would_kill",
    ];
    let steps: Vec<_> = [pool]
        .into_iter()
        .chain(tests.map(GuestStep::Test))
        .collect();
    let Some(outcome) = run_tests_in_guest(options, &steps) else {
        return;
    };
    let pool = outcome.commands[0].stdout_text();
    assert_eq!(pool.matches(" 32\n").count(), 2, "{pool}");
}

#[test]
#[ignore = "needs two nodes with memory"]
fn every_placement_is_exact_to_the_page() {
    let (topology, first, second) = machine();
    for page_size in [PageSize::Base, PageSize::Thp] {
        for placement in [
            Placement::bind(first),
            Placement::bind(second),
            weighted(first, second, (3, 2)),
            weighted(first, second, (1, 9)),
            Placement::partitioned(vec![(first, 0.7), (second, 0.3)]).unwrap(),
        ] {
            let region = create(
                Arc::new(AnonymousNuma::new()),
                &topology,
                page_size,
                placement,
            );
            all_in_place(&region);
        }
    }
}

#[test]
#[ignore = "needs two nodes with memory, and sets the system's interleave weights"]
fn the_kernel_interleaves_by_the_systems_weights() {
    let (_, first, second) = machine();
    let set = |node: NodeId, weight: &str| {
        let file = format!("/sys/kernel/mm/mempolicy/weighted_interleave/node{node}");
        std::fs::write(file, weight).unwrap();
    };
    set(first, "3");
    set(second, "2");
    let topology = Topology::read(&SysRoot::host()).unwrap();
    for (weighted, share) in [(true, 0.6), (false, 0.5)] {
        for page_size in [PageSize::Base, PageSize::Thp] {
            let backend = KernelInterleave::new(&topology, [second, first], weighted).unwrap();
            let expected = backend.expected_shares(&topology).unwrap();
            assert_eq!(expected, [(first, share), (second, 1.0 - share)]);
            let region = create(
                Arc::new(backend),
                &topology,
                page_size,
                Placement::kernel_default(),
            );
            let audit = region.audit(AuditMode::Full).unwrap();
            assert_eq!(
                (audit.absent_pages, audit.unknown_pages),
                (0, 0),
                "{audit:?}"
            );
            // The kernel may start in the middle of a round, so shares are off by less than one
            // round of 5 pages.
            let tolerance = 5.0 / region.pages() as f64;
            assert!(
                audit.worst_deviation() < tolerance,
                "{weighted} {page_size}: {audit:?}"
            );
        }
    }
    set(first, "1");
    set(second, "1");
}

#[test]
#[ignore = "needs two nodes with memory"]
fn timed_mappings_take_their_pages_from_the_nodes_asked_for() {
    let (topology, first, second) = machine();
    for placement in [
        Placement::bind(second),
        weighted(first, second, (3, 2)),
        Placement::partitioned(vec![(first, 0.25), (second, 0.75)]).unwrap(),
    ] {
        for what in [MapWhat::AnonymousPrivate, MapWhat::AnonymousShared] {
            for page_size in [PageSize::Base, PageSize::Thp] {
                let request = MapRequest {
                    what: what.clone(),
                    size_bytes: 40 * MIB,
                    page_size,
                    nodes: placement.clone(),
                    populate: true,
                };
                request.check(&topology).unwrap();
                let (mapped, _) = request.timed_map().unwrap();
                let shares = mapped.shares(AuditMode::Full).unwrap();
                let found: Vec<(NodeId, f64)> = shares
                    .iter()
                    .map(|share| (share.node, share.share))
                    .collect();
                assert_eq!(
                    found,
                    placement.shares(),
                    "{} {page_size}",
                    request.describe()
                );
                timed_unmap(mapped).unwrap();
            }
        }
    }
}

#[test]
#[ignore = "needs two nodes with memory"]
fn tmpfs_pages_follow_the_weights() {
    let (topology, first, second) = machine();
    let directory = ["/dev/shm", "/tmp"]
        .into_iter()
        .find_map(|parent| tempfile::tempdir_in(parent).ok())
        .unwrap();
    let backend = Arc::new(FileBackend::in_directory(directory.path()));
    match backend.capacity(first, PageSize::Base) {
        Ok(Some(_)) => all_in_place(&create(
            backend,
            &topology,
            PageSize::Base,
            weighted(first, second, (3, 2)),
        )),
        other => tierloom_testing::checked_nothing(format!("no tmpfs to test: {other:?}")),
    }
}

#[test]
#[ignore = "needs two nodes with memory"]
fn migrations_move_every_page_and_keep_the_bytes() {
    let (topology, first, second) = machine();
    let pattern: Vec<u8> = (0..65_521_u32)
        .map(|index| (index.wrapping_mul(0x9e37_79b9) >> 13) as u8)
        .collect();
    for page_size in [PageSize::Base, PageSize::Thp] {
        let mut region = create(
            Arc::new(AnonymousNuma::new()),
            &topology,
            page_size,
            Placement::bind(first),
        );
        for part in region.as_mut_slice().chunks_mut(pattern.len()) {
            part.copy_from_slice(&pattern[..part.len()]);
        }
        for to in [
            weighted(first, second, (3, 2)),
            Placement::bind(second),
            weighted(second, first, (1, 1)),
            Placement::bind(first),
        ] {
            let mut migration = region
                .migrate(&to, &topology, MigrationOptions::default())
                .unwrap();
            let state = migration.run_to_end(&AtomicBool::new(false)).unwrap();
            assert_eq!(
                state.failed_total_pages(),
                0,
                "{page_size} to {to}: {state:?}"
            );
            assert!(state.moved_pages > 0);
            all_in_place(&region);
            assert!(
                region
                    .as_slice()
                    .chunks(pattern.len())
                    .all(|part| *part == pattern[..part.len()])
            );
        }
    }
}

#[test]
#[ignore = "needs two nodes with a pool of at least 20 hugetlb pages of 2 MiB each"]
fn hugetlb_pages_follow_the_weights_move_and_run_out_politely() {
    let (topology, first, second) = machine();
    let backend = || Arc::new(AnonymousNuma::new());
    let region = create(
        backend(),
        &topology,
        PageSize::Huge2M,
        weighted(first, second, (3, 2)),
    );
    let audit = region.audit(AuditMode::Full).unwrap();
    assert_eq!(
        (audit.pages_checked, audit.misplaced_pages),
        (20, 0),
        "{audit:?}"
    );
    let to = weighted(first, second, (1, 1));
    let mut migration = region
        .migrate(&to, &topology, MigrationOptions::default())
        .unwrap();
    let state = migration.run_to_end(&AtomicBool::new(false)).unwrap();
    assert_eq!(state.failed_total_pages(), 0, "{state:?}");
    all_in_place(&region);

    let pages = AnonymousNuma::new()
        .capacity(second, PageSize::Huge2M)
        .unwrap()
        .unwrap()
        .free_bytes
        / (2 * MIB as u64);
    let size_bytes = (pages as usize + 1) * 2 * MIB;
    let options = RegionOptions {
        page_size: PageSize::Huge2M,
        ..RegionOptions::new("big", size_bytes, Placement::bind(second))
    };
    let error = Region::create(backend(), &topology, options).unwrap_err();
    assert!(
        matches!(error, MemoryError::NotEnoughHugePages { .. }),
        "{error}"
    );
}

#[test]
#[ignore = "needs two nodes with memory"]
fn a_full_node_is_refused_before_the_kernel_would_kill() {
    let (topology, _, second) = machine();
    let capacity = AnonymousNuma::new()
        .capacity(second, PageSize::Base)
        .unwrap()
        .unwrap();
    let size_bytes =
        PageSize::Base.round_up(usize::try_from(capacity.free_bytes).unwrap() + 64 * MIB);
    let options = RegionOptions::new("column", size_bytes, Placement::bind(second));
    let error = Region::create(Arc::new(AnonymousNuma::new()), &topology, options).unwrap_err();
    assert!(
        matches!(error, MemoryError::NotEnoughMemory { .. }),
        "{error}"
    );
}
