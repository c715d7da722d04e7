//! Regions on a simulated machine: placement, errors before any page is touched, audits.

use std::sync::Arc;

use tierloom_memory::{
    Audit, AuditMode, FakeBackend, FakeCall, FakeNode, MIB, MemoryError, PageSize, Placement,
    PlacementSpec, Region, RegionOptions, fake_topology,
};
use tierloom_topology::{NodeId, Topology};

const NODE_BYTES: u64 = 64 * MIB as u64;

fn machine() -> (Arc<FakeBackend>, Topology) {
    let node = |node, cpus| FakeNode {
        node,
        cpus,
        memory_bytes: NODE_BYTES,
    };
    let topology = fake_topology(&[node(0, 2), node(2, 0), node(3, 0)]).unwrap();
    (
        Arc::new(FakeBackend::with_nodes(&[
            (0, NODE_BYTES),
            (2, NODE_BYTES),
            (3, NODE_BYTES),
        ])),
        topology,
    )
}

fn options(text: &str, topology: &Topology, size_bytes: usize) -> RegionOptions {
    RegionOptions::new(
        "column",
        size_bytes,
        text.parse::<PlacementSpec>()
            .unwrap()
            .resolve(topology)
            .unwrap(),
    )
}

fn touched(backend: &FakeBackend) -> bool {
    backend
        .calls()
        .iter()
        .any(|call| !matches!(call, FakeCall::Release))
}

#[test]
fn pages_lie_as_asked_for_under_every_placement_and_page_size() {
    for page_size in [PageSize::Base, PageSize::Thp, PageSize::Huge2M] {
        for text in [
            "0",
            "cxl",
            "0:3,2:2",
            "3:2",
            "1:9",
            "0=70%,2=30%",
            "2=10%,0=90%",
        ] {
            let (backend, topology) = machine();
            let options = RegionOptions {
                page_size,
                threads: 3,
                ..options(text, &topology, 50 * MIB)
            };
            let region = Region::create(backend.clone(), &topology, options).unwrap();
            let audit = region.audit(AuditMode::Full).unwrap();
            assert_eq!(
                audit.worst_deviation_from_plan(),
                0.0,
                "{text} {page_size}: {audit:?}"
            );
            assert_eq!(
                (audit.misplaced_pages, audit.absent_pages),
                (0, 0),
                "{text} {page_size}"
            );
            // 25 pages of 2 MiB cannot meet a share more exactly than half a page of their round.
            let tolerance = region.placement().round_pages() as f64 / region.pages() as f64;
            assert!(
                audit.worst_deviation() <= tolerance,
                "{text} {page_size}: {audit:?}"
            );
            assert_eq!(audit.pages_checked * audit.page_bytes, 50 * MIB as u64);
        }
    }
}

#[test]
fn weights_reserve_one_range_whatever_the_number_of_runs() {
    let (backend, topology) = machine();
    let region = Region::create(
        backend.clone(),
        &topology,
        options("1:1", &topology, 8 * MIB),
    )
    .unwrap();
    let calls = backend.calls();
    assert_eq!(
        calls
            .iter()
            .filter(|call| matches!(call, FakeCall::Reserve { .. }))
            .count(),
        1
    );
    // 2048 pages of dram:1,cxl:1 over cxl nodes 2 and 3 are 0:2,2:1,3:1: three runs per four pages.
    assert_eq!(
        calls
            .iter()
            .filter(|call| matches!(call, FakeCall::Populate(_)))
            .count(),
        1536
    );
    drop(region);
    assert_eq!(backend.free_bytes(NodeId(0)), Some(NODE_BYTES));
}

#[test]
fn small_columns_placed_one_after_another_have_the_weights_together() {
    let (backend, topology) = machine();
    let mut start_page = 0;
    let mut regions = Vec::new();
    for pages in [1_usize, 2, 1, 3, 1, 1, 6, 5] {
        let options = RegionOptions {
            start_page,
            ..options("0:3,2:2", &topology, pages * PageSize::Base.bytes())
        };
        regions.push(Region::create(backend.clone(), &topology, options).unwrap());
        start_page += pages as u64;
    }
    let audits: Vec<Audit> = regions
        .iter()
        .map(|region| region.audit(AuditMode::Full).unwrap())
        .collect();
    let merged = Audit::merge(&audits).unwrap();
    assert_eq!(merged.pages_total, 20);
    assert!(merged.worst_deviation() < 1e-9, "{merged:?}");
    assert!(
        audits[0].worst_deviation() > 0.3,
        "one page cannot be on two nodes"
    );
}

#[test]
fn everything_that_can_be_known_is_refused_before_a_page_is_touched() {
    let (backend, topology) = machine();
    let base = options("0", &topology, MIB);
    let elsewhere = Placement::bind(NodeId(9));
    let cases: Vec<(RegionOptions, &[&str])> = vec![
        (
            RegionOptions {
                size_bytes: 0,
                ..base.clone()
            },
            &["size is 0", "column"],
        ),
        (
            RegionOptions {
                size_bytes: 5000,
                ..base.clone()
            },
            &["5000", "use 8192"],
        ),
        (
            RegionOptions {
                page_size: PageSize::Thp,
                ..base.clone()
            },
            &["1048576", "use 2097152"],
        ),
        (
            RegionOptions {
                placement: elsewhere,
                ..base.clone()
            },
            &["node 9 does not exist", "0,2-3"],
        ),
        (
            options("2", &topology, 65 * MIB),
            &["node 2", "65 MiB", "64 MiB free", "node 0: 64 MiB"],
        ),
        (
            options("0:3,2:1", &topology, 100 * MIB),
            &["node 0", "75 MiB"],
        ),
        (
            options("0=10%,3=90%", &topology, 100 * MIB),
            &["node 3", "90 MiB"],
        ),
        (
            options("default", &topology, 200 * MIB),
            &["node any", "192 MiB"],
        ),
        (
            RegionOptions {
                page_size: PageSize::Huge2M,
                ..options("2", &topology, 66 * MIB)
            },
            &["33 hugetlb pages", "32 free", "nr_hugepages"],
        ),
    ];
    for (options, parts) in cases {
        let shown = format!("{options:?}");
        let error = Region::create(backend.clone(), &topology, options)
            .unwrap_err()
            .to_string();
        for part in parts {
            assert!(error.contains(part), "{shown}: `{part}` not in: {error}");
        }
        assert!(!touched(&backend), "{shown}");
    }
}

#[test]
fn a_region_beyond_the_limit_of_the_control_group_is_refused() {
    let (backend, mut topology) = machine();
    topology.limits.memory_limit_bytes = Some(10 * MIB as u64);
    let create = |size_bytes| {
        Region::create(
            backend.clone(),
            &topology,
            options("0", &topology, size_bytes),
        )
    };
    let error = create(11 * MIB).unwrap_err();
    assert!(
        matches!(error, MemoryError::OverGroupLimit { limit_mib: 10, .. }),
        "{error}"
    );
    assert!(!touched(&backend));
    create(10 * MIB).unwrap();
}

#[test]
fn a_failed_run_gives_everything_back_and_names_the_node() {
    let (backend, topology) = machine();
    backend.fail_populate(5, libc_enomem());
    let error = Region::create(
        backend.clone(),
        &topology,
        options("0:3,2:2", &topology, MIB),
    )
    .unwrap_err();
    assert!(
        matches!(error, MemoryError::Syscall { errno, .. } if errno == libc_enomem()),
        "{error:?}"
    );
    assert!(error.to_string().contains("node 2"), "{error}");
    assert_eq!(backend.free_bytes(NodeId(0)), Some(NODE_BYTES));
    assert_eq!(backend.calls().last(), Some(&FakeCall::Release));
}

fn libc_enomem() -> i32 {
    12
}

#[test]
fn a_sampled_audit_is_close_and_cheap() {
    let (backend, topology) = machine();
    let region =
        Region::create(backend, &topology, options("0:3,2:2", &topology, 40 * MIB)).unwrap();
    let audit = region.audit(AuditMode::Sampled { pages: 1000 }).unwrap();
    assert_eq!(audit.pages_checked, 1000);
    assert_eq!(audit.misplaced_pages, 0);
    assert!(audit.worst_deviation() < 0.06, "{audit:?}");
    let all = region
        .audit(AuditMode::Sampled { pages: u64::MAX })
        .unwrap();
    assert_eq!(all.pages_checked, all.pages_total);
}

#[test]
fn an_audit_serialises_and_a_merge_weighs_by_bytes() {
    let (backend, topology) = machine();
    let small = Region::create(backend.clone(), &topology, options("0", &topology, MIB)).unwrap();
    let large = RegionOptions {
        page_size: PageSize::Huge2M,
        ..options("2", &topology, 6 * MIB)
    };
    let large = Region::create(backend, &topology, large).unwrap();
    let audits = [
        small.audit(AuditMode::Full).unwrap(),
        large.audit(AuditMode::Full).unwrap(),
    ];
    let merged = Audit::merge(&audits).unwrap();
    let shares: Vec<(u32, f64)> = merged
        .actual
        .iter()
        .map(|share| (share.node.0, share.share))
        .collect();
    assert_eq!(shares, [(0, 1.0 / 7.0), (2, 6.0 / 7.0)]);
    assert_eq!(
        (merged.pages_total, merged.bytes_checked),
        (7 * 256, 7 * MIB as u64)
    );
    let json = serde_json::to_value(&merged).unwrap();
    assert_eq!(json["name"], "2 regions");
    assert_eq!(json["actual"][1]["node"], 2);
    assert!(Audit::merge(&[]).is_none());
}

#[test]
fn a_refused_page_query_is_an_error_unless_there_is_one_node_only() {
    let (backend, topology) = machine();
    let region = Region::create(backend.clone(), &topology, options("0", &topology, MIB)).unwrap();
    backend.fail_queries(Some(1));
    assert!(matches!(
        region.audit(AuditMode::Full),
        Err(MemoryError::Syscall { errno: 1, .. })
    ));

    let topology = fake_topology(&[FakeNode {
        node: 0,
        cpus: 1,
        memory_bytes: NODE_BYTES,
    }])
    .unwrap();
    let backend = Arc::new(FakeBackend::with_nodes(&[(0, NODE_BYTES)]));
    let region = Region::create(backend.clone(), &topology, options("0", &topology, MIB)).unwrap();
    backend.fail_queries(Some(1));
    let audit = region.audit(AuditMode::Full).unwrap();
    assert!(audit.method.contains("deduced"), "{}", audit.method);
    assert_eq!(audit.worst_deviation(), 0.0);
}

#[test]
fn slices_keep_the_region_and_stay_inside() {
    let (backend, topology) = machine();
    let mut region =
        Region::create(backend.clone(), &topology, options("0", &topology, MIB)).unwrap();
    region.as_mut_slice()[100] = 42;
    let region = Arc::new(region);
    let slice = region.slice(100..200).unwrap();
    assert!(region.slice(100..MIB + 1).is_err());
    #[expect(clippy::reversed_empty_ranges)]
    let reversed = region.slice(200..100);
    assert!(reversed.is_err());
    let (start, end) = (region.address(), region.address() + region.size_bytes());
    assert!(region.contains(start) && region.contains(end - 1) && !region.contains(end));
    drop(region);
    assert_eq!((slice.as_ref().len(), slice.as_ref()[0]), (100, 42));
    assert!(backend.free_bytes(NodeId(0)) < Some(NODE_BYTES));
    std::thread::spawn(move || drop(slice)).join().unwrap();
    assert_eq!(backend.free_bytes(NodeId(0)), Some(NODE_BYTES));
}
