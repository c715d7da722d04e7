//! Equalities that follow from others.
//!
//! `t.id = a.id AND t.id = b.id AND a.id = b.id` are two conditions, and not three: rows that
//! fulfil two of them fulfil the third.

use datafusion::logical_expr::Expr;

/// A set of leaves, one bit for each.
pub(super) type Set = u32;

/// Classes of sides of equalities that are equal to each other.
#[derive(Default)]
pub(super) struct Classes {
    sides: Vec<((usize, Expr), usize)>,
    /// For each class the one that it has become part of, or itself.
    joined: Vec<usize>,
}

impl Classes {
    /// Makes two sides, each an expression of a leaf, equal.
    pub fn join(&mut self, [one, other]: &[(usize, Expr); 2]) {
        let (one, other) = (self.number(one), self.number(other));
        let (one, other) = (self.last(one), self.last(other));
        self.joined[other] = one;
    }

    /// The class of a side.
    pub fn of(&mut self, side: &(usize, Expr)) -> usize {
        let number = self.number(side);
        self.last(number)
    }

    fn number(&mut self, side: &(usize, Expr)) -> usize {
        let mut known = self.sides.iter();
        if let Some((_, class)) = known.find(|(of, _)| of == side) {
            return *class;
        }
        let class = self.joined.len();
        self.joined.push(class);
        self.sides.push((side.clone(), class));
        class
    }

    fn last(&self, mut class: usize) -> usize {
        while self.joined[class] != class {
            class = self.joined[class];
        }
        class
    }
}

/// Which leaves are equal in each class.
#[derive(Default)]
pub(super) struct Equal {
    /// Pairs of a class and leaves that are equal in it; each leaf is in one set of a class.
    groups: Vec<(usize, Set)>,
}

impl Equal {
    /// Makes the two leaves of `pair` equal in `class`; whether they were not before.
    pub fn connect(&mut self, class: usize, pair: Set) -> bool {
        let is_touched = |(of, leaves): &(usize, Set)| *of == class && leaves & pair != 0;
        let touched = self.groups.iter().filter(|group| is_touched(group));
        let merged = touched.fold(pair, |all, (_, leaves)| all | leaves);
        let is_new = !self.groups.contains(&(class, merged));
        self.groups.retain(|group| !is_touched(group));
        self.groups.push((class, merged));
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::col;

    #[test]
    fn an_equality_follows_from_those_that_lead_from_one_side_to_the_other() {
        let side = |leaf: usize, name: &str| (leaf, col(name));
        let mut classes = Classes::default();
        for pair in [
            [side(0, "a"), side(1, "b")],
            [side(2, "c"), side(3, "d")],
            [side(3, "d"), side(1, "b")],
            [side(0, "x"), side(2, "y")],
        ] {
            classes.join(&pair);
        }
        let class = classes.of(&side(0, "a"));
        for other in [side(1, "b"), side(2, "c"), side(3, "d")] {
            assert_eq!(classes.of(&other), class);
        }
        let other = classes.of(&side(0, "x"));
        assert_ne!(other, class);
        let mut equal = Equal::default();
        assert!(equal.connect(class, 0b0011));
        assert!(equal.connect(class, 0b1100));
        assert!(equal.connect(class, 0b1010));
        assert!(!equal.connect(class, 0b0101));
        assert!(equal.connect(other, 0b0101));
        assert!(!equal.connect(other, 0b0101));
    }
}
