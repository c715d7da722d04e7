//! Codes divided into spans of the same length, as seconds into hours.

/// A column whose codes are the numbers of spans in which another column's codes lie.
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
    /// Codes that would have been in the first span before the first code that is not NULL.
    pub offset: u32,
    /// Codes of a span, at least 2.
    pub length: u32,
}

impl Spans {
    /// The first and the last code that may be in span `span`, which is not that of NULL.
    pub fn codes(&self, span: u32) -> (u32, u32) {
        let first = u64::from(self.nullable);
        let begin = (u64::from(span) - first) * u64::from(self.length);
        let code = |at: u64| at.saturating_sub(u64::from(self.offset)) + first;
        let end = code(begin + u64::from(self.length)) - 1;
        (code(begin) as u32, u32::try_from(end).unwrap_or(u32::MAX))
    }

    /// Writes the spans of `codes` to `out`. Codes and offset together are below 2^32.
    pub(crate) fn divide(&self, codes: &[u32], out: &mut [u32]) {
        // Multiplies by the reciprocal, rounded up to 64 bits behind the point, which is exact for
        // numbers and divisors of 32 bits (Lemire, Kaser and Kurz, "Faster remainder by direct
        // computation", 2019, theorem 1).
        let reciprocal = u64::MAX / u64::from(self.length) + 1;
        let divided = |number: u32| ((u128::from(reciprocal) * u128::from(number)) >> 64) as u32;
        if self.nullable {
            // The code before the first one becomes 0 below, whatever its quotient is.
            for (out, code) in out.iter_mut().zip(codes) {
                let number = code.wrapping_sub(1).wrapping_add(self.offset);
                *out = if *code == 0 { 0 } else { divided(number) + 1 };
            }
        } else {
            for (out, code) in out.iter_mut().zip(codes) {
                *out = divided(code.wrapping_add(self.offset));
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
        let first = u32::from(spans.nullable);
        match code.checked_sub(first) {
            Some(code) => (code + spans.offset) / spans.length + first,
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
            let spans = Spans { column: 0, nullable, offset, length };
            let most = u32::MAX - offset;
            let codes: Vec<u32> = codes.into_iter().map(|code| code % most).collect();
            let mut found = vec![7; codes.len()];
            spans.divide(&codes, &mut found);
            for (code, found) in codes.iter().zip(found) {
                prop_assert_eq!(found, span_of(&spans, *code), "{}", code);
                if nullable && *code == 0 {
                    prop_assert_eq!(found, 0);
                    continue;
                }
                let first = u64::from(nullable);
                let number = u64::from(*code) - first + u64::from(offset);
                prop_assert_eq!(u64::from(found) - first, number / u64::from(length));
                let (low, high) = spans.codes(found);
                prop_assert!((low..=high).contains(code), "{code} of {low} to {high}");
                prop_assert!(low <= u32::from(nullable) || span_of(&spans, low - 1) < found);
                prop_assert!(high >= most || span_of(&spans, high + 1) > found);
            }
        }
    }
}
