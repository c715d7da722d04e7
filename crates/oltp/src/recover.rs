//! Recovery: the log's transactions, done again.

use std::path::Path;

use crate::OltpError;
use crate::effect::Effect;
use crate::log::{LogContents, record};
use crate::store::Store;

/// Does again what the log says, to a store that was loaded as it was when the log began.
pub(crate) fn recover(store: &Store, path: &Path, contents: &LogContents) -> Result<(), OltpError> {
    let mut session = store.session();
    for (at, record) in contents.records.iter().enumerate() {
        let unfit = || OltpError::Log {
            path: path.display().to_string(),
            action: "apply",
            reason: format!("transaction {at} does not fit the data"),
        };
        let redo = record::decode(record).ok_or_else(unfit)?;
        session.begin();
        for one in &redo {
            let table = store.tables.get(usize::from(one.table)).ok_or_else(unfit)?;
            let end = one.at as usize + one.words.len();
            let keys_fit = one
                .keys
                .iter()
                .all(|key| usize::from(key.0) < store.indexes.len());
            if end > table.spec().row_words || !keys_fit {
                return Err(unfit());
            }
            if one.effect == Effect::Insert {
                table.use_up_to(one.row)?;
            } else if one.row >= table.used_rows() {
                return Err(unfit());
            }
        }
        session.redo(&redo)?;
    }
    Ok(())
}
