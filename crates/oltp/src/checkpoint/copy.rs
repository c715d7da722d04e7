//! Copies a store that clients work on.

use super::{Content, FORMAT, IndexContent, TableContent};
use crate::store::Store;

/// A copy that is being made.
pub(super) struct Copying<'s> {
    store: &'s Store,
    /// Row numbers of each table that were used when it began.
    rows: Vec<u32>,
    /// Keys and rows of each index, in one list. How many there are is only known afterwards.
    entries: Vec<Vec<u64>>,
}

impl<'s> Copying<'s> {
    /// Copies the entries of the indexes, which are few bytes beside the rows.
    pub(super) fn begin(store: &'s Store) -> Self {
        let mut session = store.session();
        let entries = (0..store.indexes.len()).map(|index| {
            let mut pairs = Vec::new();
            session.scan(index, 0, |key, row| {
                pairs.extend([key, u64::from(row)]);
                true
            });
            pairs
        });
        Self {
            entries: entries.collect(),
            rows: store.tables.iter().map(|table| table.used_rows()).collect(),
            store,
        }
    }

    /// What there is, for a log that is to be done again from this part on.
    pub(super) fn content(&self, identity: &str, part: u64) -> Content {
        let tables = self.store.tables.iter().zip(&self.rows);
        let tables = tables.map(|(table, rows)| TableContent {
            name: table.spec().name.to_owned(),
            row_words: table.spec().row_words,
            rows: *rows,
        });
        let indexes = self.store.indexes.iter().zip(&self.entries);
        let indexes = indexes.map(|(index, pairs)| IndexContent {
            name: index.name.to_owned(),
            keys: pairs.len() / 2,
        });
        Content {
            format: FORMAT.to_owned(),
            identity: identity.to_owned(),
            part,
            log_bytes: 0,
            tables: tables.collect(),
            indexes: indexes.collect(),
        }
    }

    /// Copies the rows, and all of it into these bytes, as many as the content has.
    pub(super) fn write(&self, content: &Content, mut bytes: &mut [u8]) {
        let mut session = self.store.session();
        for (number, table) in content.tables.iter().enumerate() {
            let bits = take(&mut bytes, table.bit_words());
            bits.fill(0);
            let mut words = vec![0; table.row_words];
            for row in 0..table.rows {
                let place = take(&mut bytes, table.row_words);
                match session.peek(number, row, 0, &mut words) {
                    true => {
                        bits[row as usize / 8] |= 1 << (row % 8);
                        put(place, &words);
                    }
                    false => place.fill(0),
                }
            }
        }
        for pairs in &self.entries {
            put(take(&mut bytes, pairs.len()), pairs);
        }
    }
}

/// The first words of these bytes, which are then those behind.
fn take<'b>(bytes: &mut &'b mut [u8], words: usize) -> &'b mut [u8] {
    let (taken, rest) = std::mem::take(bytes).split_at_mut(words * 8);
    *bytes = rest;
    taken
}

fn put(bytes: &mut [u8], words: &[u64]) {
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}
