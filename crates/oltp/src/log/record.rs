//! What one transaction writes to the log.
//!
//! ```text
//!   number of effects u32, then for each
//!     effect u8 | table u16 | row u32 | first word u32 | words u32 | keys u16
//!     words u64 ... | (index u16, key u64) ...
//! ```
//! All numbers are little-endian.

use crate::effect::{Effect, WriteRow};

/// An effect as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redo {
    pub(crate) effect: Effect,
    pub(crate) table: u16,
    pub(crate) row: u32,
    pub(crate) at: u32,
    pub(crate) words: Vec<u64>,
    pub(crate) keys: Vec<(u16, u64)>,
}

/// Appends the effects of a transaction. Guards change nothing that lasts, and are left out.
pub(crate) fn encode(into: &mut Vec<u8>, writes: &[WriteRow], words: &[u64], keys: &[(u16, u64)]) {
    let lasting = writes.iter().filter(|write| write.effect != Effect::Guard);
    into.extend((lasting.clone().count() as u32).to_le_bytes());
    for write in lasting {
        let words = &words[write.words.0 as usize..write.words.1 as usize];
        let keys = &keys[write.keys.0 as usize..write.keys.1 as usize];
        into.push(match write.effect {
            Effect::Patch => 1,
            Effect::Insert => 2,
            Effect::Delete => 3,
            Effect::Guard => 0,
        });
        into.extend(write.table.to_le_bytes());
        into.extend(write.row.to_le_bytes());
        into.extend(write.at.to_le_bytes());
        into.extend((words.len() as u32).to_le_bytes());
        into.extend((keys.len() as u16).to_le_bytes());
        words
            .iter()
            .for_each(|word| into.extend(word.to_le_bytes()));
        for (index, key) in keys {
            into.extend(index.to_le_bytes());
            into.extend(key.to_le_bytes());
        }
    }
}

/// The effects of a transaction; `None` for bytes that are no such record.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Redo>> {
    let mut rest = Rest(bytes);
    let count = rest.u32()?;
    let mut redo = Vec::new();
    for _ in 0..count {
        let effect = match rest.array::<1>()?[0] {
            1 => Effect::Patch,
            2 => Effect::Insert,
            3 => Effect::Delete,
            _ => return None,
        };
        let (table, row, at) = (rest.u16()?, rest.u32()?, rest.u32()?);
        let (words, keys) = (rest.u32()?, rest.u16()?);
        redo.push(Redo {
            effect,
            table,
            row,
            at,
            words: (0..words).map(|_| rest.u64()).collect::<Option<_>>()?,
            keys: (0..keys)
                .map(|_| Some((rest.u16()?, rest.u64()?)))
                .collect::<Option<_>>()?,
        });
    }
    rest.0.is_empty().then_some(redo)
}

/// Bytes that are still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_read_back_and_cut_records_are_refused() {
        let write = |effect, words, keys| WriteRow {
            effect,
            table: 3,
            row: 70_000,
            at: 5,
            words,
            keys,
        };
        let writes = [
            write(Effect::Patch, (0, 2), (0, 0)),
            write(Effect::Guard, (0, 0), (0, 0)),
            write(Effect::Insert, (2, 3), (0, 1)),
            write(Effect::Delete, (3, 3), (1, 2)),
        ];
        let mut bytes = Vec::new();
        encode(&mut bytes, &writes, &[1, 2, u64::MAX], &[(0, 9), (7, 8)]);
        let redo = decode(&bytes).unwrap();
        assert_eq!(redo.len(), 3, "a guard does not last");
        assert_eq!(
            (redo[0].words.as_slice(), redo[0].at),
            ([1, 2].as_slice(), 5)
        );
        assert_eq!((redo[1].effect, redo[1].keys[0]), (Effect::Insert, (0, 9)));
        assert_eq!((redo[2].row, redo[2].keys[0]), (70_000, (7, 8)));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "{end}");
        }
        bytes.push(0);
        assert_eq!(decode(&bytes), None);
    }
}
