//! Patterns that are a text at the begin.

use arrow::array::{Array, AsArray, BooleanArray, ByteView, MAX_INLINE_VIEW_LEN};
use arrow::buffer::BooleanBuffer;

/// Bytes of a string that every view has.
const IN_VIEW: usize = 4;

/// The text before the only `%`.
#[derive(Debug, Clone)]
pub(super) struct Prefix {
    text: Box<[u8]>,
    /// Its first bytes where a view has those of its string, and the bits that they take up.
    first: (u128, u128),
    /// Same with the bytes of a short string.
    inline: (u128, u128),
}

impl Prefix {
    /// `None` for other patterns.
    pub fn of(like: &str) -> Option<Self> {
        let text = like.strip_suffix('%')?.as_bytes();
        if text.is_empty() || like[..text.len()].contains(['%', '_', '\\']) {
            return None;
        }
        let up_to = |bytes: usize| {
            let count = text.len().min(bytes);
            let (mut value, mut mask) = ([0; 16], [0; 16]);
            value[IN_VIEW..IN_VIEW + count].copy_from_slice(&text[..count]);
            mask[IN_VIEW..IN_VIEW + count].fill(u8::MAX);
            (u128::from_le_bytes(value), u128::from_le_bytes(mask))
        };
        Some(Prefix {
            first: up_to(IN_VIEW),
            inline: up_to(MAX_INLINE_VIEW_LEN as usize),
            text: text.into(),
        })
    }

    /// Whether the strings of views begin with it, or do not if `negated`; NULL for NULL. `None`
    /// for other arrays, in which DataFusion is quick.
    pub fn evaluate(&self, array: &dyn Array, negated: bool) -> Option<BooleanArray> {
        let strings = array.as_string_view_opt()?;
        let (views, buffers) = (strings.views(), strings.data_buffers());
        let length = self.text.len();
        let has = |view: u128, (bytes, mask): (u128, u128)| view & mask == bytes;
        let found = BooleanBuffer::collect_bool(views.len(), |row| {
            let view = ByteView::from(views[row]);
            let (start, size) = (view.offset as usize, view.length as usize);
            let begins = size >= length
                && has(views[row], self.first)
                && match view.length <= MAX_INLINE_VIEW_LEN {
                    true => has(views[row], self.inline),
                    false if length <= IN_VIEW => true,
                    // What is under a NULL may point anywhere.
                    false => buffers
                        .get(view.buffer_index as usize)
                        .and_then(|buffer| buffer.get(start..start + length))
                        .is_some_and(|bytes| *bytes == *self.text),
                };
            begins != negated
        });
        Some(BooleanArray::new(found, strings.nulls().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Scalar, StringArray, StringViewArray};
    use arrow::compute::kernels::comparison::{like, nlike};
    use proptest::prelude::*;

    #[test]
    fn other_patterns_are_left() {
        for like in ["", "%", "%%", "a", "%a", "a%b", "a%%", "a_b%", r"a\%", "_%"] {
            assert!(Prefix::of(like).is_none(), "{like}");
        }
        let offsets = StringArray::from(vec!["ab", "b"]);
        assert!(
            Prefix::of("a%")
                .unwrap()
                .evaluate(&offsets, false)
                .is_none()
        );
    }

    proptest! {
        #[test]
        fn rows_begin_with_it_as_with_the_kernel_of_arrow(
            strings in proptest::collection::vec(proptest::option::of("[ab\0]{0,18}"), 1..40),
            text in "[ab\0]{1,16}",
        ) {
            let array = StringViewArray::from_iter(&strings);
            let pattern = format!("{text}%");
            let scalar = Scalar::new(StringViewArray::from(vec![pattern.as_str()]));
            let prefix = Prefix::of(&pattern).unwrap();
            for array in [array.clone(), array.slice(array.len() / 2, array.len() - array.len() / 2)] {
                let found = prefix.evaluate(&array, false).unwrap();
                prop_assert_eq!(found, like(&array, &scalar).unwrap());
                let found = prefix.evaluate(&array, true).unwrap();
                prop_assert_eq!(found, nlike(&array, &scalar).unwrap());
            }
        }
    }
}
