//! Lookup tables from codes to integers.

use std::sync::Arc;

/// An integer for each code, in elements as narrow as the integers allow; 0 for codes beyond.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeValues {
    elements: Elements,
    low: i64,
    high: i64,
}

#[derive(Debug, Clone, PartialEq)]
enum Elements {
    One(Arc<Vec<i8>>),
    Two(Arc<Vec<i16>>),
    Four(Arc<Vec<i32>>),
    Eight(Arc<Vec<i64>>),
}

impl CodeValues {
    /// A table of `codes` codes with the values in `pairs`, and 0 for all other codes.
    ///
    /// The pairs are gone through twice: for the range of their values, and to be stored.
    ///
    /// # Panics
    /// If a code in `pairs` is not below `codes`.
    pub fn from_pairs(codes: usize, pairs: impl Iterator<Item = (usize, i64)> + Clone) -> Self {
        let widened =
            |(low, high): (i64, i64), (_, value): (usize, i64)| (low.min(value), high.max(value));
        let (low, high) = pairs.clone().fold((0, 0), widened);
        let fits = |least: i64, most: i64| least <= low && high <= most;
        let elements = if fits(i8::MIN.into(), i8::MAX.into()) {
            Elements::One(filled(
                codes,
                pairs.map(|(code, value)| (code, value as i8)),
            ))
        } else if fits(i16::MIN.into(), i16::MAX.into()) {
            Elements::Two(filled(
                codes,
                pairs.map(|(code, value)| (code, value as i16)),
            ))
        } else if fits(i32::MIN.into(), i32::MAX.into()) {
            Elements::Four(filled(
                codes,
                pairs.map(|(code, value)| (code, value as i32)),
            ))
        } else {
            Elements::Eight(filled(codes, pairs))
        };
        CodeValues {
            elements,
            low,
            high,
        }
    }

    /// The smallest and the largest value, or 0 where that is smaller or larger.
    pub fn range(&self) -> (i64, i64) {
        (self.low, self.high)
    }

    /// Size of the table, in bytes.
    pub fn size_bytes(&self) -> usize {
        match &self.elements {
            Elements::One(values) => size_of_val(&values[..]),
            Elements::Two(values) => size_of_val(&values[..]),
            Elements::Four(values) => size_of_val(&values[..]),
            Elements::Eight(values) => size_of_val(&values[..]),
        }
    }

    /// Writes the value of each of `codes` to `out`.
    pub fn look_up(&self, codes: &[u32], out: &mut [i64]) {
        match &self.elements {
            Elements::One(values) => look_up(values, codes, out),
            Elements::Two(values) => look_up(values, codes, out),
            Elements::Four(values) => look_up(values, codes, out),
            Elements::Eight(values) => look_up(values, codes, out),
        }
    }
}

/// The values of the codes from 0 on.
impl FromIterator<i64> for CodeValues {
    fn from_iter<T: IntoIterator<Item = i64>>(values: T) -> Self {
        let values: Vec<i64> = values.into_iter().collect();
        Self::from_pairs(values.len(), values.iter().copied().enumerate())
    }
}

fn filled<T: Copy + Default>(codes: usize, pairs: impl Iterator<Item = (usize, T)>) -> Arc<Vec<T>> {
    // Zeroed by the allocator: large tables get untouched pages.
    let mut values = vec![T::default(); codes];
    pairs.for_each(|(code, value)| values[code] = value);
    Arc::new(values)
}

fn look_up<T: Copy + Default + Into<i64>>(values: &[T], codes: &[u32], out: &mut [i64]) {
    for (out, code) in out.iter_mut().zip(codes) {
        *out = values
            .get(*code as usize)
            .copied()
            .unwrap_or_default()
            .into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_gives_back_its_values_and_zero_beyond() {
        let limits = [i8::MAX.into(), i16::MIN.into(), i32::MAX.into(), i64::MIN];
        for (width, limit) in limits.into_iter().enumerate() {
            let values: CodeValues = [7, limit, -1].into_iter().collect();
            assert_eq!(values.size_bytes(), 3 << width);
            assert_eq!(values.range(), (limit.min(-1), limit.max(7)));
            let mut found = [5; 4];
            values.look_up(&[1, 3, 0, 2], &mut found);
            assert_eq!(found, [limit, 0, 7, -1]);
        }
        let sparse = CodeValues::from_pairs(5, [(3, 300)].into_iter());
        let mut found = [1; 5];
        sparse.look_up(&[0, 1, 2, 3, 4], &mut found);
        assert_eq!((found, sparse.range()), ([0, 0, 0, 300, 0], (0, 300)));
    }
}
