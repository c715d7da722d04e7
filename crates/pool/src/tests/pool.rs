//! Pools in files: what they keep, what they refuse, and what errors say.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tierloom_memory::router::PoolMemory;
use tierloom_memory::shared::{Access, SharedRange};

use crate::layout::EXTENT_BYTES;
use crate::{
    Attached, Coherence, CreateOptions, HostState, OpenOptions, Pool, PoolError, RegionState,
    Scratch, ScratchSpec, Spread, TableSpec,
};

const MIB: u64 = 1 << 20;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn create(path: &Path, mib: u64) -> Result<Pool, PoolError> {
    let options = CreateOptions {
        file_bytes: mib * MIB,
        ..CreateOptions::default()
    };
    Pool::create(path, &[], &options, &OpenOptions::default())
}

fn open(path: &Path) -> Result<Pool, PoolError> {
    OpenOptions::default().open(path)
}

fn spec(name: &str, data_bytes: u64) -> TableSpec {
    TableSpec {
        name: name.to_owned(),
        data_bytes,
        content_bytes: 200,
        spread: Spread::Stripe(2 * MIB),
    }
}

fn seal(pool: &Pool, name: &str, data: &[u8]) -> Result<(), PoolError> {
    let mut draft = pool.reserve(&spec(name, data.len() as u64))?;
    draft.bytes_mut().copy_from_slice(data);
    draft.seal(&json!({ "rows": data.len() }), b"schema")
}

fn whole(pool: &Pool, name: &str) -> Attached {
    let table = pool.attach(name).unwrap();
    table.verify_all().unwrap();
    table
}

fn scratch(pool: &Pool, mib: u64, most_mib: u64) -> Result<Scratch, PoolError> {
    pool.scratch(&ScratchSpec {
        name: "sort".to_owned(),
        bytes: mib * MIB,
        most_bytes: most_mib * MIB,
        spread: Spread::Pack,
    })
}

/// Free plus used plus quarantined is the capacity; returns free and used.
fn space(pool: &Pool) -> (u64, u64) {
    let space = pool.space();
    let parts = space.free_bytes + space.used_bytes + space.quarantined_bytes;
    assert_eq!(parts, space.capacity_bytes);
    (space.free_bytes, space.used_bytes)
}

/// Changes bytes of a file behind the pool's back.
fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, offset).unwrap();
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7) as u8 ^ seed).collect()
}

#[test]
fn tables_are_there_after_a_restart_and_replaced_ones_stay_for_their_readers() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 64).unwrap();
    let (first, second) = (pattern(5_000_000, 1), pattern(100, 2));
    seal(&pool, "orders", &first).unwrap();
    drop(pool);
    let pool = open(&path).unwrap();
    let old = whole(&pool, "orders");
    assert_eq!(old.bytes(), first);
    assert_eq!(
        (old.content(), old.attachment()),
        (&json!({ "rows": 5_000_000 }), &b"schema"[..])
    );
    let used = space(&pool).1;
    seal(&pool, "orders", &second).unwrap();
    let new = whole(&pool, "orders");
    assert_eq!(
        (new.bytes(), new.version(), old.version()),
        (&second[..], 2, 1)
    );
    assert_eq!(old.bytes(), first);
    old.verify_all().unwrap();
    drop(old);
    assert!(space(&pool).1 < used);
    pool.drop_table("orders").unwrap();
    assert_eq!(new.bytes(), second);
    assert!(matches!(
        pool.attach("orders"),
        Err(PoolError::UnknownTable { .. })
    ));
    assert_eq!(pool.status().regions[0].state, RegionState::Retired);
    drop(new);
    assert_eq!((space(&pool).1, pool.status().regions.len()), (0, 0));
    drop(pool);
    let status = Pool::inspect(&path).unwrap();
    assert_eq!(
        (status.hosts[0].state, status.problems),
        (HostState::Left, Vec::new())
    );
}

#[test]
fn drafts_and_scratch_that_are_dropped_leave_nothing_and_a_full_pool_says_so() {
    let folder = folder();
    let pool = create(&folder.path().join("a.pool"), 16).unwrap();
    let (free, _) = space(&pool);
    let mut memory = scratch(&pool, 2, 8).unwrap();
    memory.bytes_mut().fill(7);
    memory.grow(3 * MIB).unwrap();
    assert_eq!(memory.size_bytes(), 6 * MIB);
    assert!(memory.bytes()[..2 << 20].iter().all(|byte| *byte == 7));
    let draft = pool.reserve(&spec("t", 100)).unwrap();
    let (left, used) = space(&pool);
    assert_eq!((left, used), (free - 8 * MIB, 8 * MIB));
    let full = pool.reserve(&spec("t", left)).unwrap_err();
    assert!(
        full.to_string().contains("grow the pool or drop a region"),
        "{full}"
    );
    let full = memory.grow(left + 1).unwrap_err();
    assert!(matches!(full, PoolError::Full { .. }));
    // More addresses than were reserved.
    assert!(left >= 4 * MIB);
    assert!(memory.grow(4 * MIB).is_err());
    assert_eq!(space(&pool), (left, used));
    drop(draft);
    drop(memory);
    assert_eq!(space(&pool), (free, 0));
    assert!(pool.status().regions.is_empty());
    for name in ["", "a\nb", &"x".repeat(256)] {
        let refused = pool.reserve(&spec(name, 1)).unwrap_err();
        assert!(matches!(refused, PoolError::BadName { .. }), "{refused}");
    }
    let mut draft = pool.reserve(&spec("t", 1)).unwrap();
    draft.bytes_mut()[0] = 1;
    let large = draft.seal(&json!("x".repeat(100_000)), b"").unwrap_err();
    assert!(
        matches!(large, PoolError::ManifestTooLarge { .. }),
        "{large}"
    );
    assert_eq!(space(&pool), (free, 0));
}

#[test]
fn what_a_dead_process_had_is_free_for_the_next_one() {
    let folder = folder();
    let (path, copy) = (
        folder.path().join("a.pool"),
        folder.path().join("copy.pool"),
    );
    let pool = create(&path, 32).unwrap();
    seal(&pool, "t", b"sealed").unwrap();
    let _reader = whole(&pool, "t");
    let _scratch = scratch(&pool, 4, 4).unwrap();
    let _draft = pool.reserve(&spec("u", 100)).unwrap();
    // The file as a crash would leave it.
    fs::copy(&path, &copy).unwrap();
    let pool = open(&copy).unwrap();
    let status = pool.status();
    assert_eq!((status.regions.len(), status.regions[0].readers), (1, 0));
    assert_eq!(space(&pool).1, EXTENT_BYTES);
    assert_eq!(whole(&pool, "t").bytes(), b"sealed");
}

#[test]
fn a_changed_byte_of_a_table_is_found_at_first_use_and_noted() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 32).unwrap();
    seal(&pool, "t", &pattern(5_000_000, 3)).unwrap();
    seal(&pool, "u", b"short").unwrap();
    drop(pool);
    // Extents start behind 4 MiB of metadata; the data behind 8 KiB of manifest.
    let data = 4 * MIB + 8192;
    overwrite(&path, data + 3_000_000, b"?");
    let pool = open(&path).unwrap();
    let table = pool.attach("t").unwrap();
    table.verify(0..2 * MIB).unwrap();
    let damaged = table.verify(0..2 * MIB + 1).unwrap_err();
    let PoolError::DataDamaged { from, to, .. } = damaged else {
        panic!("{damaged}");
    };
    assert_eq!((from, to), (2 * MIB, 4 * MIB));
    table.verify(4 * MIB..5_000_000).unwrap();
    assert!(matches!(
        table.verify(0..5_000_001),
        Err(PoolError::OutOfRange { .. })
    ));
    table.verify(7..7).unwrap();
    assert!(pool.status().regions[0].damaged);
    drop((table, pool));
    overwrite(&path, 4 * MIB + 70, b"?");
    let pool = open(&path).unwrap();
    let refused = pool.attach("t").unwrap_err();
    assert!(refused.to_string().contains("load it again"), "{refused}");
    // The other one is not affected, and the pin of the failed attach is gone.
    whole(&pool, "u");
    assert!(
        pool.status()
            .regions
            .iter()
            .all(|region| region.readers == 0)
    );
    pool.drop_table("t").unwrap();
}

#[test]
fn a_pool_has_one_manager_and_shows_itself_to_everybody_else() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 16).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(
        refused.to_string().contains("open in another process"),
        "{refused}"
    );
    seal(&pool, "t", b"x").unwrap();
    let status = Pool::inspect(&path).unwrap();
    assert_eq!(status, pool.status());
    assert!(matches!(create(&path, 16), Err(PoolError::Managed { .. })));
    let clone = pool.clone();
    drop(pool);
    assert!(open(&path).is_err());
    drop(clone);
    open(&path).unwrap();
}

#[test]
fn members_grow_and_are_added_while_a_table_is_read() {
    let folder = folder();
    let (path, further) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    let pool = create(&path, 8).unwrap();
    seal(&pool, "t", &pattern(1000, 1)).unwrap();
    let table = whole(&pool, "t");
    let before = pool.space().capacity_bytes;
    pool.grow_member(0, 16 * MIB).unwrap();
    assert_eq!(pool.space().capacity_bytes, before + 8 * MIB);
    let options = CreateOptions {
        file_bytes: 8 * MIB,
        ..CreateOptions::default()
    };
    pool.add_member(&further, &options).unwrap();
    assert_eq!(pool.space().capacity_bytes, before + 14 * MIB);
    // Over both members.
    seal(&pool, "wide", &pattern(12_000_000, 5)).unwrap();
    let used = space(&pool).1;
    assert!(matches!(
        pool.grow_member(2, 1),
        Err(PoolError::UnknownMember { .. })
    ));
    let large = pool.grow_member(0, 1 << 50).unwrap_err();
    assert!(large.to_string().contains("128 GiB"), "{large}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 16 * MIB);
    let small = CreateOptions {
        file_bytes: MIB,
        ..CreateOptions::default()
    };
    let refused = pool
        .add_member(&folder.path().join("c"), &small)
        .unwrap_err();
    assert!(matches!(refused, PoolError::TooSmall { .. }), "{refused}");
    assert!(!folder.path().join("c").exists());
    assert_eq!(table.bytes(), pattern(1000, 1));
    drop((table, pool));
    // Both moved elsewhere together.
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let moved = elsewhere.join("a.pool");
    fs::rename(&path, &moved).unwrap();
    fs::rename(&further, elsewhere.join("b.pool")).unwrap();
    let pool = open(&moved).unwrap();
    assert_eq!(whole(&pool, "wide").bytes(), pattern(12_000_000, 5));
    assert_eq!(space(&pool).1, used);
}

/// A pool of two members with a table over both.
fn of_two(folder: &TempDir, name: &str) -> [PathBuf; 2] {
    let paths = ["0", "1"].map(|n| folder.path().join(format!("{name}{n}.pool")));
    let options = CreateOptions {
        file_bytes: 12 * MIB,
        ..CreateOptions::default()
    };
    let open = OpenOptions::default();
    let pool = Pool::create(&paths[0], &[&paths[1]], &options, &open).unwrap();
    seal(&pool, "t", &pattern(9_000_000, 1)).unwrap();
    paths
}

#[test]
fn swapped_missing_short_and_foreign_members_are_one_clear_error_each() {
    let folder = folder();
    let [first, second] = of_two(&folder, "a");
    let [_, other] = of_two(&folder, "b");
    let says = |refused: PoolError, parts: &[&str]| {
        let text = refused.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    says(
        open(&second).unwrap_err(),
        &["a1.pool", "member 1", "first member"],
    );
    let aside = folder.path().join("aside");
    fs::rename(&second, &aside).unwrap();
    says(
        open(&first).unwrap_err(),
        &["member 1", "a1.pool", "was not found"],
    );
    // Found where it is said to be.
    let elsewhere = OpenOptions {
        members: vec![aside.clone()],
        ..OpenOptions::default()
    };
    drop(elsewhere.open(&first).unwrap());
    drop(open(&first).unwrap());
    fs::rename(&aside, folder.path().join("gone")).unwrap();
    fs::copy(&other, &aside).unwrap();
    says(
        open(&first).unwrap_err(),
        &["aside", "of pool", "was expected"],
    );
    fs::copy(folder.path().join("gone"), &aside).unwrap();
    let file = fs::File::options().write(true).open(&aside).unwrap();
    file.set_len(6 * MIB).unwrap();
    says(open(&first).unwrap_err(), &["aside", "6 MiB", "truncated"]);
    let problems = Pool::inspect(&first).unwrap().problems;
    assert!(
        problems.len() == 1 && problems[0].contains("truncated"),
        "{problems:?}"
    );
    fs::copy(folder.path().join("gone"), &aside).unwrap();
    let file = fs::File::options().write(true).open(&first).unwrap();
    for mib in [10, 3] {
        file.set_len(mib * MIB).unwrap();
        says(open(&first).unwrap_err(), &["a0.pool", "truncated"]);
    }
}

#[test]
fn what_is_no_pool_is_named() {
    let folder = folder();
    let path = folder.path().join("x");
    let refusal = |path: &Path| open(path).unwrap_err().to_string();
    assert!(refusal(&path).contains("check the path"));
    assert!(refusal(folder.path()).contains("a directory"));
    assert!(refusal(Path::new("/dev/null")).contains("DAX"));
    fs::write(&path, "").unwrap();
    assert!(refusal(&path).contains("holds nothing"));
    fs::write(&path, "PAR1 and more").unwrap();
    assert!(refusal(&path).contains("a Parquet file"));
    fs::write(&path, vec![0; 100_000]).unwrap();
    assert!(refusal(&path).contains("unfinished pool"));
    fs::write(&path, "PAR1".repeat(2000)).unwrap();
    assert!(refusal(&path).contains("a Parquet file"));
    let occupied = create(&path, 16).unwrap_err().to_string();
    assert!(
        occupied.contains("already holds a Parquet file"),
        "{occupied}"
    );
    assert_eq!(fs::read(&path).unwrap().len(), 8000);
    let options = CreateOptions {
        file_bytes: 16 * MIB,
        overwrite: true,
        coherence: None,
    };
    drop(Pool::create(&path, &[], &options, &OpenOptions::default()).unwrap());
    // Both copies of the superblock.
    overwrite(&path, 100, b"?");
    drop(open(&path).unwrap());
    overwrite(&path, 4196, b"?");
    assert!(refusal(&path).contains("both copies"));
    overwrite(&path, 0, &[0; 8192]);
    overwrite(&path, 0, b"TLPOOL\x09\0");
    assert!(refusal(&path).contains("damaged"));
}

#[test]
fn a_pool_that_cannot_be_made_leaves_no_file() {
    let folder = folder();
    let path = folder.path().join("small");
    let small = create(&path, 4).unwrap_err();
    assert!(small.to_string().contains("the least is 6 MiB"), "{small}");
    assert!(!path.exists());
    let missing = create(&folder.path().join("no/such"), 16).unwrap_err();
    assert!(
        matches!(
            missing,
            PoolError::Io {
                action: "create",
                ..
            }
        ),
        "{missing}"
    );
    let options = CreateOptions {
        file_bytes: 16 * MIB,
        ..CreateOptions::default()
    };
    let directory = folder.path();
    let refused = Pool::create(&path, &[directory], &options, &OpenOptions::default());
    assert!(matches!(refused, Err(PoolError::NotAFile { .. })));
    assert!(!path.exists());
    // Far more than the file system has: an error now and no SIGBUS later.
    let huge = CreateOptions {
        file_bytes: 1 << 62,
        ..CreateOptions::default()
    };
    assert!(Pool::create(&path, &[], &huge, &OpenOptions::default()).is_err());
    assert!(!path.exists());
}

#[test]
fn damaged_metadata_are_refused_shown_and_can_be_skipped() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 16).unwrap();
    seal(&pool, "t", b"x").unwrap();
    let generation = pool.status().generation;
    drop(pool);
    // A header that is in use.
    overwrite(&path, MIB + 64 + 16, b"\xee");
    let refused = open(&path).unwrap_err();
    assert!(refused.to_string().contains("--skip-damaged"), "{refused}");
    let status = Pool::inspect(&path).unwrap();
    assert_eq!(status.problems.len(), 1, "{:?}", status.problems);
    assert!(generation.abs_diff(status.generation) <= 1);
    let skip = OpenOptions {
        skip_damaged: true,
        ..OpenOptions::default()
    };
    drop(skip.open(&path).unwrap());
    let pool = open(&path).unwrap();
    whole(&pool, "t");
    // All of them: the memory was cleared.
    drop(pool);
    overwrite(&path, MIB, &[0; 32 << 10]);
    assert!(matches!(open(&path), Err(PoolError::NoState { .. })));
}

/// Options of a host that does not share its caches with others.
fn host(name: &str, take_over: bool) -> OpenOptions {
    OpenOptions {
        host: Some(name.to_owned()),
        take_over,
        lease: Duration::from_millis(100),
        ..OpenOptions::default()
    }
}

#[test]
fn a_host_takes_over_only_if_told_to_and_only_from_a_silent_one() {
    let folder = folder();
    let (path, copy) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    let options = CreateOptions {
        file_bytes: 32 * MIB,
        coherence: Some(Coherence::None),
        overwrite: false,
    };
    let pool = Pool::create(&path, &[], &options, &host("a", false)).unwrap();
    seal(&pool, "t", &pattern(3_000_000, 1)).unwrap();
    let memory = scratch(&pool, 4, 4).unwrap();
    // The device as another host sees it, without the locks of this one. Its first member's path is
    // another, but the state is found.
    fs::copy(&path, &copy).unwrap();
    let refused = host("b", false).open(&copy).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("belongs to host a, and this is b"),
        "{refused}"
    );
    // Host a is silent in the copy.
    let taken = host("b", true).open(&copy).unwrap();
    let status = taken.status();
    assert_eq!(status.space.quarantined_bytes, 4 * MIB);
    assert_eq!(status.hosts[0].state, HostState::Fenced);
    assert_eq!(whole(&taken, "t").bytes(), pattern(3_000_000, 1));
    assert!(space(&taken).0 > 0);
    taken.fence("a", false).unwrap();
    assert_eq!(taken.space().quarantined_bytes, 4 * MIB);
    assert!(matches!(
        taken.fence("b", true),
        Err(PoolError::UnknownHost { .. })
    ));
    taken.fence("a", true).unwrap();
    assert_eq!(taken.space().quarantined_bytes, 0);
    drop(taken);
    drop(memory);
    drop(pool);
    // The original: host a left, so nobody is waited for.
    drop(host("b", true).open(&path).unwrap());
    assert!(host("a", false).open(&path).is_err());
}

#[test]
fn a_host_that_renews_its_lease_is_not_taken_over_from() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let options = CreateOptions {
        file_bytes: 16 * MIB,
        coherence: Some(Coherence::None),
        overwrite: false,
    };
    let pool = Pool::create(&path, &[], &options, &host("a", false)).unwrap();
    // A link is another file for locks only on another host; here the check comes after the lock,
    // so it is asked for by itself.
    let member = crate::member::Member::open(&path, tierloom_memory::shared::Access::Read).unwrap();
    let superblock = member.superblock().unwrap();
    let words = member.words(0, superblock.layout.metadata_bytes()).unwrap();
    let medium = crate::medium::MappedMedium::new(words, true);
    let alive = || {
        let clock = tierloom_memory::SystemClock::new();
        let lease = Duration::from_millis(100);
        crate::lease::is_alive(&medium, superblock.pool, 0, lease, &clock)
    };
    assert!(alive());
    assert!(Pool::inspect(&path).unwrap().hosts[0].renewals.is_some());
    drop(pool);
    assert!(!alive());
    let status = Pool::inspect(&path).unwrap();
    assert_eq!(status.hosts[0].state, HostState::Left);
}

#[test]
fn freed_memory_goes_back_to_the_system() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 64).unwrap();
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).unwrap());
    let before = blocks();
    let mut memory = scratch(&pool, 32, 32).unwrap();
    memory.bytes_mut().fill(1);
    assert!(blocks() >= before + 32 * MIB / 512);
    drop(memory);
    assert!(blocks() < before + MIB / 512, "{} {before}", blocks());
}

#[test]
fn a_reader_beside_a_busy_manager_always_finds_a_whole_state() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 16).unwrap();
    let generations = std::thread::scope(|scope| {
        let manager = scope.spawn(|| (0..1000).for_each(|_| drop(scratch(&pool, 2, 2).unwrap())));
        let mut generations = Vec::new();
        while !manager.is_finished() {
            let status = Pool::inspect(&path).expect("a whole state");
            assert_eq!(status.problems, [""; 0]);
            generations.push(status.generation);
        }
        generations
    });
    assert!(generations.is_sorted(), "{generations:?}");
    let mut different = generations.clone();
    different.dedup();
    println!(
        "{} readings of {} states",
        generations.len(),
        different.len()
    );
    assert!(different.len() > 10);
}

#[test]
fn tables_that_are_sealed_together_appear_in_one_commit_or_leave_nothing() {
    let folder = folder();
    let pool = create(&folder.path().join("a.pool"), 64).unwrap();
    seal(&pool, "orders", &pattern(100, 1)).unwrap();
    let finished = |name: &str, seed| {
        let mut draft = pool.reserve(&spec(name, 100)).unwrap();
        draft.bytes_mut().copy_from_slice(&pattern(100, seed));
        draft.finish(&json!({}), b"").unwrap()
    };
    let used = space(&pool).1;
    // What a caller does that cannot finish the second one.
    let dropped = finished("orders", 2);
    assert!(pool.attach("lineitem").is_err());
    drop(dropped);
    assert_eq!(space(&pool).1, used);
    assert_eq!(whole(&pool, "orders").bytes(), pattern(100, 1));
    let both = vec![finished("orders", 3), finished("lineitem", 4)];
    let before = pool.status().generation;
    pool.seal_together(both).unwrap();
    assert_eq!(pool.status().generation, before + 1);
    assert_eq!(whole(&pool, "orders").bytes(), pattern(100, 3));
    assert_eq!(whole(&pool, "lineitem").bytes(), pattern(100, 4));
    space(&pool);
}

#[test]
fn a_part_of_a_table_is_a_region_that_keeps_its_bytes_when_the_table_is_dropped() {
    let folder = folder();
    let pool = create(&folder.path().join("a.pool"), 64).unwrap();
    let data = pattern(3 << 20, 1);
    seal(&pool, "orders", &data).unwrap();
    let table = Arc::new(pool.attach("orders").unwrap());
    let part = table.region("orders.key", 8192..2 << 20).unwrap();
    assert!(table.region("orders.key", 8192..8192).is_err());
    assert!(table.region("orders.key", 0..100).is_err());
    assert!(table.region("orders.key", 0..1 << 40).is_err());
    drop(table);
    pool.drop_table("orders").unwrap();
    assert_eq!(part.as_slice(), &data[8192..2 << 20]);
    assert_eq!(pool.status().regions[0].state, RegionState::Retired);
    drop(part);
    assert_eq!(pool.status().regions.len(), 0);
}

#[test]
fn damage_is_known_by_all_that_attach_the_table_and_verified_bytes_are_counted() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 64).unwrap();
    seal(&pool, "orders", &pattern(5 << 20, 1)).unwrap();
    let table = pool.attach("orders").unwrap();
    assert!(!table.is_verified(0..1) && !table.is_damaged());
    table.verify(0..1).unwrap();
    assert!(table.is_verified(0..table.chunk_bytes()));
    assert!(!table.is_verified(0..table.chunk_bytes() + 1));
    let whole = fs::read(&path).unwrap();
    let probe = &pattern(5 << 20, 1)[4 << 20..(4 << 20) + 64];
    let at = whole.windows(64).rposition(|w| w == probe).unwrap();
    overwrite(&path, at as u64, &[!probe[0]]);
    assert!(table.verify_all().is_err());
    assert!(table.is_damaged() && table.is_verified(0..1));
    drop(table);
    assert!(pool.attach("orders").unwrap().is_damaged());
}

#[test]
fn memory_lent_to_operators_grows_is_counted_and_comes_back_and_a_busy_pool_is_not_waited_for() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 32).unwrap();
    let (free, _) = space(&pool);
    let lent = pool.operator_scratch(Spread::Pack);
    let range = || SharedRange::reserve(64 << 20, Access::Write).unwrap();
    let (mut first, mut second) = (range(), range());
    lent.grow(4, &mut first, 100).unwrap();
    lent.grow(9, &mut second, 4 << 20).unwrap();
    first.as_mut_slice().fill(1);
    second.as_mut_slice().fill(2);
    lent.grow(4, &mut first, 3 << 20).unwrap();
    let sizes = (first.size_bytes(), second.size_bytes());
    assert_eq!(sizes, (6 << 20, 4 << 20));
    assert_eq!(space(&pool), (free - 10 * MIB, 10 * MIB));
    assert!(first.as_slice()[..2 << 20].iter().all(|byte| *byte == 1));
    // More than there is: what there was stays.
    let full = lent.grow(4, &mut first, free as usize).unwrap_err();
    assert_eq!(full, rustix::io::Errno::NOSPC.raw_os_error());
    assert_eq!((first.size_bytes(), space(&pool).1), (6 << 20, 10 * MIB));
    let scratch = |region: &crate::RegionStatus| region.kind == crate::RegionKind::Scratch;
    assert_eq!(
        pool.status().regions.iter().filter(|r| scratch(r)).count(),
        2
    );
    // Whoever has the lock may wait for the caller.
    let status = pool.inner();
    let busy = lent.grow(4, &mut first, 1).unwrap_err();
    assert_eq!(busy, rustix::io::Errno::BUSY.raw_os_error());
    let first = lent.give_back(4, first).unwrap_err();
    drop(status);
    lent.give_back(4, first).unwrap();
    assert_eq!(space(&pool), (free - 4 * MIB, 4 * MIB));
    assert!(second.as_slice().iter().all(|byte| *byte == 2));
    lent.give_back(9, second).unwrap();
    assert_eq!(space(&pool), (free, 0));
    drop(lent);
    drop(pool);
    let status = Pool::inspect(&path).unwrap();
    assert_eq!(status.hosts[0].state, HostState::Left);
}
