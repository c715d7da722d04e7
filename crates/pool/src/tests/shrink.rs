//! Pools that become smaller: tables stay whole wherever they lay, or nothing changes.

use std::fs;

use serde_json::json;

use super::seed::rng;
use crate::{CreateOptions, OpenOptions, Pool, PoolError, Spread, TableSpec};

pub(super) const MIB: u64 = 1 << 20;

pub(super) fn data(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..bytes).map(|_| rng.u8(..)).collect()
}

pub(super) fn seal(pool: &Pool, name: &str, bytes: &[u8]) -> Result<(), PoolError> {
    let mut draft = pool.reserve(&TableSpec {
        name: name.to_owned(),
        data_bytes: bytes.len() as u64,
        content_bytes: 100,
        spread: Spread::Pack,
    })?;
    draft.bytes_mut().copy_from_slice(bytes);
    draft.seal(&json!({}), b"")
}

pub(super) fn create(path: &std::path::Path, mib: u64) -> Pool {
    let options = CreateOptions {
        file_bytes: mib * MIB,
        ..CreateOptions::default()
    };
    Pool::create(path, &[], &options, &OpenOptions::default()).unwrap()
}

#[test]
fn tables_survive_shrinking_to_any_size_or_nothing_changes() {
    let mut rng = rng("shrinking");
    let (mut smaller, mut refused) = (0, 0);
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let mut pool = create(&path, 48);
        let further = folder.path().join("b.pool");
        let options = CreateOptions {
            file_bytes: 24 * MIB,
            ..CreateOptions::default()
        };
        pool.add_member(&further, &options).unwrap();
        let mut tables = Vec::new();
        for number in 0..12_u64 {
            let bytes = data(number, rng.usize(1..10 << 20));
            let name = format!("t{number}");
            match seal(&pool, &name, &bytes) {
                Ok(()) => tables.push((name, bytes)),
                Err(error) => assert!(matches!(error, PoolError::Full { .. }), "{error}"),
            }
            // Holes between tables.
            if rng.u8(..3) == 0 && !tables.is_empty() {
                let (name, _) = tables.swap_remove(rng.usize(..tables.len()));
                pool.drop_table(&name).unwrap();
            }
        }
        for _ in 0..3 {
            let index = rng.u32(..2);
            let before = (pool.space(), fs::metadata(&path).unwrap().len());
            let bytes = rng.u64(1..40 * MIB);
            let plan = pool.shrink_plan(index, bytes);
            match pool.shrink_member(index, bytes) {
                Ok(()) => {
                    let plan = plan.unwrap();
                    assert!(plan.member_bytes <= bytes);
                    smaller += 1;
                    let space = pool.space();
                    let parts = space.free_bytes + space.used_bytes + space.quarantined_bytes;
                    assert_eq!(parts, space.capacity_bytes);
                    assert_eq!(space.used_bytes, before.0.used_bytes);
                    let file = [&path, &further][index as usize];
                    let now = fs::metadata(file).unwrap().len();
                    assert!(
                        now <= bytes.max(plan.member_bytes) || now < before.1,
                        "{now}"
                    );
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(plan.unwrap_err().to_string(), error.to_string());
                    let known =
                        matches!(error, PoolError::Full { .. } | PoolError::TooSmall { .. });
                    assert!(known, "{error}");
                    assert_eq!((pool.space(), fs::metadata(&path).unwrap().len()), before);
                }
            }
            if rng.bool() {
                drop(pool);
                pool = OpenOptions::default().open(&path).unwrap();
            }
            for (name, bytes) in &tables {
                let table = pool.attach(name).unwrap();
                table.verify_all().unwrap();
                assert!(table.bytes() == bytes, "table {name} has changed");
            }
        }
    }
    println!("{smaller} times smaller, {refused} times refused");
    assert!(smaller > 0 && refused > 0);
}

#[test]
fn what_is_read_or_written_is_not_moved_and_the_rest_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let pool = create(&path, 40);
    seal(&pool, "first", &data(1, 8 << 20)).unwrap();
    seal(&pool, "last", &data(2, 8 << 20)).unwrap();
    pool.drop_table("first").unwrap();
    let reader = pool.attach("last").unwrap();
    let whole = fs::metadata(&path).unwrap().len();
    let small = whole - pool.space().free_bytes + 2 * MIB;
    let refused = pool.shrink_member(0, small).unwrap_err();
    assert!(
        refused.to_string().contains("`last`, sealed, being read"),
        "{refused}"
    );
    assert_eq!(reader.bytes(), data(2, 8 << 20));
    drop(reader);
    let unknown = pool.shrink_member(7, small).unwrap_err();
    assert!(matches!(unknown, PoolError::UnknownMember { .. }));
    let plan = pool.shrink_plan(0, small).unwrap();
    assert_eq!(plan.moves.len(), 1, "{plan:?}");
    pool.shrink_member(0, small).unwrap();
    assert!(fs::metadata(&path).unwrap().len() <= small);
    assert_eq!(pool.attach("last").unwrap().bytes(), data(2, 8 << 20));
    // What was cut off can be had again.
    pool.grow_member(0, whole).unwrap();
    seal(&pool, "first", &data(3, 16 << 20)).unwrap();
    assert_eq!(pool.attach("last").unwrap().bytes(), data(2, 8 << 20));
}
