//! Encodes strings as ranks among their distinct values.
//!
//! One pass interns the strings in order of appearance as 16-bit numbers; sorting the distinct ones
//! then gives the codes, so that codes follow string order.

use super::hash::QuickMap;
use super::{CodeSource, Coded, MOST_LISTED_VALUES, width_for};
use crate::EngineError;
use crate::coded::Domain;
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, LargeStringArray, MAX_INLINE_VIEW_LEN, StringArray,
    StringViewArray, UInt32Array, make_array,
};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use std::sync::Arc;
use tierloom_kernels::codes::{CodeWidth, pack};

/// Codes that are packed at a time.
const BLOCK_ROWS: usize = 16 * 1024;

/// The number of each row's string by order of appearance, and the rank of each number.
pub(super) struct Ranked {
    seen: Vec<u16>,
    rank_of: Vec<u32>,
}

impl Ranked {
    /// Packs the codes of all rows into `out`.
    pub fn write(&self, _nullable: bool, width: CodeWidth, out: &mut [u8]) {
        let mut codes = Vec::with_capacity(BLOCK_ROWS);
        for (index, block) in self.seen.chunks(BLOCK_ROWS).enumerate() {
            codes.clear();
            codes.extend(block.iter().map(|word| self.rank_of[usize::from(*word)]));
            pack(out, width, index * BLOCK_ROWS, &codes);
        }
    }
}

/// A string array of any layout.
#[derive(Clone, Copy)]
enum Strings<'a> {
    Small(&'a StringArray),
    Large(&'a LargeStringArray),
    View(&'a StringViewArray),
}

impl<'a> Strings<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        match array.data_type() {
            DataType::Utf8 => Some(Strings::Small(array.as_string())),
            DataType::LargeUtf8 => Some(Strings::Large(array.as_string())),
            DataType::Utf8View => Some(Strings::View(array.as_string_view())),
            _ => None,
        }
    }

    fn get(&self, row: usize) -> Option<&'a str> {
        match self {
            Strings::Small(a) => a.is_valid(row).then(|| a.value(row)),
            Strings::Large(a) => a.is_valid(row).then(|| a.value(row)),
            Strings::View(a) => a.is_valid(row).then(|| a.value(row)),
        }
    }
}

/// The view of a string of at most 12 bytes: its length and its bytes.
fn inline_view(word: &str) -> u128 {
    let mut bytes = [0; 16];
    bytes[4..4 + word.len()].copy_from_slice(word.as_bytes());
    u128::from_le_bytes(bytes) | word.len() as u128
}

/// The distinct strings found so far.
struct Interner<'a> {
    /// 1 if the column has NULLs, which get number 0.
    first: usize,
    /// Numbers of the strings that fit into a view. They are compared without reading the first row
    /// that has each, which may be anywhere in memory.
    short: QuickMap<u128, u16>,
    long: QuickMap<&'a str, u16>,
    words: Vec<&'a str>,
    seen: Vec<u16>,
    /// Bytes of the strings of all rows, and of those too long for a view.
    text_bytes: usize,
    long_bytes: usize,
}

impl<'a> Interner<'a> {
    /// The number of a string that was not seen before; `None` if there are too many.
    fn next_number(&mut self, word: &'a str) -> Option<u16> {
        // Fails at the 65,537th number, which ends the attempt to encode.
        let number = u16::try_from(self.first + self.words.len()).ok()?;
        self.words.push(word);
        Some(number)
    }

    /// The number of a string; `None` if there are too many distinct ones.
    fn number(&mut self, word: &'a str) -> Option<u16> {
        if word.len() <= MAX_INLINE_VIEW_LEN as usize {
            return self.number_of_view(inline_view(word), || word);
        }
        if let Some(number) = self.long.get(word) {
            return Some(*number);
        }
        let number = self.next_number(word)?;
        self.long.insert(word, number);
        Some(number)
    }

    /// [`Self::number`] of the string of a view that holds all of it.
    #[inline]
    fn number_of_view(&mut self, view: u128, word: impl FnOnce() -> &'a str) -> Option<u16> {
        if let Some(number) = self.short.get(&view) {
            return Some(*number);
        }
        let number = self.next_number(word())?;
        self.short.insert(view, number);
        Some(number)
    }

    /// Adds a row; returns false if there are too many distinct strings.
    fn add(&mut self, word: Option<&'a str>) -> bool {
        let Some(word) = word else {
            self.seen.push(0);
            return true;
        };
        let number = self.number(word);
        self.text_bytes += word.len();
        if word.len() > MAX_INLINE_VIEW_LEN as usize {
            self.long_bytes += word.len();
        }
        self.seen.extend(number);
        number.is_some()
    }

    fn add_strings(&mut self, strings: Strings<'a>, rows: usize) -> bool {
        match strings {
            Strings::View(array) => self.add_views(array),
            _ => (0..rows).all(|row| self.add(strings.get(row))),
        }
    }

    fn add_views(&mut self, array: &'a StringViewArray) -> bool {
        let nulls = array.nulls();
        array.views().iter().enumerate().all(|(row, &view)| {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.seen.push(0);
                return true;
            }
            // The low 32 bits of a view are the length of the string.
            let len = view as u32;
            if len > MAX_INLINE_VIEW_LEN {
                return self.add(Some(array.value(row)));
            }
            self.text_bytes += len as usize;
            let number = self.number_of_view(view, || array.value(row));
            self.seen.extend(number);
            number.is_some()
        })
    }

    /// Adds rows of a dictionary array.
    ///
    /// Each dictionary value is interned once, when a row first uses it.
    fn add_dictionary(&mut self, keys: &[usize], chunk: &dyn Array, strings: Strings<'a>) -> bool {
        let mut numbers: Vec<Option<u16>> = Vec::new();
        keys.iter().enumerate().all(|(row, &key)| {
            if chunk.is_null(row) {
                return self.add(None);
            }
            if numbers.len() <= key {
                numbers.resize(key + 1, None);
            }
            if let Some(number) = numbers[key] {
                self.seen.push(number);
                return true;
            }
            let added = self.add(strings.get(key));
            numbers[key] = self.seen.last().copied();
            added
        })
    }

    /// The strings in ascending order, and the rank of each number.
    fn ranked(self) -> (Vec<&'a str>, Ranked) {
        let mut order: Vec<usize> = (0..self.words.len()).collect();
        order.sort_unstable_by_key(|&word| self.words[word]);
        let mut rank_of = vec![0; self.first + self.words.len()];
        for (rank, &word) in order.iter().enumerate() {
            rank_of[self.first + word] = (self.first + rank) as u32;
        }
        let sorted = order.into_iter().map(|word| self.words[word]).collect();
        let ranked = Ranked {
            seen: self.seen,
            rank_of,
        };
        (sorted, ranked)
    }
}

/// Chooses codes for a string column.
///
/// `None` if it is not a string column, has too many distinct values, or codes would save less than
/// a quarter.
pub(super) fn choose(
    data_type: &DataType,
    chunks: &[ArrayRef],
    rows: usize,
) -> Result<Option<Coded>, EngineError> {
    let word_type = match data_type {
        DataType::Dictionary(_, value) => value.as_ref(),
        plain => plain,
    };
    if !matches!(
        word_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    ) {
        return Ok(None);
    }
    let nullable = chunks.iter().any(|c| c.logical_null_count() > 0);
    let Some(interner) = intern(chunks, rows, nullable) else {
        return Ok(None);
    };
    let Some(width) = width_for(interner.words.len() as u64, nullable) else {
        return Ok(None);
    };
    // A dictionary column is already coded: its codes only replace keys, so the saving need not be
    // checked.
    if !matches!(data_type, DataType::Dictionary(..)) && !pays(&interner, word_type, rows, width) {
        return Ok(None);
    }
    let (words, ranked) = interner.ranked();
    let values = values(data_type, word_type, &words)?;
    Ok(values.map(|values| Coded {
        domain: Domain::Values(values),
        nullable,
        width,
        source: CodeSource::Words(ranked),
    }))
}

fn intern(chunks: &[ArrayRef], rows: usize, nullable: bool) -> Option<Interner<'_>> {
    let mut interner = Interner {
        first: usize::from(nullable),
        short: QuickMap::default(),
        long: QuickMap::default(),
        words: Vec::new(),
        seen: Vec::with_capacity(rows),
        text_bytes: 0,
        long_bytes: 0,
    };
    for chunk in chunks {
        let few = match chunk.as_any_dictionary_opt() {
            None => interner.add_strings(Strings::of(chunk)?, chunk.len()),
            // Only NULL keys can refer to an empty dictionary.
            Some(dictionary) if dictionary.values().is_empty() => {
                (0..chunk.len()).all(|_| interner.add(None))
            }
            Some(dictionary) => {
                let strings = Strings::of(dictionary.values())?;
                interner.add_dictionary(&dictionary.normalized_keys(), chunk.as_ref(), strings)
            }
        };
        if !few {
            return None;
        }
    }
    debug_assert!(interner.words.len() <= MOST_LISTED_VALUES);
    Some(interner)
}

/// Whether codes and distinct values together take at most three quarters of the strings.
fn pays(interner: &Interner<'_>, word_type: &DataType, rows: usize, width: CodeWidth) -> bool {
    let slot = match word_type {
        DataType::Utf8View => 16,
        DataType::LargeUtf8 => 8,
        _ => 4,
    };
    let plain = rows * slot
        + if slot == 16 {
            interner.long_bytes
        } else {
            interner.text_bytes
        };
    let listed: usize = interner.words.iter().map(|word| slot + word.len()).sum();
    (rows * width.bytes() + listed) * 4 <= plain * 3
}

/// The strings as an array of the column's type; `None` if its key type has too few values.
fn values(
    data_type: &DataType,
    word_type: &DataType,
    words: &[&str],
) -> Result<Option<ArrayRef>, EngineError> {
    let strings: ArrayRef = match word_type {
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter_values(words)),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter_values(words)),
        _ => Arc::new(StringArray::from_iter_values(words)),
    };
    let DataType::Dictionary(key_type, _) = data_type else {
        return Ok(Some(strings));
    };
    let keys = UInt32Array::from_iter_values(0..words.len() as u32);
    let keys = cast(&keys, key_type)?;
    // The cast to a narrower key type turns a key that does not fit into NULL.
    if keys.null_count() > 0 {
        return Ok(None);
    }
    let keys = keys.to_data();
    let data = ArrayData::builder(data_type.clone())
        .len(words.len())
        .buffers(keys.buffers().to_vec())
        .add_child_data(strings.to_data())
        .build()?;
    Ok(Some(make_array(data)))
}
