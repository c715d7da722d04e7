//! Memory blocks of a real kernel, in a guest whose node 1 is a CXL region: a process keeps its
//! data while its memory is taken away and given back.
//!
//! The test that needs the region is ignored; the other one runs it in the guest
//! (`TIERLOOM_LAB=skip` skips it).

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tierloom_lab::{GuestKind, GuestOptions, GuestStep, run_tests_in_guest};
use tierloom_memory::{
    AnonymousNuma, AuditMode, Clock, MIB, PageSize, Placement, Region, RegionOptions, SystemClock,
};
use tierloom_pool::blocks::{
    BlockSource, BlockState, MemoryBlocks, Pick, RestoredBlocks, Timeline, change, choose, restore,
};
use tierloom_topology::{NodeId, SysRoot, Topology};

const NOW: &str = "2026-01-01T00:00:00Z";
const BLOCK: u64 = 128 << 20;
/// What the process has on node 1, which has four blocks.
const TABLE_BYTES: usize = 96 * MIB;

#[test]
fn blocks_go_and_come_back_in_a_guest_with_a_cxl_region() {
    let mut options = GuestOptions::new(GuestKind::Cxl);
    // The kernel must not move pages on its own.
    options.kernel_args.push("numa_balancing=disable".into());
    let steps = [
        GuestStep::Test("a_process_keeps_its_data_while_its_blocks_go_and_the_states_come_back"),
        GuestStep::Test("a_block_with_data_of_the_kernel_is_named_and_stays"),
    ];
    run_tests_in_guest(options, &steps);
}

fn blocks() -> MemoryBlocks {
    MemoryBlocks::read(&SysRoot::host(), &BlockSource::Node(1)).unwrap()
}

fn make(state: &Path, pick: &Pick, wanted: BlockState) -> Timeline {
    let (root, all) = (SysRoot::host(), blocks());
    let chosen = choose(&root, &all, pick, wanted).unwrap();
    let clock = SystemClock::new();
    let clock = (&clock as &dyn Clock, NOW);
    let timeline = change(&root, state, clock, &all, &chosen, wanted).unwrap();
    println!("{}", serde_json::to_string_pretty(&timeline).unwrap());
    timeline
}

fn back(state: &Path) -> RestoredBlocks {
    let clock = SystemClock::new();
    restore(&SysRoot::host(), state, (&clock, NOW), true).unwrap()
}

/// kB of node 1, 0 without it.
fn node_kib() -> u64 {
    let text = fs::read_to_string("/sys/devices/system/node/node1/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.contains("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    kib.unwrap_or(0)
}

fn table(topology: &Topology) -> Region {
    let options = RegionOptions {
        page_size: PageSize::Base,
        threads: 1,
        ..RegionOptions::new("table", TABLE_BYTES, Placement::bind(NodeId(1)))
    };
    Region::create(Arc::new(AnonymousNuma::new()), topology, options).unwrap()
}

/// Share of the region's pages that the kernel finds on a node.
fn share_on(region: &Region, node: u32) -> f64 {
    let audit = region.audit(AuditMode::Full).unwrap();
    let mut shares = audit
        .actual
        .iter()
        .filter(|share| share.node == NodeId(node));
    shares.next().map_or(0.0, |share| share.share)
}

/// The word at an index: no two are equal.
fn word(index: usize) -> u64 {
    (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
#[ignore = "needs a CXL region that is node 1: runs in a guest"]
fn a_process_keeps_its_data_while_its_blocks_go_and_the_states_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("blocks.json");
    let topology = Topology::read(&SysRoot::host()).unwrap();
    let mut region = table(&topology);
    for (index, bytes) in region.as_mut_slice().chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&word(index).to_le_bytes());
    }
    assert_eq!(share_on(&region, 1), 1.0);
    let (wrong, rounds, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let check = || {
        let words = region.as_slice().chunks_exact(8).enumerate();
        let differ = words.filter(|(index, bytes)| **bytes != word(*index).to_le_bytes());
        wrong.fetch_add(differ.count() as u64, Ordering::Relaxed);
        rounds.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                check();
            }
        });
        // So that an assertion that fails here ends the other thread.
        let outcome = std::panic::catch_unwind(|| {
            let first = make(&state, &Pick::Bytes(BLOCK), BlockState::Offline);
            assert_eq!(first.failures(), None);
            assert_eq!(
                (first.online_bytes_after, node_kib()),
                (3 * BLOCK, 3 * BLOCK / 1024)
            );
            let rest = make(&state, &Pick::All, BlockState::Offline);
            assert_eq!(rest.failures(), None);
            assert_eq!((rest.changes.len(), node_kib()), (3, 0));
            assert!(rest.changes.iter().all(|change| change.seconds > 0.0));
        });
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    assert_eq!((share_on(&region, 0), share_on(&region, 1)), (1.0, 0.0));
    check();
    assert_eq!(wrong.into_inner(), 0);
    assert!(rounds.into_inner() > 1, "it was read meanwhile");
    // Two come back, the others with the saved states.
    let two = make(&state, &Pick::Bytes(2 * BLOCK), BlockState::Online);
    assert_eq!((two.failures(), node_kib()), (None, 2 * BLOCK / 1024));
    assert!(two.changes.iter().all(|change| change.zone == "Movable"));
    let RestoredBlocks::Back {
        steps, timeline, ..
    } = back(&state)
    else {
        panic!("states are saved");
    };
    assert_eq!((steps.len(), timeline.unwrap().failures()), (2, None));
    assert_eq!(node_kib(), 4 * BLOCK / 1024);
    assert_eq!(back(&state), RestoredBlocks::Nothing);
    drop(region);
    assert_eq!(share_on(&table(&topology), 1), 1.0, "it is used again");
}

#[test]
#[ignore = "needs a CXL region that is node 1: runs in a guest"]
fn a_block_with_data_of_the_kernel_is_named_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("blocks.json");
    make(&state, &Pick::All, BlockState::Offline);
    // As a system without `online_movable` has it: page tables and the like go there too.
    let numbers: Vec<u64> = blocks().blocks.iter().map(|block| block.block).collect();
    for number in &numbers {
        let file = format!("/sys/devices/system/memory/memory{number}/state");
        fs::write(file, "online_kernel").unwrap();
    }
    let topology = Topology::read(&SysRoot::host()).unwrap();
    let region = table(&topology);
    let timeline = make(&state, &Pick::All, BlockState::Offline);
    let failures = timeline.failures().expect("page tables do not move");
    assert!(failures.contains("EBUSY, zone Normal"), "{failures}");
    let stays = timeline
        .changes
        .iter()
        .filter(|change| change.error.is_some())
        .count();
    assert_eq!(node_kib(), stays as u64 * BLOCK / 1024);
    assert_eq!(timeline.online_bytes_after, stays as u64 * BLOCK);
    drop(region);
}
