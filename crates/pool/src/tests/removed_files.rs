//! Members that are removed from pools on real files.

use std::fs;
use std::path::{Path, PathBuf};

use super::seed::rng;
use super::shrink::{MIB, create, data, seal};
use crate::{CreateOptions, OpenOptions, Pool, PoolError};

fn add(pool: &Pool, path: &Path, mib: u64) {
    let options = CreateOptions {
        file_bytes: mib * MIB,
        ..CreateOptions::default()
    };
    pool.add_member(path, &options).unwrap();
}

/// Whether an opening takes the file for the first member of a pool, or for any.
fn is_a_member(path: &Path) -> bool {
    !matches!(Pool::inspect(path), Err(PoolError::NotAPool { .. }))
}

fn numbers(pool: &Pool) -> Vec<u32> {
    let members = pool.status().members.into_iter();
    members.map(|member| member.index).collect()
}

#[test]
fn members_come_and_go_and_tables_stay_whole_or_nothing_changes() {
    let mut rng = rng("members come and go");
    let (mut removed, mut refused, mut moved) = (0, 0, 0);
    for round in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let path = at("a.pool");
        let mut pool = create(&path, 40);
        let mut members: Vec<(u32, PathBuf)> = Vec::new();
        let mut tables: Vec<(String, Vec<u8>)> = Vec::new();
        for step in 0..12_u64 {
            if members.len() < 3 && rng.bool() {
                let file = at(&format!("m{step}"));
                add(&pool, &file, rng.u64(4..30));
                let index = numbers(&pool)
                    .into_iter()
                    .find(|index| *index > 0 && members.iter().all(|(known, _)| known != index));
                members.push((index.unwrap(), file));
            }
            let bytes = data(round * 100 + step, rng.usize(1..12 << 20));
            match seal(&pool, &format!("t{step}"), &bytes) {
                Ok(()) => tables.push((format!("t{step}"), bytes)),
                Err(error) => assert!(matches!(error, PoolError::Full { .. }), "{error}"),
            }
            if rng.u8(..3) == 0 && !tables.is_empty() {
                let (name, _) = tables.swap_remove(rng.usize(..tables.len()));
                pool.drop_table(&name).unwrap();
            }
            if !members.is_empty() && rng.bool() {
                let which = rng.usize(..members.len());
                let (index, file) = members[which].clone();
                let before = (pool.space(), numbers(&pool));
                let plan = pool.remove_plan(index);
                match pool.remove_member(index) {
                    Ok(removal) => {
                        removed += 1;
                        let plan = plan.unwrap();
                        let steps: Vec<(String, u64)> = removal
                            .steps
                            .iter()
                            .filter_map(|step| Some((step.table.clone()?, step.bytes)))
                            .collect();
                        assert_eq!(steps, plan.moves);
                        moved += steps.len();
                        let times = removal.steps.windows(2);
                        assert!({ times }.all(|pair| pair[0].at_ms <= pair[1].at_ms));
                        assert_eq!(removal.not_cleared, None);
                        assert_eq!(removal.path, fs::canonicalize(&file).unwrap());
                        let space = pool.space();
                        let less = before.0.capacity_bytes - space.capacity_bytes;
                        assert_eq!((removal.index, removal.bytes), (index, less));
                        assert_eq!(space.used_bytes, before.0.used_bytes);
                        // It is none any more, and its memory is the system's.
                        assert!(!is_a_member(&file));
                        assert_eq!(fs::metadata(&file).unwrap().len(), 0);
                        assert!(!numbers(&pool).contains(&index));
                        members.swap_remove(which);
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(matches!(error, PoolError::Full { .. }), "{error}");
                        assert_eq!(plan.unwrap_err().to_string(), error.to_string());
                        assert_eq!((pool.space(), numbers(&pool)), before);
                    }
                }
            }
            if rng.bool() {
                drop(pool);
                assert_eq!(Pool::inspect(&path).unwrap().problems, [""; 0]);
                pool = OpenOptions::default().open(&path).unwrap();
            }
            for (name, bytes) in &tables {
                let table = pool.attach(name).unwrap();
                table.verify_all().unwrap();
                assert!(table.bytes() == bytes, "table {name} has changed");
            }
        }
    }
    println!("{removed} removed with {moved} moved tables, {refused} refused");
    assert!(removed > 5 && refused > 0 && moved > 0);
}

#[test]
fn what_cannot_be_removed_is_named_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (path, further) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    let pool = create(&path, 16);
    add(&pool, &further, 24);
    assert!(matches!(pool.remove_member(0), Err(PoolError::FirstMember)));
    let unknown = pool.remove_member(2).unwrap_err();
    assert!(unknown.to_string().contains("members 0, 1"), "{unknown}");
    // More than the first member has room for.
    seal(&pool, "t", &data(1, 17 << 20)).unwrap();
    assert!(matches!(pool.remove_plan(1), Err(PoolError::Full { .. })));
    pool.grow_member(0, 60 * MIB).unwrap();
    let reader = pool.attach("t").unwrap();
    let refused = pool.remove_member(1).unwrap_err();
    assert!(
        refused.to_string().contains("`t`, sealed, being read"),
        "{refused}"
    );
    assert!(is_a_member(&further));
    drop(reader);
    assert_eq!(pool.remove_member(1).unwrap().steps.len(), 3);
    let gone = pool.remove_member(1).unwrap_err();
    assert!(gone.to_string().contains("only member 0"), "{gone}");
    // Neither is there anything that could grow or shrink.
    for changed in [pool.grow_member(1, MIB), pool.shrink_member(1, MIB)] {
        assert!(matches!(changed, Err(PoolError::UnknownMember { .. })));
    }
    assert_eq!(pool.attach("t").unwrap().bytes(), data(1, 17 << 20));
}

#[test]
fn a_number_is_given_again_and_a_removed_member_is_not_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pool = create(&at("a.pool"), 24);
    add(&pool, &at("b"), 24);
    add(&pool, &at("c"), 24);
    pool.remove_member(1).unwrap();
    fs::remove_file(at("b")).unwrap();
    drop(pool);
    let pool = OpenOptions::default().open(&at("a.pool")).unwrap();
    assert_eq!(numbers(&pool), [0, 2]);
    add(&pool, &at("d"), 12);
    assert_eq!(numbers(&pool), [0, 1, 2]);
    // The empty file of before can be a member again, too.
    pool.remove_member(2).unwrap();
    add(&pool, &at("c"), 16);
    drop(pool);
    let pool = OpenOptions::default().open(&at("a.pool")).unwrap();
    let members = pool.status().members;
    let names: Vec<_> = members
        .iter()
        .map(|m| m.path.file_name().unwrap())
        .collect();
    assert_eq!(names, ["a.pool", "d", "c"]);
}

#[test]
fn a_member_that_a_crash_left_after_it_was_removed_is_cleared_by_the_next_manager() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (path, further) = (at("a.pool"), at("b"));
    let pool = create(&path, 40);
    add(&pool, &further, 24);
    seal(&pool, "t", &data(1, 9 << 20)).unwrap();
    fs::copy(&further, at("kept")).unwrap();
    pool.remove_member(1).unwrap();
    drop(pool);
    // As if the process had ended between the commit and the clearing.
    fs::rename(at("kept"), &further).unwrap();
    assert!(is_a_member(&further));
    assert_eq!(Pool::inspect(&path).unwrap().problems, [""; 0]);
    let pool = OpenOptions::default().open(&path).unwrap();
    assert!(!is_a_member(&further));
    assert_eq!(pool.attach("t").unwrap().bytes(), data(1, 9 << 20));
    drop(pool);
    // Another pool's file at that path is left alone.
    fs::remove_file(&further).unwrap();
    drop(create(&further, 12));
    drop(OpenOptions::default().open(&path).unwrap());
    assert!(is_a_member(&further));
}
