//! A process that is killed (SIGKILL) at random moments of its work on a pool in a file.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tierloom_pool::{
    CreateOptions, HostState, OpenOptions, Pool, PoolError, RegionState, ScratchSpec, Spread,
    TableSpec,
};

const PATH: &str = "TIERLOOM_POOL_KILLED";
const FIRST: &str = "TIERLOOM_POOL_FIRST";
const TABLES: u64 = 3;
/// Number of kills; more on demand.
const KILLS: &str = "TIERLOOM_POOL_KILLS";
const FILE_BYTES: u64 = 48 << 20;
/// Kills come at most so long after a process has begun, and later where it gets nowhere.
const LEAST_DELAY_US: u64 = 20_000;
const SECOND_BYTES: u64 = 16 << 20;
/// The pool's own data and one extent more than there are tables.
const LEAST_BYTES: u64 = 12 << 20;

fn data(number: u64) -> Vec<u8> {
    let bytes = 10_000 + number as usize % 7 * 1000;
    (0..bytes).map(|at| (number as usize + at) as u8).collect()
}

/// Number of the second member, if there is one.
fn second(pool: &Pool) -> Option<u32> {
    let members = pool.status().members.into_iter();
    members.map(|member| member.index).find(|index| *index > 0)
}

/// Seals tables 0, 1, 2, 0, 1, 2, ... with numbered contents, with a reader and scratch memory
/// beside. Now and then the pool becomes smaller, which moves tables, and larger again; or a second
/// member comes, gets tables, and is removed again.
fn work(pool: &Pool, number: u64) -> Result<(), PoolError> {
    if number % 4 == 3 {
        pool.shrink_member(0, LEAST_BYTES)?;
        pool.grow_member(0, FILE_BYTES)?;
    }
    match (number % 5, second(pool)) {
        (1, None) => {
            let options = CreateOptions {
                file_bytes: SECOND_BYTES,
                // What a kill left there.
                overwrite: true,
                ..CreateOptions::default()
            };
            pool.add_member(&pool.path().with_extension("second"), &options)?;
        }
        (4, Some(index)) => drop(pool.remove_member(index)?),
        _ => {}
    }
    let data = data(number);
    let mut draft = pool.reserve(&TableSpec {
        name: format!("t{}", number % TABLES),
        data_bytes: data.len() as u64,
        content_bytes: 100,
        spread: second(pool).map_or(Spread::Pack, Spread::Member),
    })?;
    draft.bytes_mut().copy_from_slice(&data);
    let mut scratch = pool.scratch(&ScratchSpec {
        name: "sort".to_owned(),
        bytes: 1,
        most_bytes: 8 << 20,
        spread: Spread::Pack,
    })?;
    scratch.grow(1)?;
    scratch.bytes_mut().fill(number as u8);
    let reader = pool.attach("t0").ok();
    draft.seal(&json!({ "number": number }), b"attachment")?;
    reader.map_or(Ok(()), |reader| reader.verify_all())
}

/// Not a test of its own: what the other one starts and kills.
#[test]
fn child() {
    let (Ok(path), Ok(first)) = (std::env::var(PATH), std::env::var(FIRST)) else {
        return;
    };
    let first: u64 = first.parse().expect("a number");
    println!("\nstarted");
    let pool = OpenOptions::default()
        .open(Path::new(&path))
        .expect("opened");
    for number in first.. {
        work(&pool, number).expect("done");
        println!("\nacknowledged {number}");
    }
}

/// Starts the child, kills it so long after it has begun to open the pool, and returns the last
/// number that it acknowledged.
fn killed_after(path: &Path, first: u64, delay: Duration) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "child", "--nocapture"]);
    child.env(PATH, path).env(FIRST, first.to_string());
    let lines = tierloom_testing::killed_after(&mut child, delay);
    let number = |line: &String| line.strip_prefix("acknowledged ")?.parse().ok();
    lines.iter().rev().find_map(number)
}

#[test]
fn after_a_kill_at_any_moment_acknowledged_tables_are_there_and_nothing_is_leaked() {
    if std::env::var_os(PATH).is_some() {
        return;
    }
    let seed = fastrand::u64(..);
    println!("kills: seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("killed.pool");
    let create = CreateOptions {
        file_bytes: FILE_BYTES,
        ..CreateOptions::default()
    };
    drop(Pool::create(&path, &[], &create, &OpenOptions::default()).expect("made"));
    let (mut next, mut pending, mut in_work, mut crashed) = (0, 0, 0, 0);
    let mut two_members = 0;
    let kills = std::env::var(KILLS).ok().and_then(|n| n.parse().ok());
    let kills: usize = kills.unwrap_or(300);
    let mut most_us = LEAST_DELAY_US;
    for _ in 0..kills {
        let delay = Duration::from_micros(rng.u64(0..most_us));
        let last = killed_after(&path, next, delay);
        let acknowledged = last.map_or(next, |last| last + 1);
        let status = Pool::inspect(&path).expect("inspected");
        assert_eq!(status.problems, [""; 0]);
        let unsealed = |r: &&tierloom_pool::RegionStatus| r.state != RegionState::Sealed;
        in_work += usize::from(status.regions.iter().any(|r| unsealed(&r)));
        let second = |m: &&tierloom_pool::MemberStatus| m.index > 0;
        two_members += usize::from(status.members.iter().any(|m| second(&m)));
        crashed += usize::from(status.hosts.iter().any(|h| h.state == HostState::Up));
        let pool = OpenOptions::default().open(&path).expect("opened");
        let mut found = Vec::new();
        for table in 0..TABLES.min(acknowledged + 1) {
            let attached = match pool.attach(&format!("t{table}")) {
                // The first of its name may be pending.
                Err(PoolError::UnknownTable { .. }) if acknowledged <= table => continue,
                attached => attached.expect("attached"),
            };
            attached.verify_all().expect("whole");
            let number = attached.content()["number"].as_u64().expect("a number");
            assert_eq!(attached.bytes(), data(number));
            assert_eq!(number % TABLES, table);
            found.push(number);
        }
        let newest = found.iter().max().map_or(0, |newest| newest + 1);
        assert!(
            newest == acknowledged || newest == acknowledged + 1,
            "{newest}, {acknowledged}"
        );
        let all = newest.saturating_sub(TABLES)..newest;
        assert!(
            all.clone().all(|number| found.contains(&number)),
            "{found:?}, {newest}"
        );
        pending += usize::from(newest > acknowledged);
        let status = pool.status();
        assert_eq!(status.regions.len() as u64, newest.min(TABLES));
        let space = status.space;
        let used: u64 = status.regions.iter().map(|region| region.bytes).sum();
        assert_eq!((space.used_bytes, space.quarantined_bytes), (used, 0));
        assert_eq!(space.free_bytes + space.used_bytes, space.capacity_bytes);
        // On a busy machine a process needs longer to get anywhere.
        most_us = match newest > next {
            true => (most_us * 9 / 10).max(LEAST_DELAY_US),
            false => (most_us * 5 / 4).min(100 * LEAST_DELAY_US),
        };
        next = newest;
    }
    println!("{kills} kills: {next} tables sealed, {crashed} processes had the pool open,");
    println!("{two_members} had a second member,");
    println!("{in_work} had regions in work, {pending} had sealed without having said so");
    assert!(
        two_members > kills / 10 && two_members < kills - kills / 10,
        "{two_members}"
    );
    assert!(
        crashed > kills / 4 && in_work > kills / 10,
        "{crashed} {in_work}"
    );
}
