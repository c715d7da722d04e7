//! One thread: the tree against `BTreeMap`, all node sizes, full arenas, bulk loading.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tierloom_tree::{
    Arena, BPlusTree, NODE_BYTES, NodeKind, TreeError, check_bytes, most_nodes, nodes_needed,
};

const SIZES: [usize; 5] = [256, 512, 1024, 2048, 4096];

fn tree(inner_bytes: usize, leaf_bytes: usize) -> BPlusTree {
    let inner = Arena::in_memory(4000, inner_bytes).unwrap();
    let leaves = Arena::in_memory(4000, leaf_bytes).unwrap();
    BPlusTree::new(inner, leaves).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    Remove(u64),
    Get(u64),
    /// Keys from the first on, in steps, this many.
    InsertRun(u64, u64, u64),
    RemoveRun(u64, u64, u64),
    /// From a key on, at most this many pairs.
    Scan(u64, usize),
}

/// Few keys close together, and the ends of the range.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0_u64..3000,
        1 => u64::MAX - 20..=u64::MAX,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let run = (0_u64..3000, 1_u64..4, 0_u64..400);
    prop_oneof![
        4 => key().prop_map(Step::Insert),
        4 => key().prop_map(Step::Remove),
        2 => key().prop_map(Step::Get),
        2 => run.clone().prop_map(|(from, by, count)| Step::InsertRun(from, by, count)),
        2 => run.prop_map(|(from, by, count)| Step::RemoveRun(from, by, count)),
        1 => (key(), 0_usize..700).prop_map(|(from, count)| Step::Scan(from, count)),
    ]
}

/// Checks the tree as a whole, and that it has what the map has.
fn same(tree: &mut BPlusTree, map: &BTreeMap<u64, u64>) -> Result<(), TestCaseError> {
    let mut pairs = Vec::new();
    let found = tree.check(|key, value| {
        pairs.push((key, value));
        Ok(())
    });
    prop_assert!(found.is_ok(), "{found:?}");
    prop_assert!(pairs.into_iter().eq(map.iter().map(|(k, v)| (*k, *v))));
    Ok(())
}

fn run(
    steps: &[Step],
    tree: &mut BPlusTree,
    map: &mut BTreeMap<u64, u64>,
) -> Result<(), TestCaseError> {
    let mut session = tree.session();
    for (value, step) in (0..).zip(steps) {
        match *step {
            Step::Insert(key) => {
                prop_assert_eq!(session.insert(key, value), Ok(map.insert(key, value)));
            }
            Step::Remove(key) => prop_assert_eq!(session.remove(key), map.remove(&key)),
            Step::Get(key) => prop_assert_eq!(session.get(key), map.get(&key).copied()),
            Step::InsertRun(from, by, count) => {
                for key in (from..).step_by(by as usize).take(count as usize) {
                    prop_assert_eq!(session.insert(key, value), Ok(map.insert(key, value)));
                }
            }
            Step::RemoveRun(from, by, count) => {
                for key in (from..).step_by(by as usize).take(count as usize) {
                    prop_assert_eq!(session.remove(key), map.remove(&key));
                }
            }
            Step::Scan(from, count) => {
                let mut found = Vec::new();
                session.scan(from, |key, value| {
                    found.push((key, value));
                    found.len() < count.max(1)
                });
                let wanted = map.range(from..).take(count.max(1));
                prop_assert!(found.into_iter().eq(wanted.map(|(k, v)| (*k, *v))));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_steps_do_what_they_do_to_a_btree_map(
        steps in proptest::collection::vec(step(), 0..80),
        sizes in (0_usize..5, 0_usize..5),
    ) {
        let mut tree = tree(SIZES[sizes.0], SIZES[sizes.1]);
        let mut map = BTreeMap::new();
        run(&steps, &mut tree, &mut map)?;
        same(&mut tree, &map)?;
    }

    #[test]
    fn steps_on_a_loaded_tree_do_what_they_do_to_a_btree_map(
        keys in proptest::collection::btree_set(key(), 0..1500),
        steps in proptest::collection::vec(step(), 0..30),
        sizes in (0_usize..5, 0_usize..5),
        fill in 0.05_f64..=1.0,
    ) {
        let (inner, leaf) = (SIZES[sizes.0], SIZES[sizes.1]);
        let mut tree = tree(inner, leaf);
        let mut map: BTreeMap<u64, u64> = keys.iter().map(|key| (*key, key ^ 5)).collect();
        tree.load(keys.iter().map(|key| (*key, key ^ 5)), keys.len(), fill).unwrap();
        let needed = nodes_needed(keys.len() as u64, inner, leaf, fill).unwrap();
        prop_assert_eq!(needed.inner, tree.nodes(NodeKind::Inner));
        prop_assert_eq!(needed.leaves, tree.nodes(NodeKind::Leaf));
        same(&mut tree, &map)?;
        run(&steps, &mut tree, &mut map)?;
        same(&mut tree, &map)?;
    }
}

#[test]
fn every_pair_of_node_sizes_grows_over_levels_and_shrinks_to_one_leaf() {
    for inner in SIZES {
        for leaf in SIZES {
            let mut tree = tree(inner, leaf);
            let keys: Vec<u64> = (0..20_000).map(|key| key * 7919 % 20_011).collect();
            let mut session = tree.session();
            for key in &keys {
                assert_eq!(session.insert(*key, key + 1), Ok(None));
            }
            assert!(session.counts().splits > 0);
            drop(session);
            let full = tree.check(|key, value| {
                assert_eq!(value, key + 1);
                Ok(())
            });
            let full = full.unwrap();
            assert_eq!(full.keys, 20_000, "{inner} {leaf}");
            assert!(full.levels >= 2, "{full:?}");
            let mut session = tree.session();
            for key in &keys {
                assert_eq!(session.remove(*key), Some(key + 1));
            }
            assert!(session.counts().merges > 0);
            drop(session);
            let empty = tree.check(|_, _| Err("a key".into())).unwrap();
            assert_eq!(
                (empty.inner, empty.leaves, empty.levels),
                (0, 1, 1),
                "{inner} {leaf}"
            );
        }
    }
}

#[test]
fn a_full_arena_refuses_one_key_and_the_tree_goes_on() {
    // Room for leaves runs out first, then that for inner nodes, then that for the first root.
    for (inner, leaves, full) in [
        (50, 8, NodeKind::Leaf),
        (2, 500, NodeKind::Inner),
        (0, 9, NodeKind::Inner),
    ] {
        let inner = Arena::in_memory(inner, 256).unwrap();
        let mut tree = BPlusTree::new(inner, Arena::in_memory(leaves, 256).unwrap()).unwrap();
        let mut session = tree.session();
        let mut map = BTreeMap::new();
        let refused = loop {
            let key = fastrand::u64(..100_000);
            match session.insert(key, key) {
                Ok(before) => assert_eq!(before, map.insert(key, key)),
                Err(error) => break (key, error),
            }
        };
        assert_eq!(refused.1, TreeError::Full(full));
        assert_eq!(session.get(refused.0), None);
        // What is there can change, and what is removed makes room.
        let first = *map.keys().next().unwrap();
        assert_eq!(session.insert(first, 5), Ok(map.insert(first, 5)));
        let keys: Vec<u64> = map.keys().copied().collect();
        for key in &keys[..keys.len() / 2] {
            assert_eq!(session.remove(*key), map.remove(key));
        }
        let low = keys[1];
        assert_eq!(session.insert(low, 6), Ok(map.insert(low, 6)));
        drop(session);
        same(&mut tree, &map).unwrap();
    }
}

#[test]
fn removed_nodes_are_used_again_for_ever() {
    let inner = Arena::in_memory(40, 256).unwrap();
    let leaves = Arena::in_memory(300, 256).unwrap();
    let mut tree = BPlusTree::new(inner, leaves).unwrap();
    let mut session = tree.session();
    // A window of 1000 keys that wanders through a hundred times what fits.
    for key in 0..100_000_u64 {
        assert_eq!(session.insert(key, key), Ok(None));
        if let Some(old) = key.checked_sub(1000) {
            assert_eq!(session.remove(old), Some(old));
        }
    }
    // The same without unpinning: whoever needs a node lets go of those it has removed itself.
    let mut pinned = session.pin();
    for key in 100_000..200_000_u64 {
        assert_eq!(pinned.insert(key, key), Ok(None));
        assert_eq!(pinned.remove(key - 1000), Some(key - 1000));
    }
    drop(pinned);
    drop(session);
    assert_eq!(tree.check(|_, _| Ok(())).unwrap().keys, 1000);
}

#[test]
fn a_node_that_a_pinned_session_may_read_is_not_used_again() {
    let inner = Arena::in_memory(40, 256).unwrap();
    let leaves = Arena::in_memory(20, 256).unwrap();
    let tree =
        BPlusTree::bulk_load(inner, leaves, (0..150).map(|key| (key, key)), 150, 1.0).unwrap();
    let mut reader = tree.session();
    let mut writer = tree.session();
    let pinned = reader.pin();
    (0..150).for_each(|key| assert_eq!(writer.remove(key), Some(key)));
    let retired = tree.retired_nodes();
    assert!(retired >= 9, "{retired}");
    // 20 leaves, of which the reader holds back nine and more: no room for all keys again.
    let full = (0..1000).find_map(|key| writer.insert(key, key).err());
    assert_eq!(full, Some(TreeError::Full(NodeKind::Leaf)));
    assert!(tree.retired_nodes() >= retired);
    drop(pinned);
    // Nobody holds them back any more: the same leaves are enough for twice as many.
    let free = (1000..1100).try_for_each(|key| writer.insert(key, key).map(|_| ()));
    assert_eq!(free, Ok(()));
    assert_eq!(tree.retired_nodes(), 0);
}

#[test]
fn ascending_keys_leave_full_leaves_behind() {
    let mut tree = tree(1024, 1024);
    let mut session = tree.session();
    (0..63 * 100).for_each(|key| assert_eq!(session.insert(key, key), Ok(None)));
    drop(session);
    assert_eq!(tree.check(|_, _| Ok(())).unwrap().leaves, 100);
}

#[test]
fn wrong_sizes_fills_and_orders_are_refused_and_leave_an_empty_tree() {
    for bytes in [0, 8, 128, 255, 384, 8192, *NODE_BYTES.end() + 1] {
        assert_eq!(
            Arena::in_memory(1, bytes).unwrap_err(),
            TreeError::NodeBytes(bytes)
        );
    }
    let mut tree = tree(256, 256);
    for fill in [0.0, -1.0, 1.1, f64::NAN] {
        let refused = tree.load([(1, 1)], 1, fill);
        assert!(matches!(refused, Err(TreeError::Fill(_))), "{fill}");
    }
    let pairs = [(1, 1), (3, 3), (3, 4)];
    let unsorted = TreeError::Unsorted {
        key: 3,
        position: 2,
    };
    assert_eq!(tree.load(pairs, 3, 1.0), Err(unsorted));
    for count in [0, 1, 4, 40] {
        let wrong = Err(TreeError::PairCount(count));
        assert_eq!(tree.load([(1, 1), (3, 3)], count, 1.0), wrong);
    }
    assert_eq!(tree.check(|_, _| Ok(())).unwrap().keys, 0);
    let many = (0..1_000_000).map(|key| (key, key));
    assert_eq!(
        tree.load(many, 1_000_000, 1.0),
        Err(TreeError::Full(NodeKind::Leaf))
    );
    assert_eq!(tree.check(|_, _| Ok(())).unwrap().leaves, 1);
    let inner = Arena::in_memory(1, 256).unwrap();
    let none = BPlusTree::new(inner, Arena::in_memory(0, 256).unwrap());
    assert_eq!(none.unwrap_err(), TreeError::Full(NodeKind::Leaf));
}

#[test]
fn a_damaged_tree_fails_the_check() {
    use std::sync::atomic::{AtomicU64, Ordering};
    // What was in the memory before does not matter.
    let fresh = || -> Vec<AtomicU64> { (0..32 * 40).map(|_| AtomicU64::new(7)).collect() };
    let (words, others) = (fresh(), fresh());
    let whole = || {
        let leaves = Arena::new(words.as_slice(), 256).unwrap();
        let inner = Arena::new(others.as_slice(), 256).unwrap();
        BPlusTree::bulk_load(inner, leaves, (1..200).map(|key| (key, key)), 199, 0.7).unwrap()
    };
    assert_eq!(whole().check(|_, _| Ok(())).unwrap().keys, 199);
    // The version, the list of leaves, and a key of the second leaf.
    for (word, value) in [(32, 1), (33, 10 | 5 << 32), (36, 1_000_000)] {
        let mut tree = whole();
        words[word].store(value, Ordering::Relaxed);
        let found = tree.check(|_, _| Ok(()));
        assert!(found.is_err(), "{word}: {found:?}");
    }
    assert!(
        whole()
            .check(|key, _| (key < 150).then_some(()).ok_or("no".into()))
            .is_err()
    );
}

#[test]
fn the_most_nodes_are_enough_for_keys_in_any_order() {
    for (inner, leaf) in [(256, 256), (256, 1024), (1024, 512), (4096, 4096)] {
        for (keys, inserted, fill) in [
            (0, 5000, 0.7),
            (1, 3000, 1.0),
            (5000, 5000, 1.0),
            (5000, 300, 0.05),
            (4000, 20_000, 0.5),
            (15, 1, 1.0),
        ] {
            // In order, in reverse, at random, and all at one place.
            for order in 0..4 {
                let most = most_nodes(keys, inserted, inner, leaf, fill).unwrap();
                let inners = Arena::in_memory(most.inner as usize, inner).unwrap();
                let leaves = Arena::in_memory(most.leaves as usize, leaf).unwrap();
                let pairs = (0..keys).map(|key| (key << 32, key));
                let tree =
                    BPlusTree::bulk_load(inners, leaves, pairs, keys as usize, fill).unwrap();
                let mut session = tree.session();
                for at in 0..inserted {
                    let key = match order {
                        0 => (keys << 32) + at,
                        1 => ((keys + 1) << 32) - at,
                        2 => fastrand::u64(..=(keys + 1) << 32),
                        _ => ((keys / 2) << 32) + at,
                    };
                    let done = session.insert(key, at);
                    assert!(
                        done.is_ok(),
                        "{done:?}: {inner} {leaf} {keys} {fill} {order}"
                    );
                }
            }
        }
    }
}

#[test]
fn bytes_of_arenas_are_checked_without_the_tree() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let fresh = || -> Vec<AtomicU64> { (0..32 * 40).map(|_| AtomicU64::new(7)).collect() };
    let (inner, leaves) = (fresh(), fresh());
    let arena = |words| Arena::new(words, 256).unwrap();
    let pairs = (1..200).map(|key| (key, 2 * key));
    let tree = BPlusTree::bulk_load(arena(&inner), arena(&leaves), pairs, 199, 0.7).unwrap();
    let root = tree.root_word();
    let bytes = |words: &[AtomicU64]| -> Vec<u8> {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed).to_le_bytes();
        words.iter().flat_map(word).collect()
    };
    let check = |leaves: &[u8]| {
        let mut sum = 0;
        let found = check_bytes(root, (&bytes(&inner), 256), (leaves, 256), |_, value| {
            sum += value;
            Ok(())
        });
        found.map(|found| (found.keys, sum))
    };
    let mut sound = bytes(&leaves);
    assert_eq!(check(&sound), Ok((199, 199 * 200)));
    sound[256 + 16] ^= 0xff;
    assert!(check(&sound).is_err());
    assert!(check(&sound[..256]).is_err());
}
