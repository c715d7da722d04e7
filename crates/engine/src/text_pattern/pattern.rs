//! Patterns, and the rows of arrays that match them.

use crate::text_stretch::stretch;
use arrow::array::{
    Array, AsArray, BooleanArray, ByteView, GenericStringArray, MAX_INLINE_VIEW_LEN,
    OffsetSizeTrait, StringViewArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use memchr::memmem::Finder;

/// A pattern of `LIKE` of texts and `%`, of which at least one text is between two `%`.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// What a string begins with, before the first `%`.
    prefix: Box<[u8]>,
    /// What a string ends with, after the last `%`.
    suffix: Box<[u8]>,
    /// The texts in between, in order.
    texts: Vec<Text>,
    /// Number of the longest of them.
    longest: usize,
}

/// A text to search for.
#[derive(Debug, Clone)]
struct Text {
    finder: Finder<'static>,
    /// Its bytes as a number and those that they take up, if it fits into a view.
    inline: Option<(u128, u128)>,
}

impl Text {
    fn new(text: &str) -> Self {
        let fits = text.len() <= MAX_INLINE_VIEW_LEN as usize;
        let mut bytes = [0; 16];
        if fits {
            bytes[..text.len()].copy_from_slice(text.as_bytes());
        }
        let mask = (1 << (8 * text.len().min(15))) - 1;
        Text {
            finder: Finder::new(text.as_bytes()).into_owned(),
            inline: fits.then(|| (u128::from_le_bytes(bytes), mask)),
        }
    }

    fn length(&self) -> usize {
        self.finder.needle().len()
    }

    /// Where the text is in the bytes of a number from `start` to `end`, of which there are too few
    /// for a `Finder` to be quick.
    fn find_inline(&self, bytes: u128, start: usize, end: usize) -> Option<usize> {
        let (text, mask) = self.inline?;
        let last = end.checked_sub(self.length())?;
        let mut rest = bytes >> (8 * start);
        for at in start..=last {
            if rest & mask == text {
                return Some(at);
            }
            rest >>= 8;
        }
        None
    }
}

impl Pattern {
    /// `None` for all others: DataFusion is quick with `%text`, and knows the rules for `_` and for
    /// `\`; for `text%` see [`super::prefix`].
    pub fn of(like: &str) -> Option<Self> {
        if like.contains(['_', '\\']) {
            return None;
        }
        let (prefix, rest) = like.split_once('%')?;
        let (middle, suffix) = rest.rsplit_once('%')?;
        let texts = middle.split('%').filter(|text| !text.is_empty());
        let texts: Vec<_> = texts.map(Text::new).collect();
        let by_length = texts.iter().enumerate();
        let (longest, _) = by_length.max_by_key(|(_, text)| text.length())?;
        Some(Pattern {
            prefix: prefix.as_bytes().into(),
            suffix: suffix.as_bytes().into(),
            texts,
            longest,
        })
    }

    /// Whether the strings of an array match, or do not if `negated`; NULL for NULL. `None` if the
    /// array is none of strings.
    pub fn evaluate(&self, array: &dyn Array, negated: bool) -> Option<BooleanArray> {
        let found = match array.data_type() {
            DataType::Utf8 => self.in_offsets(array.as_string::<i32>(), negated),
            DataType::LargeUtf8 => self.in_offsets(array.as_string::<i64>(), negated),
            DataType::Utf8View => self.in_views(array.as_string_view(), negated),
            _ => return None,
        };
        Some(BooleanArray::new(found, array.nulls().cloned()))
    }

    fn in_offsets<O: OffsetSizeTrait>(
        &self,
        array: &GenericStringArray<O>,
        negated: bool,
    ) -> BooleanBuffer {
        let offsets = array.value_offsets();
        let [start, end] =
            [offsets.first(), offsets.last()].map(|at| at.map_or(0, |at| at.as_usize()));
        let mut search = Search::new(self, &array.value_data()[..end], start);
        BooleanBuffer::collect_bool(array.len(), |row| {
            let (start, end) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
            search.matches(start, end) != negated
        })
    }

    fn in_views(&self, array: &StringViewArray, negated: bool) -> BooleanBuffer {
        let views = array.views();
        let Some((bytes, start)) = stretch(array) else {
            return BooleanBuffer::collect_bool(array.len(), |row| {
                array.is_valid(row) && self.matches(array.value(row).as_bytes()) != negated
            });
        };
        let mut search = Search::new(self, bytes, start);
        BooleanBuffer::collect_bool(array.len(), |row| {
            let view = ByteView::from(views[row]);
            let length = view.length as usize;
            let matches = match view.length <= MAX_INLINE_VIEW_LEN {
                true => self.matches_inline(views[row] >> 32, length),
                false => search.matches(view.offset as usize, view.offset as usize + length),
            };
            matches != negated
        })
    }

    /// Whether one string matches.
    fn matches(&self, text: &[u8]) -> bool {
        let Some(mut rest) = self.inner(text) else {
            return false;
        };
        self.texts.iter().all(|text| match text.finder.find(rest) {
            Some(at) => {
                rest = &rest[at + text.length()..];
                true
            }
            None => false,
        })
    }

    /// A string between the prefix and the suffix; `None` if it does not have them.
    fn inner<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        // An empty box has no memory at its address, and the C library compares no bytes there with
        // an instruction that then takes a hundred times as long (measured on Zen 5).
        let rest = match self.prefix.is_empty() {
            true => text,
            false => text.strip_prefix(&*self.prefix)?,
        };
        match self.suffix.is_empty() {
            true => Some(rest),
            false => rest.strip_suffix(&*self.suffix),
        }
    }

    /// Whether a string matches that is the first bytes of a number.
    fn matches_inline(&self, bytes: u128, length: usize) -> bool {
        let text = bytes.to_le_bytes();
        let Some(inner) = self.inner(&text[..length]) else {
            return false;
        };
        let mut start = self.prefix.len();
        let end = start + inner.len();
        self.texts.iter().all(|text| {
            let at = text.find_inline(bytes, start, end);
            start = at.map_or(start, |at| at + text.length());
            at.is_some()
        })
    }
}

/// A search for the longest text of a pattern through strings that follow each other.
struct Search<'a> {
    pattern: &'a Pattern,
    bytes: &'a [u8],
    /// Where the text is next, at or after the start of the last string; `None` if nowhere.
    next: Option<usize>,
}

impl<'a> Search<'a> {
    /// Finds the text at or after `start`, where the first string is.
    fn new(pattern: &'a Pattern, bytes: &'a [u8], start: usize) -> Self {
        let mut search = Search {
            pattern,
            bytes,
            next: None,
        };
        search.find(start);
        search
    }

    fn longest(&self) -> &'a Text {
        &self.pattern.texts[self.pattern.longest]
    }

    fn find(&mut self, start: usize) {
        let found = self.longest().finder.find(&self.bytes[start..]);
        self.next = found.map(|at| start + at);
    }

    /// Whether the string from `start` to `end` matches. No string may start before the last one.
    fn matches(&mut self, start: usize, end: usize) -> bool {
        if self.next.is_some_and(|next| next < start) {
            self.find(start);
        }
        let length = self.longest().length();
        let is_here = self.next.is_some_and(|next| next + length <= end);
        is_here && self.pattern.matches(&self.bytes[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, LargeStringArray, StringArray, UInt32Array};
    use arrow::compute::kernels::comparison::{like, nlike};
    use arrow::compute::take;
    use proptest::prelude::*;
    use std::sync::Arc;

    #[test]
    fn other_patterns_are_left_to_datafusion() {
        for like in [
            "", "%", "%%", "a", "a%", "%a", "a%b", "%a_b%", r"%a\%b%", "%a%\\",
        ] {
            assert!(Pattern::of(like).is_none(), "{like}");
        }
        for like in ["%a%", "%a%b", "a%b%c", "%%a%%", "% %"] {
            assert!(Pattern::of(like).is_some(), "{like}");
        }
    }

    /// The array and parts of it whose rows are in other places, in another order, or repeated.
    fn forms(strings: &[Option<String>], rows: &[u32]) -> Vec<ArrayRef> {
        let all: [ArrayRef; 3] = [
            Arc::new(StringArray::from_iter(strings)),
            Arc::new(LargeStringArray::from_iter(strings)),
            Arc::new(StringViewArray::from_iter(strings)),
        ];
        let rows = rows.iter().map(|row| row % strings.len() as u32);
        let rows = UInt32Array::from_iter_values(rows);
        let forms = all.into_iter().flat_map(|array| {
            let some = take(&array, &rows, None).unwrap();
            let part = array.slice(strings.len() / 3, strings.len() / 2);
            let short = take(
                &part,
                &UInt32Array::from_iter_values(0..part.len() as u32),
                None,
            );
            [array, some, part, short.unwrap()]
        });
        forms.collect()
    }

    fn check(strings: &[Option<String>], rows: &[u32], text: &str) {
        let Some(pattern) = Pattern::of(text) else {
            return;
        };
        for array in forms(strings, rows) {
            let cast = arrow::compute::cast(&StringArray::from(vec![text]), array.data_type());
            let scalar = arrow::array::Scalar::new(cast.unwrap());
            let expected = [
                like(&array, &scalar).unwrap(),
                nlike(&array, &scalar).unwrap(),
            ];
            for (negated, expected) in [false, true].into_iter().zip(expected) {
                let found = pattern.evaluate(&array, negated).unwrap();
                assert_eq!(found, expected, "{text} {array:?}");
            }
        }
    }

    #[test]
    fn a_text_across_the_border_of_two_rows_is_in_neither() {
        let strings = [
            "the end of a row spec",
            "ial is here",
            "special and requests",
            "requests ",
        ];
        let strings: Vec<_> = strings.map(|text| Some(text.to_owned())).into();
        for text in [
            "%special%",
            "%special%requests%",
            "%c%l %",
            "%row spec%",
            "the%a%c",
        ] {
            check(&strings, &[3, 0, 0, 2, 1], text);
        }
    }

    proptest! {
        #[test]
        fn rows_match_as_with_the_kernel_of_arrow(
            strings in prop::collection::vec(prop::option::of("[abé]{0,12}|[abé]{9,30}"), 1..60),
            rows in prop::collection::vec(any::<u32>(), 0..40),
            text in "[abé]{0,2}%[abé]{0,3}%{0,2}[abé]{0,2}%[abé]{0,2}",
        ) {
            check(&strings, &rows, &text);
        }
    }
}
