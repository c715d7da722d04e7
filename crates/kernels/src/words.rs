//! Arithmetic on columns of 64-bit words, which are integers or the bits of floats.

/// An operation on two words of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordOp {
    /// The sum of integers, which wraps around.
    Add,
    /// The difference of integers, which wraps around.
    Sub,
    /// The product of integers, which wraps around.
    Mul,
    /// 1 where the first integer is less than the second one, 0 elsewhere.
    Less,
    /// The same, of floats.
    OfFloats(FloatOp),
}

/// An operation on two floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatOp {
    /// The sum.
    Add,
    /// The first one minus the second one.
    Sub,
    /// The product.
    Mul,
    /// The quotient; that by 0 is infinite, or NaN.
    Div,
    /// 1 where the first one is less than the second one, 0 elsewhere, as an integer. Both zeros
    /// are equal, and NaN is more than all others.
    Less,
    /// 1 where both are equal in this order, 0 elsewhere, as an integer.
    Equal,
}

/// Largest magnitude of whole numbers for [`FloatFunction::Whole`].
pub const MOST_WHOLE: i64 = 1 << 51;

/// A function of a float.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatFunction {
    /// The negative.
    Negative,
    /// The magnitude.
    Abs,
    /// The square root.
    Sqrt,
    /// The largest whole number that is not larger.
    Floor,
    /// The smallest whole number that is not smaller.
    Ceil,
    /// The nearest whole number; of two, that with the larger magnitude.
    Round,
    /// The natural logarithm.
    Ln,
    /// The power of e.
    Exp,
    /// The same, with the positive NaN in the place of any.
    OneNan,
    /// The nearest float of 32 bits, as one of 64.
    Narrow,
    /// The place in the order of `f64::total_cmp`, as an integer.
    Rank,
    /// The integer that a whole number of at most [`MOST_WHOLE`] is; anything for others.
    Whole,
}

/// The word of a float.
#[inline(always)]
#[must_use]
pub fn word(value: f64) -> i64 {
    value.to_bits() as i64
}

/// The float of a word.
#[inline(always)]
#[must_use]
pub fn float(word: i64) -> f64 {
    f64::from_bits(word as u64)
}

/// The place of a float in the order of `f64::total_cmp`; that of its rank is its word again.
#[inline(always)]
#[must_use]
pub fn rank(word: i64) -> i64 {
    // Negative floats run backwards: all bits but the sign are turned.
    word ^ ((word >> 63) as u64 >> 1) as i64
}

/// Defines a function that is compiled for processors with AVX-512 as well, which compare and
/// convert words where SSE2 has to take them one by one.
macro_rules! for_processor {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        pub fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn plain($($argument: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq")]
                fn wide($($argument: $type),*) $(-> $result)? {
                    plain($($argument),*)
                }
                if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                    // SAFETY: the processor has both features, which were just checked.
                    return unsafe { wide($($argument),*) };
                }
            }
            plain($($argument),*)
        }
    };
}

pub(crate) use for_processor;

/// The second operand of an operation.
#[derive(Debug, Clone, Copy)]
pub enum Right<'a> {
    /// A word per row.
    Words(&'a [i64]),
    /// The same word for all rows.
    Constant(i64),
}

for_processor! {
    /// Replaces each word of `left` by the result of an operation on it and the one of `right`.
    combine(op: WordOp, left: &mut [i64], right: Right<'_>) {
        #[inline(always)]
        fn each(left: &mut [i64], right: Right<'_>, combined: impl Fn(i64, i64) -> i64) {
            match right {
                Right::Words(right) => {
                    let pairs = left.iter_mut().zip(right);
                    pairs.for_each(|(a, b)| *a = combined(*a, *b));
                }
                Right::Constant(b) => left.iter_mut().for_each(|a| *a = combined(*a, b)),
            }
        }
        #[inline(always)]
        fn floats(left: &mut [i64], right: Right<'_>, combined: impl Fn(f64, f64) -> f64) {
            each(left, right, |a, b| word(combined(float(a), float(b))));
        }
        #[inline(always)]
        fn flags(left: &mut [i64], right: Right<'_>, holds: impl Fn(f64, f64) -> bool) {
            each(left, right, |a, b| i64::from(holds(float(a), float(b))));
        }
        match op {
            WordOp::Add => each(left, right, i64::wrapping_add),
            WordOp::Sub => each(left, right, i64::wrapping_sub),
            WordOp::Mul => each(left, right, i64::wrapping_mul),
            WordOp::Less => each(left, right, |a, b| i64::from(a < b)),
            WordOp::OfFloats(FloatOp::Add) => floats(left, right, |a, b| a + b),
            WordOp::OfFloats(FloatOp::Sub) => floats(left, right, |a, b| a - b),
            WordOp::OfFloats(FloatOp::Mul) => floats(left, right, |a, b| a * b),
            WordOp::OfFloats(FloatOp::Div) => floats(left, right, |a, b| a / b),
            WordOp::OfFloats(FloatOp::Less) => {
                flags(left, right, |a, b| (a < b) | (b.is_nan() & !a.is_nan()));
            }
            WordOp::OfFloats(FloatOp::Equal) => {
                flags(left, right, |a, b| (a == b) | (a.is_nan() & b.is_nan()));
            }
        }
    }
}

for_processor! {
    /// Replaces each float by a function of it.
    apply(function: FloatFunction, values: &mut [i64]) {
        #[inline(always)]
        fn each(values: &mut [i64], f: impl Fn(f64) -> f64) {
            values.iter_mut().for_each(|v| *v = word(f(float(*v))));
        }
        match function {
            FloatFunction::Negative => each(values, |v| -v),
            FloatFunction::Abs => each(values, f64::abs),
            FloatFunction::Sqrt => each(values, f64::sqrt),
            FloatFunction::Floor => each(values, f64::floor),
            FloatFunction::Ceil => each(values, f64::ceil),
            FloatFunction::Round => each(values, f64::round),
            FloatFunction::Ln => each(values, f64::ln),
            FloatFunction::Exp => each(values, f64::exp),
            FloatFunction::Narrow => each(values, |v| f64::from(v as f32)),
            FloatFunction::OneNan => each(values, |v| if v.is_nan() { f64::NAN } else { v }),
            FloatFunction::Whole => {
                // Added to it, whole numbers are the last bits.
                let zero = (MOST_WHOLE * 3) as f64;
                let whole = |v: i64| word(float(v) + zero).wrapping_sub(word(zero));
                values.iter_mut().for_each(|v| *v = whole(*v));
            }
            FloatFunction::Rank => values.iter_mut().for_each(|v| *v = rank(*v)),
        }
    }
}

for_processor! {
    /// Writes the words of floats of 32 bits as those of 64.
    widen(floats: &[f32], out: &mut [i64]) {
        let pairs = out.iter_mut().zip(floats);
        pairs.for_each(|(out, float)| *out = word(f64::from(*float)));
    }
}

for_processor! {
    /// Replaces each integer by the bits of the nearest float divided by `unit`.
    to_floats(values: &mut [i64], unit: f64) {
        match unit {
            1.0 => values.iter_mut().for_each(|v| *v = word(*v as f64)),
            _ => values.iter_mut().for_each(|v| *v = word(*v as f64 / unit)),
        }
    }
}

for_processor! {
    /// Replaces each integer by 1 if it is from `low` to `high`, both included, and else by 0.
    within(values: &mut [i64], low: i64, high: i64) {
        let inside = |v: i64| i64::from((low <= v) & (v <= high));
        values.iter_mut().for_each(|v| *v = inside(*v));
    }
}

for_processor! {
    /// Replaces each word of `flags` by that of `then` where it is not 0, and else by that of
    /// `other`.
    choose(flags: &mut [i64], then: &[i64], other: &[i64]) {
        let values = then.iter().zip(other);
        for (flag, (then, other)) in flags.iter_mut().zip(values) {
            *flag = if *flag != 0 { *then } else { *other };
        }
    }
}

for_processor! {
    /// Replaces the words whose flag is false by `other`.
    keep_or(values: &mut [i64], flags: &[bool], other: i64) {
        for (value, flag) in values.iter_mut().zip(flags) {
            *value = if *flag { *value } else { other };
        }
    }
}

for_processor! {
    /// Writes whether each word is not 0, and adds it to what `flags` says already if `and`.
    not_zero(values: &[i64], flags: &mut [bool], and: bool) {
        let pairs = flags.iter_mut().zip(values);
        match and {
            true => pairs.for_each(|(flag, value)| *flag &= *value != 0),
            false => pairs.for_each(|(flag, value)| *flag = *value != 0),
        }
    }
}

for_processor! {
    /// Writes the whole quotient of `word - begin` and `length` for each word, plus `first`.
    ///
    /// The differences have to be from 0 to 2^63 - 1 and the quotients to fit 32 bits; any number
    /// is written for others.
    divide(words: &[i64], begin: i64, length: i64, first: u32, out: &mut [u32]) {
        let reciprocal = 1.0 / length as f64;
        for (out, word) in out.iter_mut().zip(words) {
            let number = word.wrapping_sub(begin);
            // Such a quotient is right to less than 1, and the remainder tells.
            let near = (number as f64 * reciprocal) as i64;
            let rest = number.wrapping_sub(near.wrapping_mul(length));
            let exact = near + i64::from(rest >= length) - i64::from(rest < 0);
            *out = (exact as u32).wrapping_add(first);
        }
    }
}

/// A bit per row, as Arrow keeps them: from the lowest bit of a byte to its highest.
#[derive(Debug, Clone, Copy)]
pub struct Bits<'a> {
    /// The bits of the rows.
    pub bytes: &'a [u8],
    /// Number of the first row's bit.
    pub offset: usize,
}

impl Bits<'_> {
    /// Whether the bit of a row is set.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, row: usize) -> bool {
        let at = self.offset + row;
        self.bytes[at / 8] >> (at % 8) & 1 == 1
    }
}

/// Writes the bits of the rows from `start` on, as 0 and 1.
#[inline(always)]
fn unpack<T: From<bool>>(bits: Bits<'_>, start: usize, out: &mut [T]) {
    let first = bits.offset + start;
    // Up to the start of a byte one by one.
    let lone = out.len().min((8 - first % 8) % 8);
    let (single, whole) = out.split_at_mut(lone);
    for (row, out) in single.iter_mut().enumerate() {
        *out = bits.get(start + row).into();
    }
    let bytes = &bits.bytes[(first + lone) / 8..];
    for (chunk, byte) in whole.chunks_mut(8).zip(bytes) {
        for (at, out) in chunk.iter_mut().enumerate() {
            *out = (byte & 1 << at != 0).into();
        }
    }
}

for_processor! {
    /// Writes the bits of the rows from `start` on, as 0 and 1.
    unpack_bits(bits: Bits<'_>, start: usize, out: &mut [u32]) {
        unpack(bits, start, out);
    }
}

for_processor! {
    /// Writes the bits of the rows from `start` on, as the words 0 and 1.
    unpack_words(bits: Bits<'_>, start: usize, out: &mut [i64]) {
        unpack(bits, start, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    /// Any bits, small integers, and floats that are special.
    fn words() -> impl Strategy<Value = i64> {
        let special = [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1.5,
            -1.5,
        ];
        prop_oneof![
            any::<i64>().prop_map(|v| if float(v).is_nan() { word(f64::NAN) } else { v }),
            -5_i64..5,
            prop::sample::select(special.map(word).to_vec()),
        ]
    }

    /// The order of floats in SQL.
    fn order(a: f64, b: f64) -> Ordering {
        a.partial_cmp(&b)
            .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }

    proptest! {
        #[test]
        fn operations_are_those_of_one_row_at_any_length(
            rows in prop::collection::vec((words(), words(), words()), 0..70),
        ) {
            let (a, b): (Vec<i64>, Vec<i64>) = rows.iter().map(|(a, b, _)| (*a, *b)).unzip();
            let third: Vec<i64> = rows.iter().map(|row| row.2).collect();
            let of = |f: fn(f64, f64) -> f64| {
                move |a: i64, b: i64| word(f(float(a), float(b)))
            };
            let check = |op: WordOp, expected: &dyn Fn(i64, i64) -> i64| {
                let mut found = a.clone();
                combine(op, &mut found, Right::Words(&b));
                let rows = a.iter().zip(&b).map(|(a, b)| expected(*a, *b));
                let is_nan = |w: &i64| float(*w).is_nan();
                for (found, expected) in found.iter().zip(rows) {
                    // The sign of a NaN depends on the processor.
                    assert!(*found == expected || is_nan(found) && is_nan(&expected), "{op:?}");
                }
                for constant in b.iter().take(3) {
                    let (mut one, mut same) = (a.clone(), a.clone());
                    combine(op, &mut one, Right::Constant(*constant));
                    combine(op, &mut same, Right::Words(&vec![*constant; a.len()]));
                    assert!(one.iter().zip(&same).all(|(a, b)| a == b || is_nan(a) && is_nan(b)));
                }
            };
            check(WordOp::Add, &i64::wrapping_add);
            check(WordOp::Sub, &i64::wrapping_sub);
            check(WordOp::Mul, &i64::wrapping_mul);
            check(WordOp::Less, &|a, b| i64::from(a < b));
            check(WordOp::OfFloats(FloatOp::Add), &of(|a, b| a + b));
            check(WordOp::OfFloats(FloatOp::Sub), &of(|a, b| a - b));
            check(WordOp::OfFloats(FloatOp::Mul), &of(|a, b| a * b));
            check(WordOp::OfFloats(FloatOp::Div), &of(|a, b| a / b));
            let holds = |wanted: Ordering| {
                move |a, b| i64::from(order(float(a), float(b)) == wanted)
            };
            check(WordOp::OfFloats(FloatOp::Less), &holds(Ordering::Less));
            check(WordOp::OfFloats(FloatOp::Equal), &holds(Ordering::Equal));
            let mut flags = a.clone();
            within(&mut flags, -1, 3);
            let expected: Vec<i64> = a.iter().map(|v| i64::from((-1..=3).contains(v))).collect();
            prop_assert_eq!(&flags, &expected);
            choose(&mut flags, &b, &third);
            let chosen = expected.iter().zip(b.iter().zip(&third));
            let chosen: Vec<i64> = chosen.map(|(f, (b, c))| if *f == 1 { *b } else { *c }).collect();
            prop_assert_eq!(flags, chosen);
        }

        #[test]
        fn functions_are_those_of_one_float(
            values in prop::collection::vec(words(), 0..40),
        ) {
            use FloatFunction::{Abs, Ceil, Exp, Floor, Ln, Narrow, Negative, OneNan, Round, Sqrt};
            type Function = fn(f64) -> f64;
            let functions: [(FloatFunction, Function); 10] = [
                (Negative, |v| -v),
                (Abs, f64::abs),
                (Sqrt, f64::sqrt),
                (Floor, f64::floor),
                (Ceil, f64::ceil),
                (Round, f64::round),
                (Ln, f64::ln),
                (Exp, f64::exp),
                (OneNan, |v| v),
                (Narrow, |v| f64::from(v as f32)),
            ];
            for (function, expected) in functions {
                let mut found = values.clone();
                apply(function, &mut found);
                for (found, value) in found.iter().zip(&values) {
                    let (found, expected) = (float(*found), expected(float(*value)));
                    prop_assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan());
                    prop_assert!(function != OneNan || !found.is_nan() || found.is_sign_positive());
                }
            }
            let mut ranks = values.clone();
            apply(FloatFunction::Rank, &mut ranks);
            for (rank, value) in ranks.iter().zip(&values) {
                prop_assert_eq!(super::rank(*rank), *value);
                let least = ranks[0].cmp(rank);
                prop_assert_eq!(least, float(values[0]).total_cmp(&float(*value)));
            }
            let wholes = values.iter().map(|v| v % (MOST_WHOLE + 1));
            let wholes: Vec<i64> = wholes.chain([MOST_WHOLE, -MOST_WHOLE]).collect();
            let mut found: Vec<i64> = wholes.iter().map(|v| word(*v as f64)).collect();
            apply(FloatFunction::Whole, &mut found);
            prop_assert_eq!(&found, &wholes);
            // Other floats may give anything, and no panic.
            apply(FloatFunction::Whole, &mut values.clone());
            let narrow: Vec<f32> = values.iter().map(|v| float(*v) as f32).collect();
            let mut wide = vec![0; narrow.len()];
            widen(&narrow, &mut wide);
            for (word, narrow) in wide.iter().zip(&narrow) {
                let wide = float(*word);
                prop_assert!(wide == f64::from(*narrow) || wide.is_nan() && narrow.is_nan());
            }
            for unit in [1.0, 100.0, 0.3] {
                let mut found = values.clone();
                to_floats(&mut found, unit);
                let expected: Vec<i64> = values.iter().map(|v| word(*v as f64 / unit)).collect();
                prop_assert_eq!(found, expected);
            }
        }

        #[test]
        fn bits_and_flags_are_those_of_each_row(
            bytes in prop::collection::vec(any::<u8>(), 12),
            offset in 0_usize..20,
            start in 0_usize..20,
            rows in 0_usize..56,
        ) {
            let bits = Bits { bytes: &bytes, offset };
            let mut found = vec![7; rows];
            unpack_bits(bits, start, &mut found);
            let bit = |row: usize| bytes[(offset + start + row) / 8] >> ((offset + start + row) % 8) & 1;
            let expected: Vec<u32> = (0..rows).map(|row| u32::from(bit(row))).collect();
            prop_assert_eq!(&found, &expected);
            let mut words = vec![7; rows];
            unpack_words(bits, start, &mut words);
            prop_assert!(words.iter().zip(&expected).all(|(word, bit)| *word == i64::from(*bit)));
            let mut words: Vec<i64> = expected.iter().map(|bit| i64::from(*bit) * 5).collect();
            let mut flags = vec![false; rows];
            not_zero(&words, &mut flags, false);
            prop_assert!(flags.iter().zip(&expected).all(|(flag, bit)| *flag == (*bit == 1)));
            keep_or(&mut words, &flags, -2);
            let kept = |flag: bool| if flag { 5 } else { -2 };
            prop_assert!(words.iter().zip(&flags).all(|(word, flag)| *word == kept(*flag)));
            let thirds: Vec<i64> = (0..rows as i64).map(|row| row % 3).collect();
            not_zero(&thirds, &mut flags, true);
            let both = |row: usize| bit(row) == 1 && !row.is_multiple_of(3);
            prop_assert!(flags.iter().enumerate().all(|(row, flag)| *flag == both(row)));
        }

        #[test]
        fn quotients_are_whole_and_exact(
            length in prop_oneof![1_i64..50, 1_i64..1 << 45],
            begin in -(1_i64 << 62)..1 << 62,
            rows in prop::collection::vec((0_u32..1 << 20, any::<u64>(), any::<bool>()), 0..40),
        ) {
            let numbers = rows.iter().map(|(quotient, rest, at_end)| {
                let rest = if *at_end { length - 1 } else { (rest % length as u64) as i64 };
                let number = i64::from(*quotient).checked_mul(length)?.checked_add(rest)?;
                Some((begin.checked_add(number)?, *quotient + 1))
            });
            let (words, expected): (Vec<i64>, Vec<u32>) = numbers.flatten().unzip();
            let mut found = vec![0; words.len()];
            divide(&words, begin, length, 1, &mut found);
            prop_assert_eq!(found, expected);
        }
    }
}
