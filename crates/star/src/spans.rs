//! Codes and words divided into spans of the same length, as seconds into hours.

use tierloom_kernels::words::divide;

/// A column whose codes are the numbers of spans in which another column's values lie.
///
/// ```text
///   codes       0 1 2 3 4 5 6 7 8         seconds, of which the first is 1 after a full span
///   spans of 4  0 0 0 1 1 1 1 2 2         offset 1
///   nullable    0 1 1 1 2 2 2 2 3         code 0 is NULL and stays, the others begin at 1
/// ```
/// What is the same within a span (the day of a second, the month of a day) can then be looked up
/// by the span, where a table by code would be too large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// Index of the column in the plan that is divided; none of these.
    pub column: usize,
    /// Whether its code 0 is NULL.
    pub nullable: bool,
    /// How its values are divided.
    pub parts: SpanParts,
}

/// What the spans of a column are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanParts {
    /// Codes.
    Codes {
        /// Codes that would have been in the first span before the first code that is not NULL.
        offset: u32,
        /// Codes of a span, at least 2.
        length: u32,
    },
    /// Words of a column that has no codes.
    Words {
        /// The first word of the first span; no word of the column is less.
        begin: i64,
        /// Words of a span, at least 1.
        length: i64,
    },
}

impl Spans {
    /// The first and the last code that may be in span `span`, which is not that of NULL; `None`
    /// for spans of words.
    pub fn codes(&self, span: u32) -> Option<(u32, u32)> {
        let SpanParts::Codes { offset, length } = self.parts else {
            return None;
        };
        let first = u64::from(self.nullable);
        let begin = (u64::from(span) - first) * u64::from(length);
        let code = |at: u64| at.saturating_sub(u64::from(offset)) + first;
        let end = code(begin + u64::from(length)) - 1;
        let last = u32::try_from(end).unwrap_or(u32::MAX);
        Some((code(begin) as u32, last))
    }

    /// Writes the spans of rows to `out`, given their codes, which say of words which are NULL, and
    /// their words. Codes and offset together are below 2^32.
    pub(crate) fn divide(&self, codes: &[u32], words: &[i64], out: &mut [u32]) {
        match self.parts {
            SpanParts::Codes { offset, length } => self.divide_codes(offset, length, codes, out),
            SpanParts::Words { begin, length } => {
                divide(words, begin, length, u32::from(self.nullable), out);
                if self.nullable {
                    out.iter_mut()
                        .zip(codes)
                        .for_each(|(out, code)| *out *= code);
                }
            }
        }
    }

    fn divide_codes(&self, offset: u32, length: u32, codes: &[u32], out: &mut [u32]) {
        // Multiplies by the reciprocal, rounded up to 64 bits behind the point, which is exact for
        // numbers and divisors of 32 bits (Lemire, Kaser and Kurz, "Faster remainder by direct
        // computation", 2019, theorem 1).
        let reciprocal = u64::MAX / u64::from(length) + 1;
        let divided = |number: u32| ((u128::from(reciprocal) * u128::from(number)) >> 64) as u32;
        if self.nullable {
            // The code before the first one becomes 0 below, whatever its quotient is.
            for (out, code) in out.iter_mut().zip(codes) {
                let number = code.wrapping_sub(1).wrapping_add(offset);
                *out = if *code == 0 { 0 } else { divided(number) + 1 };
            }
        } else {
            for (out, code) in out.iter_mut().zip(codes) {
                *out = divided(code.wrapping_add(offset));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number of the span of `code`.
    fn span_of(spans: &Spans, code: u32) -> u32 {
        let SpanParts::Codes { offset, length } = spans.parts else {
            unreachable!("spans of codes");
        };
        let first = u32::from(spans.nullable);
        match code.checked_sub(first) {
            Some(code) => (code + offset) / length + first,
            None => 0,
        }
    }

    proptest! {
        #[test]
        fn a_span_is_found_as_by_division_and_has_its_codes(
            nullable in any::<bool>(),
            length in prop_oneof![2_u32..5, any::<u32>().prop_map(|l| l.max(2))],
            offset in any::<u32>(),
            codes in prop::collection::vec(any::<u32>(), 1..50),
        ) {
            let offset = offset % length;
            let parts = SpanParts::Codes { offset, length };
            let spans = Spans { column: 0, nullable, parts };
            let most = u32::MAX - offset;
            let codes: Vec<u32> = codes.into_iter().map(|code| code % most).collect();
            let mut found = vec![7; codes.len()];
            spans.divide(&codes, &[], &mut found);
            for (code, found) in codes.iter().zip(found) {
                prop_assert_eq!(found, span_of(&spans, *code), "{}", code);
                if nullable && *code == 0 {
                    prop_assert_eq!(found, 0);
                    continue;
                }
                let first = u64::from(nullable);
                let number = u64::from(*code) - first + u64::from(offset);
                prop_assert_eq!(u64::from(found) - first, number / u64::from(length));
                let (low, high) = spans.codes(found).unwrap();
                prop_assert!((low..=high).contains(code), "{code} of {low} to {high}");
                prop_assert!(low <= u32::from(nullable) || span_of(&spans, low - 1) < found);
                prop_assert!(high >= most || span_of(&spans, high + 1) > found);
            }
        }
    }
}
