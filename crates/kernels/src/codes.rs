//! Columns of narrow codes: unsigned little-endian integers of 0 to 4 bytes, one per row.
//!
//! ```text
//!   width 0   no bytes at all: every code is 0 (a constant column)
//!   width 1   c0 c1 c2 ...
//!   width 3   c0.0 c0.1 c0.2 c1.0 c1.1 c1.2 ...
//!   ...       rows * width bytes, then CODE_PADDING readable bytes, so that vector loads may
//!             run past the last code
//! ```
//! A column of narrow codes takes fewer cache lines, and a vector instruction compares many rows.
//! What a code represents (an offset from the smallest value, a position in a sorted dictionary) is
//! up to the owner of the column.

use std::ops::Range;

/// Readable bytes that must follow the last code: one 512-bit vector.
pub const CODE_PADDING: usize = 64;

/// Width of the codes of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CodeWidth {
    /// No bytes: all codes are 0.
    Zero,
    /// One byte: codes up to 255.
    One,
    /// Two bytes: codes up to 65,535.
    Two,
    /// Three bytes: codes up to 16,777,215.
    Three,
    /// Four bytes: any `u32`.
    Four,
}

impl CodeWidth {
    /// The narrowest width that can represent `max_code`.
    pub fn for_max(max_code: u32) -> Self {
        match max_code {
            0 => CodeWidth::Zero,
            1..=0xff => CodeWidth::One,
            0x100..=0xffff => CodeWidth::Two,
            0x1_0000..=0xff_ffff => CodeWidth::Three,
            _ => CodeWidth::Four,
        }
    }

    /// Bytes per code, 0 to 4.
    pub fn bytes(self) -> usize {
        match self {
            CodeWidth::Zero => 0,
            CodeWidth::One => 1,
            CodeWidth::Two => 2,
            CodeWidth::Three => 3,
            CodeWidth::Four => 4,
        }
    }

    /// Bytes that `rows` codes take, padding included.
    pub fn size_bytes(self, rows: usize) -> usize {
        rows * self.bytes() + CODE_PADDING
    }
}

/// The memory is too short for the codes that it should contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodesTooShort {
    /// Bytes that the codes and their padding take.
    pub needed_bytes: usize,
    /// Length of the memory.
    pub actual_bytes: usize,
}

impl std::fmt::Display for CodesTooShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "codes with their padding need {} bytes, there are {}",
            self.needed_bytes, self.actual_bytes
        )
    }
}

impl std::error::Error for CodesTooShort {}

/// A borrowed column of codes, with readable padding behind it.
#[derive(Debug, Clone, Copy)]
pub struct Codes<'a> {
    bytes: &'a [u8],
    width: CodeWidth,
    rows: usize,
}

impl Codes<'static> {
    /// A column without rows.
    pub const fn none() -> Self {
        Codes {
            bytes: &[],
            width: CodeWidth::Zero,
            rows: 0,
        }
    }
}

impl<'a> Codes<'a> {
    /// The first `rows` codes of `bytes`.
    ///
    /// # Errors
    /// [`CodesTooShort`] if the codes and their padding do not fit.
    pub fn new(bytes: &'a [u8], width: CodeWidth, rows: usize) -> Result<Self, CodesTooShort> {
        let needed_bytes = width.size_bytes(rows);
        if bytes.len() < needed_bytes {
            return Err(CodesTooShort {
                needed_bytes,
                actual_bytes: bytes.len(),
            });
        }
        Ok(Codes { bytes, width, rows })
    }

    /// Width of the codes.
    pub fn width(&self) -> CodeWidth {
        self.width
    }

    /// Number of rows of the column.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The codes of `rows` as a separate column.
    ///
    /// # Panics
    /// If the rows are outside the column.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        Codes {
            // Up to the end of the column, which keeps the padding readable.
            bytes: &self.bytes[rows.start * self.width.bytes()..],
            width: self.width,
            rows: rows.len(),
        }
    }

    /// The codes as bytes, with padding and, for a slice, the codes behind it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The code of `row`.
    ///
    /// # Panics
    /// If the row is outside the column.
    #[inline]
    pub fn get(&self, row: usize) -> u32 {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let at = row * self.width.bytes();
        // Four bytes are read whatever the width: the padding makes that safe for the last row.
        let word = u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap_or([0; 4]));
        word & self.mask()
    }

    /// Decodes `rows` to the front of `out`.
    ///
    /// # Panics
    /// If the rows are outside the column, or `out` is shorter.
    pub fn unpack(&self, rows: Range<usize>, out: &mut [u32]) {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let out = &mut out[..rows.len()];
        let width = self.width.bytes();
        let bytes = &self.bytes[rows.start * width..];
        match self.width {
            CodeWidth::Zero => out.fill(0),
            CodeWidth::One => {
                for (o, b) in out.iter_mut().zip(bytes) {
                    *o = u32::from(*b);
                }
            }
            CodeWidth::Two => {
                for (o, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *o = u32::from(u16::from_le_bytes(*b));
                }
            }
            CodeWidth::Three => {
                for (o, b) in out.iter_mut().zip(bytes.as_chunks::<3>().0) {
                    *o = u32::from_le_bytes([b[0], b[1], b[2], 0]);
                }
            }
            CodeWidth::Four => {
                for (o, b) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *o = u32::from_le_bytes(*b);
                }
            }
        }
    }

    fn mask(&self) -> u32 {
        match self.width {
            CodeWidth::Zero => 0,
            CodeWidth::Four => u32::MAX,
            narrow => (1 << (8 * narrow.bytes())) - 1,
        }
    }
}

/// Encodes `codes` as rows `first_row..` of a column of `width` into `out`, which has no padding.
///
/// # Panics
/// If `out` is too short. A code too large for `width` is truncated to its low bytes.
pub fn pack(out: &mut [u8], width: CodeWidth, first_row: usize, codes: &[u32]) {
    let bytes = width.bytes();
    let out = &mut out[first_row * bytes..(first_row + codes.len()) * bytes];
    match width {
        CodeWidth::Zero => {}
        CodeWidth::One => {
            for (o, c) in out.iter_mut().zip(codes) {
                *o = *c as u8;
            }
        }
        CodeWidth::Two => {
            for (o, c) in out.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
                *o = (*c as u16).to_le_bytes();
            }
        }
        CodeWidth::Three => {
            for (o, c) in out.as_chunks_mut::<3>().0.iter_mut().zip(codes) {
                let word = c.to_le_bytes();
                *o = [word[0], word[1], word[2]];
            }
        }
        CodeWidth::Four => {
            for (o, c) in out.as_chunks_mut::<4>().0.iter_mut().zip(codes) {
                *o = c.to_le_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_returns_what_was_packed_and_never_reads_past_its_padding() {
        for max in [0u32, 1, 0xff, 0x100, 0xffff, 0x1_0000, 0xff_ffff, u32::MAX] {
            let width = CodeWidth::for_max(max);
            let codes: Vec<u32> = (0..257u32)
                .map(|i| if i % 3 == 0 { max } else { max / (i + 1) })
                .collect();
            let mut bytes = vec![0xa5; width.size_bytes(codes.len())];
            pack(&mut bytes, width, 0, &codes[..100]);
            pack(&mut bytes, width, 100, &codes[100..]);
            let column = Codes::new(&bytes, width, codes.len()).unwrap();
            let mut out = vec![0; 57];
            column.unpack(200..257, &mut out);
            assert_eq!(out, codes[200..]);
            for (row, code) in codes.iter().enumerate() {
                assert_eq!(column.get(row), *code, "row {row} of width {width:?}");
            }
            assert!(Codes::new(&bytes[1..], width, codes.len()).is_err());
        }
    }
}
