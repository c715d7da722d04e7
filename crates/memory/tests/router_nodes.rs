//! The router on two real nodes. The test that needs them is ignored, and the other one runs it in
//! a guest whose node 1 is CXL memory that can be taken offline (`TIERLOOM_LAB=skip` skips it).

use std::fs;
use std::process::Command;

use tierloom_lab::{GuestKind, GuestOptions, GuestStep, run_tests_in_guest};
use tierloom_memory::router::{
    self, Class, ClassScope, OperatorId, Overflow, PeakAudit, PlaceMemory, PlaceOptions,
    RouterOptions, TierAllocator,
};
use tierloom_memory::{MIB, Placement};
use tierloom_topology::NodeId;

#[global_allocator]
static ALLOCATOR: TierAllocator<std::alloc::System> = TierAllocator::new(std::alloc::System);

#[test]
fn routed_memory_is_where_it_should_be_in_a_guest_with_two_nodes() {
    let mut options = GuestOptions::new(GuestKind::Cxl);
    options.kernel_args.push("numa_balancing=disable".into());
    // It is filled twice, which takes minutes for larger ones: each access is emulated.
    options.slow_bytes = 256 << 20;
    run_tests_in_guest(
        options,
        &[GuestStep::Test("pages_account_a_full_node_and_a_lost_node")],
    );
}

fn place(name: &str, placement: Placement) -> PlaceOptions {
    PlaceOptions {
        name: name.to_owned(),
        memory: PlaceMemory::Nodes(placement),
        limit_bytes: u64::MAX,
    }
}

/// Joins on node 1 and then node 0, groups over both nodes.
fn options() -> RouterOptions {
    let (near, far) = (NodeId(0), NodeId(1));
    let weights = Placement::weighted(vec![(near, 3), (far, 1)]).unwrap();
    RouterOptions {
        places: vec![
            (
                Class::JoinBuild,
                vec![
                    place("far", Placement::bind(far)),
                    place("near", Placement::bind(near)),
                ],
            ),
            (Class::Aggregation, vec![place("3:1", weights)]),
        ],
        overflow: Overflow::Refuse,
        cache_bytes: Some(0),
    }
}

/// Writes to every page of an empty block. To write every byte takes minutes in a guest.
fn write_pages(block: &mut Vec<u8>) {
    for page in block.spare_capacity_mut().chunks_mut(4096) {
        page[0].write(1);
    }
}

/// Allocates memory of `class` and writes to its pages; it counts as empty.
fn filled(class: Class, bytes: usize) -> Vec<u8> {
    let _scope = router::enter(ClassScope {
        class,
        operator: OperatorId::NONE,
    });
    let mut block = Vec::with_capacity(bytes);
    write_pages(&mut block);
    block
}

/// The share of a class's pages on node 1.
fn share_on_node_1(audit: &PeakAudit, class: Class) -> f64 {
    let found = audit.classes.iter().find(|c| c.class == class).unwrap();
    let on: u64 = found.by_node.iter().filter(|n| n.0 == 1).map(|n| n.1).sum();
    on as f64 / found.by_node.iter().map(|n| n.1).sum::<u64>() as f64
}

#[test]
#[ignore = "needs two nodes with memory, the second of which can be taken offline"]
fn pages_account_a_full_node_and_a_lost_node() {
    router::configure(&options()).unwrap();
    pages_and_account();
    a_full_node();
    a_node_that_threads_fill();
    a_control_group_that_threads_fill();
    a_lost_node();
}

fn pages_and_account() {
    router::watch_peak(true);
    let mut blocks: Vec<Vec<u8>> = (0..20).map(|_| filled(Class::JoinBuild, MIB)).collect();
    blocks.push(filled(Class::JoinBuild, 50 * MIB + 4096));
    blocks.push(filled(Class::Aggregation, 60 * MIB));
    blocks.extend((0..40).map(|_| filled(Class::Aggregation, 300 << 10)));
    drop(blocks);
    let audit = router::peak_audit().unwrap();
    router::watch_peak(false);
    assert_eq!(share_on_node_1(&audit, Class::JoinBuild), 1.0, "{audit:?}");
    let weighted = share_on_node_1(&audit, Class::Aggregation);
    assert!((weighted - 0.25).abs() < 0.02, "{weighted}: {audit:?}");
    let kernel = audit.kernel_bytes.unwrap() as f64;
    let difference = (audit.accounted_bytes as f64 - kernel).abs() / kernel;
    assert!(difference < 0.05, "{difference}: {audit:?}");
}

fn a_full_node() {
    assert!(router::events().is_empty(), "{:?}", router::events());
    let mut blocks = Vec::new();
    while router::events().is_empty() {
        assert!(blocks.len() < 100, "node 1 never gets full");
        blocks.push(filled(Class::JoinBuild, 8 * MIB));
    }
    let event = &router::events()[0];
    assert_eq!(
        (event.why.as_str(), event.from.as_str()),
        ("node full", "far")
    );
    assert_eq!(event.to.as_deref(), Some("near"));
    // Most of it fits on node 1.
    let share = share_on_node_1(&router::audit_now(), Class::JoinBuild);
    assert!(share > 0.9 && share < 1.0, "{share}");
}

/// The blocks of `bytes` that threads get, all at the same time, until one is refused; every page
/// is written.
fn by_threads(bytes: usize) -> Vec<Vec<u8>> {
    let one = move || {
        let _scope = router::enter(ClassScope {
            class: Class::JoinBuild,
            operator: OperatorId::NONE,
        });
        let mut blocks = Vec::new();
        loop {
            let mut block = Vec::new();
            if block.try_reserve_exact(bytes).is_err() {
                return blocks;
            }
            write_pages(&mut block);
            blocks.push(block);
        }
    };
    std::thread::scope(|threads| {
        let running: Vec<_> = (0..4).map(|_| threads.spawn(one)).collect();
        let taken = running.into_iter().map(|thread| thread.join().unwrap());
        taken.flatten().collect()
    })
}

/// Threads allocate memory at the same time until there is none; the kernel's OOM killer must never
/// run.
fn a_node_that_threads_fill() {
    let places = vec![place("far", Placement::bind(NodeId(1)))];
    let all = options();
    let only_far = RouterOptions {
        places: vec![(Class::JoinBuild, places)],
        ..all.clone()
    };
    router::configure(&only_far).unwrap();
    let blocks = by_threads(3 * MIB);
    let audit = router::audit_now();
    assert_eq!(share_on_node_1(&audit, Class::JoinBuild), 1.0, "{audit:?}");
    assert!(blocks.len() > 20, "{}", blocks.len());
    let last = router::events().pop().unwrap();
    assert_eq!((last.why.as_str(), last.to), ("node full", None));
    drop(blocks);
    router::configure(&all).unwrap();
}

/// The folder of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

fn a_control_group_that_threads_fill() {
    let script = format!(
        "mount -t cgroup2 none {GROUPS}; echo +memory >{GROUPS}/cgroup.subtree_control; \
         mkdir {GROUPS}/tight; echo {} >{GROUPS}/tight/cgroup.procs",
        std::process::id()
    );
    let status = Command::new("sh").args(["-ec", &script]).status().unwrap();
    assert!(status.success(), "{script}");
    let read = |file: &str| fs::read_to_string(format!("{GROUPS}/tight/{file}")).unwrap();
    let used: usize = read("memory.current").trim().parse().unwrap();
    let limit = used + 64 * MIB;
    fs::write(format!("{GROUPS}/tight/memory.max"), limit.to_string()).unwrap();
    router::refresh();
    let blocks = by_threads(2 * MIB);
    assert!(blocks.len() > 10, "{}", blocks.len());
    let last = router::events().pop().unwrap();
    assert_eq!(last.why, "memory limit of the control group reached");
    let killed = read("memory.events");
    assert!(killed.contains("oom_kill 0"), "{killed}");
    drop(blocks);
    fs::write(format!("{GROUPS}/tight/memory.max"), "max").unwrap();
    fs::write(
        format!("{GROUPS}/cgroup.procs"),
        std::process::id().to_string(),
    )
    .unwrap();
    router::refresh();
}

fn a_lost_node() {
    let before = router::events().len();
    for entry in fs::read_dir("/sys/devices/system/node/node1").unwrap() {
        let state = entry.unwrap().path().join("state");
        if state.exists() {
            fs::write(&state, "offline").unwrap();
        }
    }
    router::refresh();
    let block = filled(Class::JoinBuild, 8 * MIB);
    assert_eq!(share_on_node_1(&router::audit_now(), Class::JoinBuild), 0.0);
    drop(block);
    let events = router::events();
    let event = &events[before];
    assert_eq!(
        (event.why.as_str(), event.to.as_deref()),
        ("node offline", Some("near"))
    );
}
