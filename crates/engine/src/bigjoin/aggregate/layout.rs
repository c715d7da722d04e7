//! How the codes of several key columns become one 64-bit key.

/// Where the code of a column is in a key.
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

/// The fields of columns that need so many bits, at most 64 together, with those that are left.
pub(super) fn fields(needed: &[u32]) -> Vec<Field> {
    let spare = (64 - needed.iter().sum::<u32>()) / needed.len().max(1) as u32;
    let mut shift = 0;
    let columns = needed.iter().enumerate();
    columns
        .map(|(column, needed)| {
            let bits = needed + spare;
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
    fn fields_do_not_overlap_and_hold_what_is_needed() {
        for needed in [
            vec![64],
            vec![1, 1],
            vec![20, 20, 20],
            vec![33, 31],
            vec![12; 5],
        ] {
            let mut next = 0;
            let fields = fields(&needed);
            for (column, field) in fields.iter().enumerate() {
                assert_eq!((field.column, field.shift), (column, next));
                assert!(field.bits >= needed[column]);
                next += field.bits;
            }
            assert_eq!(fields.len(), needed.len());
            assert!(next <= 64, "{needed:?}");
        }
    }
}
