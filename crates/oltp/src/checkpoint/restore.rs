//! Reads a checkpoint back.

use std::path::{Path, PathBuf};

use tierloom_pool::Attached;

use super::{Checkpoints, Content, FORMAT, failed};
use crate::OltpError;
use crate::log::{LogContents, read_parts};
use crate::row_bytes::words_of;
use crate::store::Store;

/// A checkpoint all of whose bytes are those that were sealed.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    content: Content,
    table: Attached,
}

impl Checkpoints {
    /// The newest checkpoint that was sealed, with every byte of it checked; `None` if there is
    /// none yet.
    ///
    /// # Errors
    /// [`OltpError::Checkpoint`] if it is damaged.
    pub fn newest(&self) -> Result<Option<Checkpoint>, OltpError> {
        let Some((_, name)) = self.sealed().into_iter().max() else {
            return Ok(None);
        };
        let failed = |why: &dyn std::fmt::Display| failed(&self.path, "read", why);
        let table = self.pool.attach(&name).map_err(|e| failed(&e))?;
        table.verify_all().map_err(|e| failed(&e))?;
        let content = serde_json::from_value::<Content>(table.content().clone());
        let content = content.map_err(|e| failed(&e))?;
        if content.format != FORMAT {
            return Err(failed(&format!("its format is `{}`", content.format)));
        }
        if content.words() * 8 != table.bytes().len() {
            return Err(failed(&"its lengths contradict each other"));
        }
        Ok(Some(Checkpoint {
            path: self.path.clone(),
            content,
            table,
        }))
    }
}

impl Checkpoint {
    /// What the log says of the data.
    pub fn identity(&self) -> &str {
        &self.content.identity
    }

    /// Its number, that of the first part of its log.
    #[cfg(test)]
    pub(crate) fn number(&self) -> u64 {
        self.content.part
    }

    /// An error for a checkpoint of other data.
    pub(crate) fn check_identity(&self, wanted: &str) -> Result<(), OltpError> {
        let found = self.identity();
        match found == wanted {
            true => Ok(()),
            false => {
                let why = format!("it is of other data: {found}, not {wanted}");
                Err(failed(&self.path, "use", &why))
            }
        }
    }

    /// Reads what is to be done again after it of the log at `path`.
    ///
    /// # Errors
    /// [`OltpError::Log`]; also for a log of other data, and one that lacks what was in it when the
    /// checkpoint was sealed.
    pub fn read_log(&self, path: &Path) -> Result<LogContents, OltpError> {
        let content = &self.content;
        read_parts(
            path,
            Some(&content.identity),
            content.part,
            content.log_bytes,
        )
    }

    /// Fills an empty store, which is of no moment before the log is done again as well.
    pub(crate) fn restore(&self, store: &mut Store) -> Result<(), OltpError> {
        self.check_shape(store)?;
        let mut bytes = self.table.bytes();
        let mut words = Vec::new();
        for (number, table) in self.content.tables.iter().enumerate() {
            let bits = take(&mut bytes, table.bit_words());
            for row in 0..table.rows {
                let row_bytes = take(&mut bytes, table.row_words);
                if bits[row as usize / 8] & (1 << (row % 8)) != 0 {
                    words.clear();
                    words.extend(words_of(row_bytes));
                    store.load_row(number, row, &words)?;
                }
            }
            if let Some(last) = table.rows.checked_sub(1) {
                store.tables[number].use_up_to(last)?;
            }
        }
        for (number, index) in self.content.indexes.iter().enumerate() {
            let entries = take(&mut bytes, 2 * index.keys);
            let mut words = words_of(entries);
            let pairs = std::iter::from_fn(|| Some((words.next()?, words.next()?)));
            store.load_index(number, pairs, index.keys)?;
        }
        // Pages that were lost while they were read are zeroes.
        let lost = |e| failed(&self.path, "read", &e);
        self.table.check_pages().map_err(lost)
    }

    fn check_shape(&self, store: &Store) -> Result<(), OltpError> {
        let tables = self.content.tables.iter();
        let found = tables.map(|table| (table.name.as_str(), table.row_words));
        let wanted = store.tables.iter().map(|table| table.spec());
        let fits = found.eq(wanted.map(|spec| (spec.name, spec.row_words)));
        let indexes = self.content.indexes.iter();
        let found = indexes.map(|index| index.name.as_str());
        let fits = fits && found.eq(store.indexes.iter().map(|index| index.name));
        match fits {
            true => Ok(()),
            false => Err(failed(&self.path, "use", &"it has other tables or indexes")),
        }
    }
}

/// The first words of these bytes, which are then those behind.
fn take<'b>(bytes: &mut &'b [u8], words: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(words * 8);
    *bytes = rest;
    taken
}
