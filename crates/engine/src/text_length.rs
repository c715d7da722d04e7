//! Characters of strings, counted for a whole batch at once.
//!
//! DataFusion looks for a character of several bytes in each string, which begins at other cache
//! lines. The strings of a placed column follow each other in memory: one pass finds where the next
//! such character is, and the length of a string before it is in its view.

use crate::text_stretch::stretch;
use arrow::array::{
    Array, ArrayRef, AsArray, ByteView, Int32Array, MAX_INLINE_VIEW_LEN, StringViewArray,
};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions::unicode;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// The highest bit of each byte of a short string in its view, whose first four have the length.
const HIGHEST_BITS: u128 = 0x8080_8080_8080_8080_8080_8080_0000_0000;

/// Bytes that are looked at for one that is not ASCII before the place of it matters.
const AT_ONCE: usize = 64;

/// DataFusion's function for a session, with less time for views.
pub(crate) fn character_length() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(CharacterLength {
        general: unicode::character_length(),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CharacterLength {
    general: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for CharacterLength {
    fn name(&self) -> &str {
        self.general.name()
    }

    fn aliases(&self) -> &[String] {
        self.general.aliases()
    }

    fn signature(&self) -> &Signature {
        self.general.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.general.return_type(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.general.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Array(array)] = &args.args[..]
            && let Some(strings) = array.as_string_view_opt()
            && let Some(lengths) = lengths(strings)
        {
            return Ok(ColumnarValue::Array(lengths));
        }
        self.general.invoke_with_args(args)
    }
}

/// Characters of each string; `None` if they do not follow each other.
fn lengths(strings: &StringViewArray) -> Option<ArrayRef> {
    let (bytes, start) = stretch(strings)?;
    let mut text = Characters {
        bytes,
        wide: next_wide(bytes, start),
    };
    let lengths = strings.views().iter().map(|raw| {
        let view = ByteView::from(*raw);
        let length = view.length as i32;
        match view.length <= MAX_INLINE_VIEW_LEN {
            true => length - continuing_inline(*raw),
            false => {
                let start = view.offset as usize;
                length - text.continuing(start, start + view.length as usize)
            }
        }
    });
    let lengths: Vec<_> = lengths.collect();
    Some(Arc::new(Int32Array::new(
        lengths.into(),
        strings.nulls().cloned(),
    )))
}

/// The bytes of strings that follow each other.
struct Characters<'a> {
    bytes: &'a [u8],
    /// Where the next character of several bytes is, at or after the start of the last string.
    wide: usize,
}

impl Characters<'_> {
    /// Bytes of a string that begin no character. No string may start before the last one.
    fn continuing(&mut self, start: usize, end: usize) -> i32 {
        if self.wide < start {
            self.wide = next_wide(self.bytes, start);
        }
        if self.wide >= end {
            return 0;
        }
        let rest = &self.bytes[self.wide..end];
        rest.iter().filter(|byte| is_continuing(**byte)).count() as i32
    }
}

/// Where the next byte is that is not ASCII, at or after `start`; the end if there is none.
fn next_wide(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    let wide = bytes[start..].chunks(AT_ONCE).find(|chunk| {
        let is_wide = !chunk.is_ascii();
        at += if is_wide { 0 } else { chunk.len() };
        is_wide
    });
    at + wide.map_or(0, |chunk| {
        chunk.iter().take_while(|byte| byte.is_ascii()).count()
    })
}

/// Whether a byte of UTF-8 is one of a character after its first.
fn is_continuing(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes of a short string, given by its view, are so; those after its end are zero.
fn continuing_inline(view: u128) -> i32 {
    (view & !(view << 1) & HIGHEST_BITS).count_ones() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::UInt32Array;
    use arrow::compute::take;
    use proptest::prelude::*;

    fn check(array: &StringViewArray) {
        let expected: Int32Array = array
            .iter()
            .map(|text| text.map(|text| text.chars().count() as i32))
            .collect();
        if let Some(found) = lengths(array) {
            assert_eq!(found.as_primitive(), &expected, "{array:?}");
        }
    }

    #[test]
    fn strings_of_a_column_are_counted_and_those_in_any_order_left() {
        let strings = [
            "long enough for a buffer",
            "short",
            "another one that is long",
        ];
        let array = StringViewArray::from_iter_values(strings);
        assert!(lengths(&array).is_some());
        let turned = take(&array, &UInt32Array::from(vec![2, 0]), None).unwrap();
        assert!(lengths(turned.as_string_view()).is_none());
    }

    proptest! {
        #[test]
        fn lengths_are_those_of_the_characters(
            strings in prop::collection::vec(
                prop::option::of("[a\0é€𝄞]{0,13}|[ab]{13,90}|[ab]{60,70}[é€𝄞]{0,2}[ab]{0,70}"),
                1..40,
            ),
        ) {
            let array = StringViewArray::from_iter(&strings);
            check(&array);
            check(&array.slice(strings.len() / 3, strings.len() / 2));
        }
    }
}
