//! Comparing snapshots of page placement, on a simulated machine whose kernel moves pages by
//! itself.

use std::sync::Arc;

use proptest::prelude::*;
use tierloom_memory::{
    AuditMode, FakeBackend, FakeNode, MIB, MemoryError, PageSize, Placement, PlacementSpec, Region,
    RegionOptions, fake_topology,
};
use tierloom_topology::{NodeId, Topology};

const NODE_BYTES: u64 = 64 * MIB as u64;
const PAGES: u64 = 2048;

fn topology() -> Topology {
    let node = |node, cpus| FakeNode {
        node,
        cpus,
        memory_bytes: NODE_BYTES,
    };
    fake_topology(&[node(0, 2), node(2, 0)]).unwrap()
}

fn backend() -> FakeBackend {
    FakeBackend::with_nodes(&[(0, NODE_BYTES), (2, NODE_BYTES)])
}

fn region(backend: &FakeBackend, topology: &Topology, placement: &str) -> Region {
    let placement: PlacementSpec = placement.parse().unwrap();
    let options = RegionOptions::new(
        "m0",
        PAGES as usize * 4096,
        placement.resolve(topology).unwrap(),
    );
    Region::create(Arc::new(backend.clone()), topology, options).unwrap()
}

#[test]
fn pages_that_moved_during_a_run_are_counted_and_those_that_stayed_are_not() {
    let (backend, topology) = (backend(), topology());
    let region = region(&backend, &topology, "0:3,2:1");
    let before = region.snapshot(AuditMode::Full).unwrap();
    assert_eq!(region.moved_since(&before).unwrap(), 0);
    // Of 400 pages in rounds of four, 100 are on node 2 already.
    backend.drift_at_query(0, 1000..1400, 2);
    let after = region.snapshot(AuditMode::Full).unwrap();
    assert_eq!(before.moved(&after).unwrap(), 300);
    assert_eq!(after.moved(&before).unwrap(), 300);
    assert_eq!(before.to_audit().misplaced_pages, 0);
    assert_eq!(after.to_audit().misplaced_pages, 300);
    assert_eq!(region.audit(AuditMode::Full).unwrap(), after.to_audit());
}

#[test]
fn pages_swapped_out_or_refused_are_not_taken_for_moved() {
    let (backend, topology) = (backend(), topology());
    let region = region(&backend, &topology, "0");
    let before = region.snapshot(AuditMode::Full).unwrap();
    backend.fail_queries(Some(libc::EPERM));
    let error = region.moved_since(&before).unwrap_err();
    assert!(matches!(error, MemoryError::Syscall { .. }), "{error}");
}

#[test]
fn snapshots_of_different_pages_are_not_compared() {
    let (backend, topology) = (backend(), topology());
    let (first, second) = (
        region(&backend, &topology, "0"),
        region(&backend, &topology, "2"),
    );
    let full = |region: &Region| region.snapshot(AuditMode::Full).unwrap();
    let error = full(&first).moved(&full(&second)).unwrap_err();
    assert!(matches!(error, MemoryError::Snapshots { .. }), "{error}");
    let sampled = first.snapshot(AuditMode::Sampled { pages: 100 }).unwrap();
    assert_eq!(sampled.pages_checked(), 100);
    let error = sampled.moved(&full(&first)).unwrap_err();
    assert!(error.to_string().contains("different pages"), "{error}");
}

#[test]
fn pages_the_kernel_interleaves_are_judged_by_its_shares() {
    let topology = topology();
    let backend = backend().interleaved(&[(0, 3), (2, 1)]).unwrap();
    let region = region(&backend, &topology, "default");
    let audit = region.audit(AuditMode::Full).unwrap();
    let shares: Vec<(u32, f64)> = audit
        .requested
        .iter()
        .map(|share| (share.node.0, share.share))
        .collect();
    assert_eq!(shares, [(0, 0.75), (2, 0.25)]);
    assert_eq!(audit.worst_deviation(), 0.0);
    backend.drift_at_query(0, 0..PAGES, 2);
    let drifted = region.audit(AuditMode::Full).unwrap();
    assert_eq!(drifted.worst_deviation(), 0.75);

    let options = RegionOptions::new("m0", MIB, Placement::bind(NodeId(0)));
    let error = Region::create(Arc::new(backend), &topology, options).unwrap_err();
    assert!(
        error.to_string().contains("the kernel's policy decides"),
        "{error}"
    );
}

#[test]
fn interleaving_that_cannot_fit_a_node_is_refused_before_a_page_is_touched() {
    let topology = topology();
    let backend = FakeBackend::with_nodes(&[(0, NODE_BYTES), (2, 4096)])
        .interleaved(&[(0, 1), (2, 1)])
        .unwrap();
    let options = RegionOptions::new("m0", 8 * MIB, Placement::kernel_default());
    let error = Region::create(Arc::new(backend.clone()), &topology, options).unwrap_err();
    assert!(
        matches!(&error, MemoryError::NotEnoughMemory { node, needed_mib: 4, .. } if node == "2"),
        "{error}"
    );
    assert!(backend.calls().is_empty());
}

#[test]
fn device_memory_is_neither_counted_nor_moved() {
    let topology = topology();
    let backend = FakeBackend::with_nodes(&[]).fixed_on("/dev/dax0.0");
    let region = region(&backend, &topology, "default");
    let before = region.snapshot(AuditMode::Full).unwrap();
    assert_eq!(
        (before.pages_checked(), region.moved_since(&before).unwrap()),
        (0, 0)
    );
    let audit = before.to_audit();
    assert_eq!((audit.pages_total, audit.absent_pages), (PAGES, 0));
    assert_eq!(
        audit.method,
        "device memory: pages are fixed on /dev/dax0.0"
    );
}

#[test]
fn making_a_region_tells_both_times_and_does_the_same_calls() {
    let (backend, topology) = (backend(), topology());
    let options = RegionOptions {
        page_size: PageSize::Thp,
        ..RegionOptions::new("m0", 8 * MIB, Placement::bind(NodeId(2)))
    };
    let (region, times) =
        Region::create_timed(Arc::new(backend.clone()), &topology, options).unwrap();
    assert!(
        times.reserve.as_nanos() > 0 && times.populate.as_nanos() > 0,
        "{times:?}"
    );
    assert_eq!(region.audit(AuditMode::Full).unwrap().misplaced_pages, 0);
    assert_eq!(
        backend.free_bytes(NodeId(2)),
        Some(NODE_BYTES - 8 * MIB as u64)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn sampled_or_not_exactly_the_pages_looked_at_that_changed_node_count(
        weights in (0_u32..5, 1_u32..5), start in 0..PAGES, len in 0..PAGES, to_second: bool, sample in prop::option::of(1_u64..3000),
    ) {
        let (backend, topology) = (backend(), topology());
        let placement = Placement::weighted(vec![(NodeId(0), weights.0), (NodeId(2), weights.1)]).unwrap();
        let region = region(&backend, &topology, &placement.to_string());
        let mode = sample.map_or(AuditMode::Full, |pages| AuditMode::Sampled { pages });
        let before = region.snapshot(mode).unwrap();
        let node = if to_second { 2 } else { 0 };
        let end = (start + len).min(PAGES);
        backend.drift_at_query(0, start..end, node);
        let moved = region.moved_since(&before).unwrap();
        let changed: u64 = placement.runs_in(PAGES, 0, start..end).filter(|run| run.node != Some(NodeId(node))).map(|run| run.pages).sum();
        match sample {
            Some(pages) if pages < PAGES => prop_assert!(moved <= changed.min(pages)),
            _ => prop_assert_eq!(moved, changed),
        }
        // The pages that moved are those on which the audits differ.
        let share = |audit: tierloom_memory::Audit, node| {
            audit.actual.iter().find(|share| share.node == node).map_or(0.0, |share| share.share) * audit.pages_checked as f64
        };
        let target = NodeId(node);
        let gained = share(region.audit(mode).unwrap(), target) - share(before.to_audit(), target);
        prop_assert!((gained - moved as f64).abs() < 1e-6);
    }
}
