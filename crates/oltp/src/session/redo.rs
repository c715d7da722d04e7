//! Effects of a log, done again by one session alone.

use super::TxSession;
use crate::OltpError;
use crate::log::record::Redo;

impl TxSession<'_> {
    /// Does the effects of one transaction again.
    pub(crate) fn redo(&mut self, redo: &[Redo]) -> Result<(), OltpError> {
        for one in redo {
            let keys: Vec<(usize, u64)> = one
                .keys
                .iter()
                .map(|(index, key)| (usize::from(*index), *key))
                .collect();
            let (table, row) = (usize::from(one.table), one.row);
            self.write(one.effect, table, row, one.at as usize, &one.words, &keys);
        }
        // Nobody else is there, and the rows of inserts are known.
        self.reserve();
        self.lock_rows();
        let applied = self.apply();
        self.unlock(true);
        applied
    }
}
