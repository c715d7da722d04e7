//! Migrations on a simulated machine: shares, rate, resumption, failures, contents.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use proptest::prelude::*;
use tierloom_memory::{
    AuditMode, Clock, FakeBackend, FakeClock, FakeNode, MIB, MemoryError, MigrationOptions,
    MigrationState, PageSize, Placement, PlacementSpec, Region, RegionOptions, fake_topology,
};
use tierloom_topology::{NodeId, Topology};

const NODE_BYTES: u64 = 64 * MIB as u64;
const EBUSY: i32 = 16;
const ENOMEM: i32 = 12;
const ENODEV: i32 = 19;

fn placement(text: &str, topology: &Topology) -> Placement {
    text.parse::<PlacementSpec>()
        .unwrap()
        .resolve(topology)
        .unwrap()
}

/// 16 MiB on node 0, filled with a pattern.
fn filled_region(page_size: PageSize) -> (Arc<FakeBackend>, Topology, Region) {
    let node = |node, cpus| FakeNode {
        node,
        cpus,
        memory_bytes: NODE_BYTES,
    };
    let topology = fake_topology(&[node(0, 2), node(1, 0)]).unwrap();
    let backend = Arc::new(FakeBackend::with_nodes(&[(0, NODE_BYTES), (1, NODE_BYTES)]));
    let options = RegionOptions {
        page_size,
        ..RegionOptions::new("table", 16 * MIB, placement("0", &topology))
    };
    let mut region = Region::create(backend.clone(), &topology, options).unwrap();
    let pattern = pattern();
    for part in region.as_mut_slice().chunks_mut(pattern.len()) {
        part.copy_from_slice(&pattern[..part.len()]);
    }
    (backend, topology, region)
}

/// A block of bytes whose prime length makes every page different.
fn pattern() -> Vec<u8> {
    (0..65_521_u32)
        .map(|index| (index.wrapping_mul(0x9e37_79b9) >> 13) as u8)
        .collect()
}

fn options() -> MigrationOptions {
    MigrationOptions {
        clock: Arc::new(FakeClock::default()),
        ..MigrationOptions::default()
    }
}

fn contents_are_unchanged(region: &Region) -> bool {
    let pattern = pattern();
    region
        .as_slice()
        .chunks(pattern.len())
        .all(|part| *part == pattern[..part.len()])
}

#[test]
fn pages_end_where_the_new_placement_says_with_their_contents() {
    for page_size in [PageSize::Base, PageSize::Thp] {
        let (_, topology, region) = filled_region(page_size);
        let to = placement("3:2", &topology);
        let mut migration = region.migrate(&to, &topology, options()).unwrap();
        let state = migration
            .run_to_end(&AtomicBool::new(false))
            .unwrap()
            .clone();
        assert!(state.finished());
        assert_eq!(
            state.moved_pages + state.already_there_pages,
            region.pages()
        );
        let audit = region.audit(AuditMode::Full).unwrap();
        assert_eq!(
            (audit.worst_deviation_from_plan(), audit.misplaced_pages),
            (0.0, 0),
            "{page_size}"
        );
        assert_eq!(region.placement(), to);
        assert!(contents_are_unchanged(&region));
    }
}

#[test]
fn the_rate_is_kept_over_the_whole_and_over_every_batch() {
    let (_, topology, region) = filled_region(PageSize::Base);
    let clock = Arc::new(FakeClock::default());
    let rate = 4 * MIB as u64;
    let limited = MigrationOptions {
        max_bytes_per_s: Some(rate),
        clock: clock.clone(),
        ..MigrationOptions::default()
    };
    let mut migration = region
        .migrate(&placement("1", &topology), &topology, limited)
        .unwrap();
    let mut moved_bytes = 0;
    loop {
        let step = migration.step().unwrap();
        moved_bytes += step.moved_pages * 4096;
        assert!(
            step.moved_pages * 4096 <= rate / 20 + 4096,
            "one batch is a twentieth of a second's worth"
        );
        clock.sleep(step.wait);
        let allowed_bytes = clock.now().as_secs_f64() * rate as f64;
        assert!(
            moved_bytes as f64 <= allowed_bytes + 4096.0,
            "{moved_bytes} bytes after {:?}",
            clock.now()
        );
        if step.finished {
            break;
        }
    }
    assert_eq!(moved_bytes, 16 * MIB as u64);
    assert!(
        clock.now() >= Duration::from_secs_f64(3.99),
        "{:?}",
        clock.now()
    );
}

#[test]
fn an_interrupted_migration_goes_on_from_its_saved_state() {
    let (_, topology, region) = filled_region(PageSize::Base);
    let to = placement("0:1,1:3", &topology);
    let small = MigrationOptions {
        batch_pages: 100,
        ..options()
    };
    let mut first = region.migrate(&to, &topology, small).unwrap();
    first.step().unwrap();
    first.step().unwrap();
    assert_eq!(
        first.run_to_end(&AtomicBool::new(true)).unwrap().next_page,
        200,
        "a set cancel flag stops at once"
    );
    let saved = serde_json::to_string(first.state()).unwrap();
    drop(first);

    let half_way = region.audit(AuditMode::Full).unwrap();
    assert!(
        half_way.worst_deviation() > 0.5,
        "the audit shows that most pages are still on node 0: {half_way:?}"
    );

    let state: MigrationState = serde_json::from_str(&saved).unwrap();
    let mut second = region
        .resume_migration(state, &topology, options())
        .unwrap();
    let state = second.run_to_end(&AtomicBool::new(false)).unwrap();
    assert_eq!((state.moved_pages, state.already_there_pages), (3072, 1024));
    assert_eq!(region.audit(AuditMode::Full).unwrap().misplaced_pages, 0);
    assert!(contents_are_unchanged(&region));
}

#[test]
fn a_state_of_another_region_is_refused() {
    let (_, topology, region) = filled_region(PageSize::Base);
    let migration = region
        .migrate(&placement("1", &topology), &topology, options())
        .unwrap();
    for change in [
        |state: &mut MigrationState| state.region = "other".to_owned(),
        |state: &mut MigrationState| state.size_bytes += 1,
        |state: &mut MigrationState| state.next_page = state.pages_total + 1,
        |state: &mut MigrationState| state.page_size = PageSize::Thp,
    ] {
        let mut state = migration.state().clone();
        change(&mut state);
        let error = region
            .resume_migration(state, &topology, options())
            .unwrap_err();
        assert!(matches!(error, MemoryError::Migration { .. }), "{error:?}");
    }
    let mut state = migration.state().clone();
    state.to = "0:garbage".to_owned();
    assert!(matches!(
        region.resume_migration(state, &topology, options()),
        Err(MemoryError::Placement(_))
    ));
}

#[test]
fn failures_are_counted_by_errno_and_busy_pages_are_tried_again() {
    let (backend, topology, region) = filled_region(PageSize::Base);
    let mut migration = region
        .migrate(&placement("1", &topology), &topology, options())
        .unwrap();
    // Busy once, so moved by the retry; two pages fail in another way and stay.
    backend.fail_move(3, EBUSY);
    backend.fail_move(5, ENODEV);
    backend.fail_move(6, ENODEV);
    let state = migration
        .run_to_end(&AtomicBool::new(false))
        .unwrap()
        .clone();
    assert_eq!(state.failed_pages.get(&ENODEV), Some(&2));
    assert_eq!(state.failed_pages.get(&EBUSY), None);
    assert_eq!((state.failed_total_pages(), state.moved_pages), (2, 4094));
    assert_eq!(region.audit(AuditMode::Full).unwrap().misplaced_pages, 2);
    assert!(contents_are_unchanged(&region));
}

#[test]
fn a_node_that_fills_up_meanwhile_loses_nothing() {
    let (backend, topology, region) = filled_region(PageSize::Base);
    let mut migration = region
        .migrate(&placement("1", &topology), &topology, options())
        .unwrap();
    let rest = RegionOptions::new("rest", 60 * MIB, placement("1", &topology));
    let _neighbour = Region::create(backend.clone(), &topology, rest).unwrap();
    let state = migration.run_to_end(&AtomicBool::new(false)).unwrap();
    assert_eq!(
        (state.moved_pages, state.failed_pages.get(&ENOMEM)),
        (1024, Some(&3072))
    );
    assert_eq!(backend.free_bytes(NodeId(1)), Some(0));
    assert!(contents_are_unchanged(&region));
}

#[test]
fn migrations_that_cannot_work_are_refused_before_a_page_moves() {
    let (backend, topology, region) = filled_region(PageSize::Base);
    let rest = RegionOptions::new("rest", 60 * MIB, placement("1", &topology));
    let _neighbour = Region::create(backend, &topology, rest).unwrap();
    let error = |to: &Placement, options| {
        region
            .migrate(to, &topology, options)
            .map(drop)
            .unwrap_err()
    };
    assert!(matches!(
        error(&placement("1", &topology), options()),
        MemoryError::NotEnoughMemory { .. }
    ));
    assert!(matches!(
        error(&Placement::bind(NodeId(5)), options()),
        MemoryError::Placement(_)
    ));
    assert!(matches!(
        error(&Placement::kernel_default(), options()),
        MemoryError::Migration { .. }
    ));
    let stuck = MigrationOptions {
        max_bytes_per_s: Some(0),
        ..options()
    };
    assert!(matches!(
        error(&placement("0", &topology), stuck),
        MemoryError::Migration { .. }
    ));
    assert_eq!(region.placement(), placement("0", &topology));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_failures_and_interruptions_keep_the_books(
        weights in (1_u32..6, 1_u32..6), batch_pages in 1_u64..900, stop_after in 0_usize..6, failures in prop::collection::vec((0_u64..3000, 1_i32..40), 0..8),
    ) {
        let (backend, topology, region) = filled_region(PageSize::Base);
        let to = Placement::weighted(vec![(NodeId(0), weights.0), (NodeId(1), weights.1)]).unwrap();
        for (nth, errno) in failures {
            backend.fail_move(nth, errno);
        }
        let mut migration = region.migrate(&to, &topology, MigrationOptions { batch_pages, ..options() }).unwrap();
        for _ in 0..stop_after {
            migration.step().unwrap();
        }
        let state = migration.state().clone();
        let mut migration = region.resume_migration(state, &topology, options()).unwrap();
        let state = migration.run_to_end(&AtomicBool::new(false)).unwrap();
        prop_assert_eq!(state.moved_pages + state.already_there_pages + state.failed_total_pages(), region.pages());
        let audit = region.audit(AuditMode::Full).unwrap();
        prop_assert_eq!(audit.misplaced_pages, state.failed_total_pages());
        prop_assert!(contents_are_unchanged(&region));
    }
}

#[test]
fn a_part_moves_alone_and_comes_back_to_the_placement_of_the_whole() {
    let (_, topology, region) = filled_region(PageSize::Base);
    let home = region.placement();
    let part = 100..300_u64;
    let to = placement("1", &topology);
    let on_node_1 = |region: &Region| {
        let audit = region.audit(AuditMode::Full).unwrap();
        let found = audit.actual.iter().find(|s| s.node == NodeId(1));
        found
            .map_or(0.0, |s| s.share * region.pages() as f64)
            .round() as u64
    };
    let mut there = region
        .migrate_part(&to, part.clone(), &topology, options())
        .unwrap();
    let state = there.run_to_end(&AtomicBool::new(false)).unwrap();
    assert_eq!((state.moved_pages, state.finished()), (200, true));
    assert_eq!(on_node_1(&region), 200);
    assert_eq!(region.placement(), home, "the whole is wanted where it was");
    let mut back = region
        .migrate_part(&home, part, &topology, options())
        .unwrap();
    assert_eq!(
        back.run_to_end(&AtomicBool::new(false))
            .unwrap()
            .moved_pages,
        200
    );
    assert_eq!(on_node_1(&region), 0);
    let beyond = region.migrate_part(&home, 0..region.pages() + 1, &topology, options());
    assert!(beyond.unwrap_err().to_string().contains("not all among"));
}
