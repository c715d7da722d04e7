//! How many rows the equalities of a graph of joins keep.
//!
//! Those that follow from others keep all: counted as if they were independent, joins of three
//! tables with `t.id = a.id AND t.id = b.id AND a.id = b.id` would have almost no rows.

use super::classes::{Equal, Set};
use super::graph::JoinGraph;
use super::statistics::{UNKNOWN_ROWS, base_rows, distinct, is_unique};
use std::collections::BTreeMap;

/// One equality of two leaves.
struct Key {
    /// Number of the set of columns that are equal to each other.
    class: usize,
    /// Distinct values on each side.
    values: [f64; 2],
    /// Whether no row of that side has the value of another one.
    unique: [bool; 2],
}

/// All equalities of two leaves: one key, which has no more values than its table has rows.
struct Pair {
    leaves: [usize; 2],
    keys: Vec<Key>,
    /// Rows of each leaf without its filters.
    rows: [f64; 2],
}

impl Pair {
    fn set(&self) -> Set {
        let [a, b] = self.leaves;
        1 << a | 1 << b
    }

    /// Whether each row of one leaf finds at most one of the other, as far as is known: of several
    /// columns, numbers of values say no more than that.
    fn finds_one(&self) -> bool {
        let is_key = |side: usize| {
            let values: f64 = self.keys.iter().map(|key| key.values[side]).product();
            self.keys.len() > 1 && values >= self.rows[side]
        };
        let mut keys = self.keys.iter();
        keys.any(|key| key.unique.contains(&true)) || is_key(0) || is_key(1)
    }

    /// The share of the combinations of both leaves' rows that `keys` keep.
    fn share<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> f64 {
        let mut values = [1.0, 1.0];
        for key in keys {
            values = [values[0] * key.values[0], values[1] * key.values[1]];
        }
        let most = |side: usize| values[side].min(self.rows[side]).max(1.0);
        1.0 / most(0).max(most(1))
    }
}

/// The equalities of a graph.
#[derive(Default)]
pub(super) struct Equalities {
    /// Those that keep the smallest share first.
    pairs: Vec<Pair>,
}

impl Equalities {
    pub fn of(graph: &JoinGraph) -> Equalities {
        let mut pairs: BTreeMap<[usize; 2], Vec<Key>> = BTreeMap::new();
        for equality in graph.equalities() {
            let mut sides = equality.sides.each_ref();
            sides.sort_by_key(|(leaf, _)| *leaf);
            let [one, other] = sides;
            let sides = [one, other].map(|(leaf, side)| (side, graph.leaves[*leaf].as_ref()));
            let keys = pairs.entry([one.0, other.0]).or_default();
            keys.push(Key {
                class: equality.class,
                values: sides.map(|(side, leaf)| distinct(side, leaf)),
                unique: sides.map(|(side, leaf)| is_unique(side, leaf)),
            });
        }
        let rows = |leaf: usize| base_rows(&graph.leaves[leaf]).unwrap_or(UNKNOWN_ROWS);
        let pairs = pairs.into_iter().map(|(leaves, keys)| Pair {
            leaves,
            keys,
            rows: leaves.map(rows),
        });
        let mut pairs: Vec<Pair> = pairs.collect();
        let share = |pair: &Pair| pair.share(pair.keys.iter());
        pairs.sort_by(|a, b| share(a).total_cmp(&share(b)));
        Equalities { pairs }
    }

    /// The leaves each row of which finds at most one of `leaf`, by a column without duplicates.
    pub fn find_one_row_of(&self, leaf: usize) -> Set {
        let own = self.pairs.iter().filter(|pair| pair.leaves.contains(&leaf));
        let unique = own.filter(|pair| {
            let side = usize::from(pair.leaves[1] == leaf);
            pair.keys.iter().any(|key| key.unique[side])
        });
        unique.fold(0, |all, pair| all | pair.set()) & !(1 << leaf)
    }

    /// Whether no two rows of `leaf` have the same keys, as far as is known.
    pub fn is_unique(&self, leaf: usize) -> bool {
        self.find_one_row_of(leaf) != 0
    }

    /// The leaves of pairs in which a row of either may find many of the other.
    pub fn find_many(&self) -> impl Iterator<Item = Set> {
        let pairs = self.pairs.iter().filter(|pair| !pair.finds_one());
        pairs.map(Pair::set)
    }

    /// The leaves of each pair, and the share of their combinations that it keeps.
    pub fn shares(&self) -> impl Iterator<Item = (Set, f64)> {
        let pairs = self.pairs.iter();
        pairs.map(|pair| (pair.set(), pair.share(pair.keys.iter())))
    }

    /// The share of the combinations of the leaves in `set` for which all equalities hold.
    pub fn share(&self, set: Set) -> f64 {
        let mut equal = Equal::default();
        let within = self.pairs.iter().filter(|pair| pair.set() & !set == 0);
        let shares = within.map(|pair| {
            let keys = pair.keys.iter();
            pair.share(keys.filter(|key| equal.connect(key.class, pair.set())))
        });
        shares.product()
    }
}
