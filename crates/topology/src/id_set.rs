//! Sets of node or CPU numbers in the list syntax of the kernel and of numactl, such as `0-3,6`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::NodeId;

/// Larger numbers are rejected as typing errors: Linux supports at most 8192 CPUs and 1024 nodes.
const LARGEST_ID: u32 = 65_535;

/// A sorted set of CPU or node numbers.
///
/// Its text form is `0-3,6`. The empty text is the empty set, as in the file `cpulist` of a node
/// without CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct IdSet(BTreeSet<u32>);

/// Why a text is not a list such as `0-3,6`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{piece}` (piece {position} of the list) {problem}; a list looks like 0-3,6")]
pub struct IdSetError {
    /// Text of the invalid piece.
    pub piece: String,
    /// Position among the comma-separated pieces, from 1.
    pub position: usize,
    /// Which rule the piece breaks.
    pub problem: &'static str,
}

impl IdSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// All numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// All numbers as nodes, in ascending order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.iter().map(NodeId)
    }

    /// Whether the set contains `id`.
    pub fn contains(&self, id: u32) -> bool {
        self.0.contains(&id)
    }

    /// Number of ids in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest number; `None` if the set is empty.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Adds `id`; returns whether it was new.
    pub fn insert(&mut self, id: u32) -> bool {
        self.0.insert(id)
    }

    /// Numbers in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// Numbers in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Numbers of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Whether every number is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl FromIterator<u32> for IdSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl FromIterator<NodeId> for IdSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        nodes.into_iter().map(|node| node.0).collect()
    }
}

impl fmt::Display for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<u32> = self.iter().collect();
        for (index, range) in ids.chunk_by(|left, right| left + 1 == *right).enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match range {
                [first, .., last] => write!(f, "{first}-{last}")?,
                single => single.iter().try_for_each(|id| write!(f, "{id}"))?,
            }
        }
        Ok(())
    }
}

impl FromStr for IdSet {
    type Err = IdSetError;

    fn from_str(text: &str) -> Result<Self, IdSetError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::new());
        }
        let mut set = BTreeSet::new();
        for (index, piece) in text.split(',').enumerate() {
            let piece = piece.trim();
            let range = parse_piece(piece).map_err(|problem| IdSetError {
                piece: piece.to_owned(),
                position: index + 1,
                problem,
            })?;
            set.extend(range);
        }
        Ok(Self(set))
    }
}

fn parse_piece(piece: &str) -> Result<std::ops::RangeInclusive<u32>, &'static str> {
    let (first, last) = match piece.split_once('-') {
        Some((first, last)) => (parse_id(first)?, parse_id(last)?),
        None => (parse_id(piece)?, parse_id(piece)?),
    };
    if first > last {
        return Err("is a range that runs backwards");
    }
    Ok(first..=last)
}

fn parse_id(word: &str) -> Result<u32, &'static str> {
    let word = word.trim();
    if word.is_empty() {
        return Err("lacks a number");
    }
    // `u32::from_str` alone would accept a leading `+`.
    if !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("is not a number or a range of numbers");
    }
    // The limit also keeps a mistyped range from filling memory.
    match word.parse() {
        Ok(id) if id <= LARGEST_ID => Ok(id),
        _ => Err("is larger than any CPU or node number (65535)"),
    }
}

impl Serialize for IdSet {
    /// Serialises as text such as `"0-3,6"`, the notation of numactl.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlapping_ranges_and_spaces_are_merged() {
        let set: IdSet = " 0-3, 2-5 ,9,4\n".parse().unwrap();
        assert_eq!(set.to_string(), "0-5,9");
        assert_eq!(set.len(), 7);
    }

    #[test]
    fn errors_name_the_piece_and_where_it_is() {
        for (text, piece, position, part) in [
            ("0,x", "x", 2, "not a number"),
            ("0-3,", "", 2, "lacks a number"),
            ("5-2", "5-2", 1, "backwards"),
            ("1-2-3", "1-2-3", 1, "not a number"),
            ("-1", "-1", 1, "lacks a number"),
            ("0,1,99999999999", "99999999999", 3, "larger"),
            ("0-70000", "0-70000", 1, "larger"),
        ] {
            let error = text.parse::<IdSet>().unwrap_err();
            assert_eq!(
                (error.piece.as_str(), error.position),
                (piece, position),
                "{text}"
            );
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn printing_then_parsing_gives_the_same_set(ids in proptest::collection::btree_set(0..300u32, 0..40)) {
            let set: IdSet = ids.iter().copied().collect();
            prop_assert_eq!(set.to_string().parse::<IdSet>().unwrap(), set);
        }

        #[test]
        fn garbage_never_panics(text in "[0-9,\\- x\u{e9}]{0,24}") {
            if let Ok(set) = text.parse::<IdSet>() {
                prop_assert_eq!(set.to_string().parse::<IdSet>().unwrap(), set);
            }
        }

        #[test]
        fn set_algebra_agrees_with_membership(a in proptest::collection::vec(0..20u32, 0..15), b in proptest::collection::vec(0..20u32, 0..15)) {
            let (a, b): (IdSet, IdSet) = (a.into_iter().collect(), b.into_iter().collect());
            for id in 0..20 {
                prop_assert_eq!(a.union(&b).contains(id), a.contains(id) || b.contains(id));
                prop_assert_eq!(a.intersection(&b).contains(id), a.contains(id) && b.contains(id));
                prop_assert_eq!(a.difference(&b).contains(id), a.contains(id) && !b.contains(id));
            }
        }
    }
}
