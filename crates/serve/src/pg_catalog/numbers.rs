//! Numbers of constraints and their indexes, by which clients ask for what they say.

use super::super::clients::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The number of the first constraint; those of tables are counted from 16,384.
const FIRST: i32 = 1_000_000_000;

/// Objects that are gone and still have their numbers.
const MOST_GONE: usize = 1000;

/// What a number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Constraint,
    Index,
    Default,
}

/// An object of a table: kind, schema, table and its own name.
pub(super) type Named = (Kind, String, String, String);

/// The texts of constraints, indexes and defaults when the catalog was last read.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// `PRIMARY KEY (a)`, `CHECK (a > 0)`, by constraint.
    pub constraints: BTreeMap<i32, String>,
    /// What would make an index, and the names of its columns.
    pub indexes: BTreeMap<i32, (String, Vec<String>)>,
    /// Expressions by table and position of the column.
    pub defaults: BTreeMap<(i32, i16), String>,
    /// What views say, by table.
    pub views: BTreeMap<i32, String>,
    /// Names of the columns of tables.
    pub columns: BTreeMap<i32, Vec<String>>,
    /// Bytes of tables.
    pub bytes: BTreeMap<i32, u64>,
}

/// Gives numbers, and remembers what was read with them.
#[derive(Debug)]
pub(super) struct Numbers(Mutex<Given>);

#[derive(Debug)]
struct Given {
    next: i32,
    by_name: BTreeMap<Named, i32>,
    texts: Texts,
}

impl Numbers {
    pub fn new() -> Self {
        Numbers(Mutex::new(Given {
            next: FIRST,
            by_name: BTreeMap::new(),
            texts: Texts::default(),
        }))
    }

    /// The numbers of these objects, in their order; they are all that there are.
    ///
    /// Numbers of objects that are gone stay known for a while: a query that began before an object
    /// was made may read the catalog after one that has seen it.
    pub fn of(&self, all: Vec<Named>) -> Vec<i32> {
        let mut given = lock(&self.0);
        if given.by_name.len() > MOST_GONE + 2 * all.len() {
            let now: BTreeSet<&Named> = all.iter().collect();
            given.by_name.retain(|named, _| now.contains(named));
        }
        let mut numbers = Vec::with_capacity(all.len());
        for named in all {
            let next = given.next;
            let number = *given.by_name.entry(named).or_insert(next);
            if number == next {
                given.next = next.checked_add(1).unwrap_or(FIRST);
            }
            numbers.push(number);
        }
        numbers
    }

    /// Remembers the texts of all objects.
    pub fn remember(&self, texts: Texts) {
        lock(&self.0).texts = texts;
    }

    pub fn constraint(&self, number: i32) -> Option<String> {
        lock(&self.0).texts.constraints.get(&number).cloned()
    }

    /// An index, or the name of one of its columns.
    pub fn index(&self, number: i32, column: i32) -> Option<String> {
        let given = lock(&self.0);
        let (text, columns) = given.texts.indexes.get(&number)?;
        match usize::try_from(column) {
            Ok(0) => Some(text.clone()),
            Ok(column) => columns.get(column - 1).cloned(),
            Err(_) => None,
        }
    }

    pub fn view(&self, table: i32) -> Option<String> {
        lock(&self.0).texts.views.get(&table).cloned()
    }

    /// The names of columns of a table by their positions, from 1.
    pub fn names(&self, table: i32, positions: impl Iterator<Item = i16>) -> Vec<String> {
        let given = lock(&self.0);
        let Some(names) = given.texts.columns.get(&table) else {
            return Vec::new();
        };
        let places = positions.filter_map(|at| usize::try_from(at).ok()?.checked_sub(1));
        places.filter_map(|at| names.get(at).cloned()).collect()
    }

    /// Bytes of a table; 0 for what has no rows of its own.
    pub fn bytes(&self, table: i32) -> u64 {
        let given = lock(&self.0);
        given.texts.bytes.get(&table).copied().unwrap_or(0)
    }

    pub fn default_of(&self, table: i32, column: i16) -> Option<String> {
        lock(&self.0).texts.defaults.get(&(table, column)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Named {
        (Kind::Constraint, "public".into(), "t".into(), name.into())
    }

    #[test]
    fn an_object_keeps_its_number_and_those_that_are_gone_are_forgotten_when_they_are_many() {
        let numbers = Numbers::new();
        assert_eq!(numbers.of(vec![key("a"), key("b")]), [FIRST, FIRST + 1]);
        let index = (Kind::Index, "public".into(), "t".into(), "a".into());
        assert_eq!(numbers.of(vec![index, key("b")]), [FIRST + 2, FIRST + 1]);
        assert_eq!(numbers.of(vec![key("a")]), [FIRST]);
        let mut last = Vec::new();
        for n in 0..3 * MOST_GONE {
            let made = numbers.of(vec![key("b"), key(&n.to_string())]);
            assert_eq!(made[0], FIRST + 1);
            assert!(!last.contains(&made[1]), "{made:?}");
            last = made;
        }
        assert!(lock(&numbers.0).by_name.len() <= MOST_GONE + 5);
    }
}
