//! How the codes of several key columns become 64-bit keys.

use std::ops::Range;

/// Bits of a number that an earlier level has given.
const NUMBER_BITS: u32 = 32;

/// Where the code of a column is in the keys of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub column: usize,
    pub shift: u32,
    pub bits: u32,
}

impl Field {
    pub fn code(&self, key: u64) -> u64 {
        (key >> self.shift) & (u64::MAX >> (64 - self.bits))
    }
}

/// Fields per level.
///
/// A level numbers its keys. The keys of later levels begin with the number that the level before
/// has given, so the numbers of the last one tell all columns apart.
pub(super) fn levels(needed: &[u32]) -> Vec<Vec<Field>> {
    let mut levels = Vec::new();
    let mut columns = 0..0;
    let mut used = 0;
    for (column, bits) in needed.iter().enumerate() {
        if used + bits > 64 {
            levels.push(fields(columns.clone(), needed, levels.len()));
            columns = column..column;
            used = NUMBER_BITS;
        }
        used += bits;
        columns.end = column + 1;
    }
    levels.push(fields(columns, needed, levels.len()));
    levels
}

/// The fields of a level, which share the bits that it has left.
fn fields(columns: Range<usize>, needed: &[u32], level: usize) -> Vec<Field> {
    let mut shift = if level == 0 { 0 } else { NUMBER_BITS };
    let used: u32 = needed[columns.clone()].iter().sum();
    let spare = (64 - shift - used) / columns.len().max(1) as u32;
    columns
        .map(|column| {
            let bits = needed[column] + spare;
            let field = Field {
                column,
                shift,
                bits,
            };
            shift += bits;
            field
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_level_do_not_overlap_and_hold_what_is_needed() {
        for needed in [
            vec![64],
            vec![1, 1],
            vec![20, 20, 20],
            vec![33, 31],
            vec![32; 5],
            vec![30, 30, 10, 22, 32, 1],
        ] {
            let mut columns = 0..;
            for (level, fields) in levels(&needed).iter().enumerate() {
                let mut next = if level == 0 { 0 } else { NUMBER_BITS };
                for field in fields {
                    assert_eq!(Some(field.column), columns.next());
                    assert_eq!(field.shift, next);
                    assert!(field.bits >= needed[field.column]);
                    next += field.bits;
                }
                assert!(next <= 64, "{needed:?}");
            }
            assert_eq!(columns.next(), Some(needed.len()));
        }
    }
}
