//! Tables and files that are missing or incomplete because statements were skipped.
//!
//! A later record that fails for lack of them is skipped for the same reason.

use crate::kind::StmtKind;
use crate::reason::Reason;
use std::collections::BTreeMap;
use std::path::Path;

/// Tables and files that are missing or incomplete, with the reason for which the statement was
/// skipped.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    tables: BTreeMap<String, Reason>,
    files: Vec<(String, Reason)>,
}

impl Lost {
    /// Why `table` is missing or incomplete.
    pub(crate) fn table(&self, table: &str) -> Option<Reason> {
        self.tables.get(table).copied()
    }

    /// Why one of `tables` is missing or incomplete.
    pub(crate) fn any(&self, tables: &[String]) -> Option<Reason> {
        tables.iter().find_map(|table| self.table(table))
    }

    /// Records the outcome of a statement that names `tables`.
    ///
    /// What a statement creates from incomplete tables and files is incomplete too.
    pub(crate) fn remember(&mut self, kind: &StmtKind, tables: &[String], skipped: Option<Reason>) {
        let target = kind.table();
        let mut sources = tables.iter().filter(|table| Some(table.as_str()) != target);
        let reason = skipped.or_else(|| sources.find_map(|table| self.table(table)));
        match (kind, reason) {
            (StmtKind::Copy(file), Some(reason)) => self.files.push((file.clone(), reason)),
            (StmtKind::External { name, locations }, None) => {
                let reason = self.near(locations);
                self.set(name, reason);
            }
            (
                StmtKind::Makes(name) | StmtKind::View(name) | StmtKind::External { name, .. },
                reason,
            ) => {
                self.set(name, reason);
            }
            (StmtKind::Fills(name), Some(reason)) => self.set(name, Some(reason)),
            _ => {}
        }
    }

    fn set(&mut self, name: &str, reason: Option<Reason>) {
        match reason {
            Some(reason) => self.tables.insert(name.to_owned(), reason),
            None => self.tables.remove(name),
        };
    }

    /// Why files at, above or below one of these locations are incomplete.
    fn near(&self, locations: &[String]) -> Option<Reason> {
        let path = |text: &str| {
            let text = text.split('*').next().unwrap_or_default();
            Path::new(text.trim_end_matches('/')).to_owned()
        };
        let near = |file: &str| {
            let file = path(file);
            let mut locations = locations.iter().map(|location| path(location));
            locations.any(|location| file.starts_with(&location) || location.starts_with(&file))
        };
        let mut files = self.files.iter();
        files
            .find(|(file, _)| near(file))
            .map(|(_, reason)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fills(name: &str) -> StmtKind {
        StmtKind::Fills(name.to_owned())
    }

    #[test]
    fn a_table_lacks_rows_until_it_is_made_anew() {
        let mut lost = Lost::default();
        let makes = StmtKind::Makes("t".to_owned());
        lost.remember(&fills("t"), &["t".to_owned()], Some(Reason::Nested));
        lost.remember(&fills("t"), &["t".to_owned()], None);
        assert_eq!(lost.table("t"), Some(Reason::Nested));
        lost.remember(&fills("u"), &["t".to_owned()], None);
        assert_eq!(
            lost.any(&["v".to_owned(), "u".to_owned()]),
            Some(Reason::Nested)
        );
        lost.remember(&makes, &[], None);
        assert_eq!(lost.table("t"), None);
        assert_eq!(lost.table("u"), Some(Reason::Nested));
    }

    #[test]
    fn tables_of_files_that_were_not_written_lack_rows() {
        let mut lost = Lost::default();
        let copy = |to: &str| StmtKind::Copy(to.to_owned());
        let from = |at: &str| StmtKind::External {
            name: at.to_owned(),
            locations: vec![at.to_owned()],
        };
        lost.remember(&copy("a/b/1.parquet"), &[], Some(Reason::Files));
        for at in [
            "a/b/",
            "a/b/1.parquet",
            "a/b/*.parquet",
            "a/c/",
            "a/b/2.parquet",
        ] {
            lost.remember(&from(at), &[], None);
        }
        assert_eq!(lost.table("a/b/"), Some(Reason::Files));
        assert_eq!(lost.table("a/b/1.parquet"), Some(Reason::Files));
        assert_eq!(lost.table("a/b/*.parquet"), Some(Reason::Files));
        assert_eq!(lost.table("a/c/"), None);
        assert_eq!(lost.table("a/b/2.parquet"), None);
    }
}
