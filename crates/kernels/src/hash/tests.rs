//! Hash tables against the maps of the standard library.

use super::block::Plain;
use super::*;
use crate::Simd;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

fn built(keys: &[u64], builders: usize) -> (Layout, Vec<Bucket>, Vec<AtomicU32>, usize) {
    let layout = Layout::for_keys(keys.len());
    let mut buckets = vec![Bucket::EMPTY; layout.buckets()];
    let links: Vec<AtomicU32> = keys.iter().map(|_| AtomicU32::new(0)).collect();
    let duplicates = std::thread::scope(|scope| {
        let threads: Vec<_> = Builder::split(layout, builders, &mut buckets, Links::new(&links))
            .into_iter()
            .map(|mut builder| {
                scope.spawn(move || {
                    builder.insert_range(keys, 0).unwrap();
                    builder.duplicates()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    (layout, buckets, links, duplicates)
}

#[test]
fn heads_of_unique_keys_become_pairs_piece_by_piece() {
    let heads = [5, NONE, 7, 8, NONE, 9];
    let (mut cursor, mut all) = (ExpandCursor::default(), Vec::new());
    while !cursor.finished(heads.len()) {
        let (mut build, mut probe) = (Vec::new(), Vec::new());
        Links::new(&[]).expand(&heads, &mut cursor, 2, &mut build, &mut probe);
        all.extend(build.into_iter().zip(probe));
    }
    assert_eq!(all, [(5, 0), (7, 2), (8, 3), (9, 5)]);
}

fn pairs(
    table: &JoinTable<'_>,
    links: &[AtomicU32],
    probes: &[u64],
    limit: usize,
) -> Vec<(u32, u32)> {
    let mut heads = vec![0; probes.len()];
    table.find(probes, &mut heads);
    let (mut cursor, mut all) = (ExpandCursor::default(), Vec::new());
    while !cursor.finished(probes.len()) {
        let (mut build, mut probe) = (Vec::new(), Vec::new());
        Links::new(links).expand(&heads, &mut cursor, limit, &mut build, &mut probe);
        assert!(build.len() <= limit);
        all.extend(build.into_iter().zip(probe));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_pair_of_equal_keys_is_found_once_and_in_order(
        keys in prop::collection::vec(0_u64..300, 0..2000),
        probes in prop::collection::vec(0_u64..400, 0..200),
        limit in 1_usize..50,
    ) {
        let (layout, buckets, links, duplicates) = built(&keys, 1);
        let mut rows: HashMap<u64, Vec<u32>> = HashMap::new();
        keys.iter().enumerate().for_each(|(row, key)| rows.entry(*key).or_default().push(row as u32));
        prop_assert_eq!(duplicates, keys.len() - rows.len());
        let expected: Vec<(u32, u32)> = probes.iter().enumerate()
            .flat_map(|(probe, key)| rows.get(key).into_iter().flatten().map(move |row| (*row, probe as u32)))
            .collect();
        for simd in [Simd::Scalar, Simd::Avx512] {
            let table = JoinTable::with_simd(layout, &buckets, simd);
            prop_assert_eq!(pairs(&table, &links, &probes, limit), expected.clone());
        }
    }
}

#[test]
fn several_builders_make_the_table_of_one_and_misses_behind_full_buckets_end() {
    // Several segments, keys with a stride; every odd key is missing.
    let keys: Vec<u64> = (0..100_000).map(|k| k * 2).collect();
    let (layout, buckets, _, duplicates) = built(&keys, 3);
    assert!(layout.segments() > 3 && duplicates == 0);
    assert!(
        buckets
            .iter()
            .any(|b| (0..16).any(|bit| b.passed(super::bucket::passing(bit))))
    );
    let probes: Vec<u64> = (0..200_000).collect();
    let (mut found, mut slow) = (vec![0; probes.len()], vec![0; probes.len()]);
    JoinTable::new(layout, &buckets).find(&probes, &mut found);
    JoinTable::new(layout, &buckets).find_one_by_one(&probes, &mut slow);
    assert_eq!(found, slow);
    for (key, row) in probes.iter().zip(&found) {
        let expected = if key % 2 == 0 { (key / 2) as u32 } else { NONE };
        assert_eq!(*row, expected, "key {key}");
    }
}

proptest! {
    #[test]
    fn every_width_builds_the_same_table(
        keys in prop::collection::vec(0_u64..3000, 0..4000),
        builders in 1_usize..4,
    ) {
        let (layout, expected, linked, _) = built(&keys, builders);
        let mut buckets = vec![Bucket::EMPTY; layout.buckets()];
        let links: Vec<AtomicU32> = keys.iter().map(|_| AtomicU32::new(0)).collect();
        for mut builder in Builder::split(layout, builders, &mut buckets, Links::new(&links)) {
            prop_assert!(builder.pipelined::<Plain>(&keys, |index| index as u32).is_ok());
        }
        let bytes = |buckets: &[Bucket]| -> Vec<_> {
            buckets.iter().map(|b| (b.keys, b.values, b.len())).collect()
        };
        prop_assert_eq!(bytes(&buckets), bytes(&expected));
        let rows = |links: &[AtomicU32]| -> Vec<u32> {
            links.iter().map(|link| link.load(Ordering::Relaxed)).collect()
        };
        prop_assert_eq!(rows(&links), rows(&linked));
    }
}

#[test]
fn the_extreme_keys_are_ordinary_and_absent_ones_are_not_taken_for_empty_entries() {
    let keys = [u64::MAX, 1, u64::MAX - 1];
    let (layout, buckets, _, _) = built(&keys, 1);
    let mut found = [0; 4];
    JoinTable::new(layout, &buckets).find(&[0, u64::MAX, u64::MAX - 1, 1], &mut found);
    assert_eq!(found, [NONE, 0, 2, 1]);
}

#[test]
fn a_full_segment_is_an_error_and_one_segment_takes_the_same_keys() {
    // Keys that all belong to the first segment.
    let layout = Layout::for_keys(40_000);
    let first = layout.segment_buckets();
    let keys: Vec<u64> = (0..)
        .filter(|k| layout.home(layout.hash(*k)) < first)
        .take(20_481)
        .collect();
    let links: Vec<AtomicU32> = keys.iter().map(|_| AtomicU32::new(0)).collect();
    let mut buckets = vec![Bucket::EMPTY; layout.buckets()];
    let mut builder = Builder::split(layout, 1, &mut buckets, Links::new(&links)).remove(0);
    assert!(builder.insert_range(&keys, 0).is_err());
    let layout = Layout::one_segment(keys.len());
    let mut buckets = vec![Bucket::EMPTY; layout.buckets()];
    let mut builder = Builder::split(layout, 4, &mut buckets, Links::new(&links)).remove(0);
    builder.insert_range(&keys, 0).unwrap();
    assert_eq!(builder.keys(), keys.len());
}

#[test]
fn foreign_bytes_as_a_table_end_with_some_answer() {
    let layout = Layout::for_keys(100);
    let mut memory = vec![0xff_u8; layout.size_bytes() + 64];
    let buckets = &Bucket::slice_mut(&mut memory)[..layout.buckets()];
    let keys: Vec<u64> = (0..50).chain([u64::MAX]).collect();
    for simd in [Simd::Scalar, Simd::Avx512] {
        let mut found = vec![0; keys.len()];
        JoinTable::with_simd(layout, buckets, simd).find(&keys, &mut found);
        assert_eq!(found.len(), keys.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn groups_are_numbered_by_first_appearance_also_across_growth(
        keys in prop::collection::vec(0_u64..5000, 0..6000),
        simd in prop::sample::select(vec![Simd::Scalar, Simd::Avx512]),
    ) {
        let mut layout = Layout::for_keys(10);
        let mut table = GroupTable::new(layout, vec![Bucket::EMPTY; layout.buckets()]);
        let (mut of_groups, mut groups) = (Vec::new(), vec![NONE; keys.len()]);
        let mut done = 0;
        while done < keys.len() {
            done += table.assign_with(simd, &keys[done..], &mut groups[done..], &mut of_groups);
            if done < keys.len() {
                layout = Layout::for_keys(table.capacity() * 2);
                table = GroupTable::new(layout, vec![Bucket::EMPTY; layout.buckets()]);
                prop_assert!(table.refill(&of_groups, &[]));
            }
        }
        let mut expected: HashMap<u64, u32> = HashMap::new();
        for (key, group) in keys.iter().zip(&groups) {
            let next = expected.len() as u32;
            prop_assert_eq!(*expected.entry(*key).or_insert(next), *group);
            prop_assert_eq!(of_groups[*group as usize], *key);
        }
        prop_assert_eq!(of_groups.len(), expected.len());
        prop_assert_eq!(table.groups(), expected.len());
    }
}

#[test]
fn numbers_given_outside_of_the_table_survive_its_growth() {
    let layout = Layout::for_keys(10);
    let mut table = GroupTable::new(layout, vec![Bucket::EMPTY; layout.buckets()]);
    let (mut of_groups, mut groups) = (Vec::new(), [0; 2]);
    assert_eq!(table.assign(&[7, 8], &mut groups, &mut of_groups), 2);
    let outside = table.skip_number();
    of_groups.push(0);
    assert_eq!(outside, 2);
    let layout = Layout::for_keys(100);
    let mut larger = GroupTable::new(layout, vec![Bucket::EMPTY; layout.buckets()]);
    assert!(larger.refill(&of_groups, &[outside]));
    // 0 is the key of the skipped number, not one that was assigned.
    assert_eq!(larger.assign(&[0, 8], &mut groups, &mut of_groups), 2);
    assert_eq!(groups, [3, 1]);
}
