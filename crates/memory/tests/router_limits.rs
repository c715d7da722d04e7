//! The router in programs with little address space, with locked memory, and with threads that
//! allocate while places change.
//!
//! Such limits apply to a whole process, so each test runs this program again as a child.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use tierloom_memory::router::{
    self, Class, ClassScope, INNER_PLACE, OperatorId, Overflow, PlaceMemory, PlaceOptions,
    RouterError, RouterOptions, TierAllocator,
};
use tierloom_memory::{MIB, Placement};
use tierloom_topology::NodeId;

#[global_allocator]
static ALLOCATOR: TierAllocator<std::alloc::System> = TierAllocator::new(std::alloc::System);

/// Environment variable with the name of the test; set for child processes only.
const CHILD: &str = "TIERLOOM_LIMITS_CHILD";

/// The message of a child that may not lock its memory.
const FORBIDDEN: &str = "this process may not lock its memory";

/// Runs one ignored test of this file in a shell with limits.
fn child(limits: &str, name: &str) -> Output {
    let script =
        format!("{limits} exec \"$0\" --ignored --exact {name} --nocapture --test-threads 1");
    let own = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &script])
        .arg(own)
        .env(CHILD, name)
        .output()
        .unwrap()
}

/// Runs a child whose test must pass; returns its output.
fn passes(limits: &str, name: &str) -> String {
    let ended = child(limits, name);
    let output = [ended.stdout, ended.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    assert!(ended.status.success(), "{output}");
    assert!(output.contains("1 passed; 0 failed"), "{output}");
    output.into_owned()
}

fn scope(class: Class) -> router::ScopeGuard {
    router::enter(ClassScope {
        class,
        operator: OperatorId::NONE,
    })
}

/// Blocks of `bytes`, each filled with a nonzero byte that depends on its number.
fn filled(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| vec![n as u8 | 1; bytes]).collect()
}

fn keep_contents(blocks: &[Vec<u8>]) -> bool {
    let whole = |(n, block): (usize, &Vec<u8>)| block.iter().all(|byte| *byte == n as u8 | 1);
    blocks.iter().enumerate().all(whole)
}

#[test]
fn with_little_address_space_blocks_come_from_the_allocator_inside() {
    passes("ulimit -v 12000000;", "little_address_space");
}

#[test]
#[ignore = "its parent limits its address space"]
fn little_address_space() {
    assert!(std::env::var_os(CHILD).is_some(), "run its parent");
    router::configure(&RouterOptions::default()).unwrap();
    let _scope = scope(Class::SortRun);
    let mut blocks = filled(100, MIB);
    // A routed block grows and finds no address space.
    blocks[0].resize(3 * MIB, 1);
    assert!(keep_contents(&blocks));
    let events = router::events();
    let inside = events.iter().find(|e| e.to.as_deref() == Some(INNER_PLACE));
    assert_eq!(inside.unwrap().why, "reserved addresses used up");
    drop(blocks);
    let left: u64 = router::place_usage().iter().map(|p| p.current_bytes).sum();
    assert_eq!(left, 0);
}

#[test]
fn without_addresses_for_the_router_there_is_an_error_and_memory_as_before() {
    passes("ulimit -v 3000000;", "hardly_any_address_space");
}

#[test]
#[ignore = "its parent limits its address space"]
fn hardly_any_address_space() {
    assert!(std::env::var_os(CHILD).is_some(), "run its parent");
    let error = router::configure(&RouterOptions::default()).unwrap_err();
    assert!(matches!(error, RouterError::Reserve { .. }), "{error}");
    assert!(error.to_string().contains("ulimit -v"), "{error}");
    let _scope = scope(Class::SortRun);
    assert!(keep_contents(&filled(50, MIB)));
}

#[test]
fn a_program_that_locks_its_memory_locks_what_it_uses() {
    if passes("", "locked_memory").contains(FORBIDDEN) {
        tierloom_testing::checked_nothing(format!("{FORBIDDEN} (`ulimit -l unlimited`)"));
    }
}

/// Resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
#[ignore = "its parent gives it a process of its own"]
fn locked_memory() {
    const GIB: u64 = 1 << 30;
    assert!(std::env::var_os(CHILD).is_some(), "run its parent");
    // SAFETY: locking changes no byte.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        return println!("{FORBIDDEN}");
    }
    let options = RouterOptions {
        cache_bytes: Some(0),
        ..RouterOptions::default()
    };
    router::configure(&options).unwrap();
    assert!(resident_bytes() < GIB, "{}", resident_bytes());
    let _scope = scope(Class::JoinBuild);
    let blocks = filled(64, MIB);
    // Now the blocks are locked too, and so is the router's book-keeping for terabytes, but not the
    // terabytes themselves.
    // SAFETY: as above.
    assert_eq!(unsafe { libc::mlockall(libc::MCL_CURRENT) }, 0);
    assert!(resident_bytes() < 3 * GIB, "{}", resident_bytes());
    let full = resident_bytes();
    assert!(keep_contents(&blocks));
    drop(blocks);
    assert!(
        resident_bytes() < full - 60 * MIB as u64,
        "locked pages stay"
    );
    let zeroed: Vec<Vec<u8>> = (0..64).map(|_| vec![0; MIB]).collect();
    assert!(zeroed.iter().flatten().all(|byte| *byte == 0));
}

/// Pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Allocates, grows, shrinks and frees blocks, each filled with its own number.
fn use_memory(seed: u64, rounds: usize) {
    let mut random = Random(seed | 1);
    let mut blocks: Vec<(Vec<u8>, u8)> = Vec::new();
    for round in 0..rounds {
        let _scope = scope(Class::ALL[random.below(2) as usize]);
        let bytes = (64 << 10) + random.below(3 * MIB as u64) as usize;
        match random.below(3) {
            0 if blocks.len() < 12 => {
                let fill = round as u8;
                blocks.push((vec![fill; bytes], fill));
            }
            1 if !blocks.is_empty() => {
                let at = random.below(blocks.len() as u64) as usize;
                let (block, fill) = &mut blocks[at];
                block.resize(bytes, *fill);
                block.shrink_to_fit();
            }
            _ if !blocks.is_empty() => {
                let at = random.below(blocks.len() as u64) as usize;
                let (block, fill) = blocks.swap_remove(at);
                assert!(block.iter().all(|byte| *byte == fill), "contents were lost");
                assert!(vec![0_u8; bytes].iter().all(|byte| *byte == 0));
            }
            _ => {}
        }
    }
}

#[test]
fn threads_allocate_while_places_change_and_everything_is_counted() {
    let seed = tierloom_testing::seed();
    let configure = |bound: bool| {
        let placement = match bound {
            true => Placement::bind(NodeId(0)),
            false => Placement::kernel_default(),
        };
        let place = PlaceOptions {
            name: "first".into(),
            memory: PlaceMemory::Nodes(placement),
            limit_bytes: 24 * MIB as u64,
        };
        let places = Class::ALL[..2]
            .iter()
            .map(|class| (*class, vec![place.clone()]));
        let options = RouterOptions {
            places: places.collect(),
            overflow: Overflow::Serve,
            cache_bytes: Some(4 * MIB as u64),
        };
        router::configure(&options).unwrap();
    };
    configure(true);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let users: Vec<_> = (0..3)
            .map(|user| threads.spawn(move || use_memory(seed.wrapping_add(user * 77), 1500)))
            .collect();
        let done = &done;
        threads.spawn(move || {
            let mut bound = false;
            while !done.load(Ordering::Relaxed) {
                configure(bound);
                router::refresh();
                router::trim();
                bound = !bound;
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        let ended: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|user| user.unwrap());
    });
    router::trim();
    for usage in router::place_usage() {
        assert_eq!((usage.current_bytes, usage.held_bytes), (0, 0), "{usage:?}");
    }
}
