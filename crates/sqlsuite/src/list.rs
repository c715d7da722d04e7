//! The list of records that are not compared. It may only shrink.

use crate::{FileReport, SuiteError};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A folder of the suite that is not run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folder {
    /// Number of its test files.
    pub files: u64,
    /// Number of records in them.
    pub records: u64,
    /// Why it is not run.
    pub reason: String,
}

/// Numbers of records of one file that are not compared, by reason.
pub type Listed = BTreeMap<String, u64>;

/// The content of `skipped.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skips {
    /// The version of the suite that the list was created with.
    pub version: String,
    /// The folders that are not run, by name.
    pub folders: BTreeMap<String, Folder>,
    /// The accepted differences: the reason for each, by place ("window.slt:12").
    pub different: BTreeMap<String, String>,
    /// The records that are not compared, by file.
    pub files: BTreeMap<String, Listed>,
}

impl Skips {
    /// Parses the list.
    ///
    /// # Errors
    /// [`SuiteError::List`] if the text is not a valid list.
    pub fn parse(text: &str) -> Result<Self, SuiteError> {
        serde_saphyr::from_str(text).map_err(|e| SuiteError::List(e.to_string()))
    }

    /// Checks the report of a file against the list.
    ///
    /// # Errors
    /// A message with everything that became worse, and everything that became better and is still
    /// on the list.
    pub fn judge(&self, name: &str, report: &FileReport) -> Result<(), String> {
        let mut problems = self.judge_different(name, report);
        let listed = self.files.get(name).cloned().unwrap_or_default();
        let found = counts(report);
        for key in keys(&listed, &found) {
            let (was, is) = (count(&listed, key), count(&found, key));
            if is > was {
                let places = report
                    .skipped_records
                    .iter()
                    .filter(|(_, reason, _)| reason.key() == key);
                let places = places.map(|(place, _, words)| format!("\n    {place} {words}"));
                problems.push(format!(
                    "{is} records are not compared ({key}), the list has {was}:{}",
                    places.take(SHOWN).collect::<String>()
                ));
            } else if is < was {
                problems.push(format!(
                    "only {is} records are not compared ({key}), the list has {was}: {BETTER}"
                ));
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems.join("\n")),
        }
    }

    fn judge_different(&self, name: &str, report: &FileReport) -> Vec<String> {
        let found = report.different.iter();
        let new = found.filter(|d| !self.different.contains_key(&d.place));
        let mut problems: Vec<String> = new
            .map(|d| format!("{}: {} (plain DataFusion: {})", d.place, d.what, d.plain))
            .collect();
        for place in self.different.keys().filter(|place| is_in(place, name)) {
            if !report.different.iter().any(|d| d.place == *place) {
                problems.push(format!("{place} does not differ any more: {BETTER}"));
            }
        }
        problems
    }

    /// The list as YAML text.
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        let _ = writeln!(text, "version: {}\n", self.version);
        text.push_str("# Folders that are not run.\n");
        open(&mut text, "folders", self.folders.is_empty());
        for (name, folder) in &self.folders {
            let Folder {
                files,
                records,
                reason,
            } = folder;
            let _ = writeln!(
                text,
                "  {name}:\n    files: {files}\n    records: {records}"
            );
            let _ = writeln!(text, "    reason: >-\n{}", wrapped(reason));
        }
        text.push_str("\n# Answers that differ, each with the reason why it may.\n");
        open(&mut text, "different", self.different.is_empty());
        for (place, reason) in &self.different {
            let _ = writeln!(text, "  \"{place}\": >-\n{}", wrapped(reason));
        }
        text.push_str("\n# Records that are not compared, by file and reason.\n");
        open(&mut text, "files", self.files.is_empty());
        for (name, listed) in &self.files {
            let counts: Vec<String> = listed.iter().map(|(k, n)| format!("{k}: {n}")).collect();
            let line = format!("  {name}: {{ {} }}", counts.join(", "));
            if line.len() <= COLUMNS {
                let _ = writeln!(text, "{line}");
            } else {
                let _ = writeln!(text, "  {name}:\n    {{ {} }}", counts.join(", "));
            }
        }
        text
    }
}

/// The new list after a run, which is shorter if files became better.
///
/// If the old list belongs to another version of the suite, the counts are taken from this run.
///
/// # Errors
/// A message with the files that became worse or have new differences; the list must not grow.
pub fn blessed(
    old: &Skips,
    version: &str,
    reports: &BTreeMap<String, FileReport>,
) -> Result<Skips, String> {
    let anew = old.version != version;
    let mut new = old.clone();
    version.clone_into(&mut new.version);
    let mut grown = Vec::new();
    for (name, report) in reports {
        let found = counts(report);
        let was: u64 = old.files.get(name).map_or(0, |l| l.values().sum());
        let is: u64 = found.values().sum();
        // A new version of the suite has other records, so there the counts may grow.
        if is > was && !anew {
            grown.push(format!(
                "{name}: {is} records are not compared, the list has {was}"
            ));
        }
        for difference in &report.different {
            if !old.different.contains_key(&difference.place) {
                grown.push(format!("{}: a new difference", difference.place));
            }
        }
        let gone = |place: &String| {
            is_in(place, name) && !report.different.iter().any(|d| d.place == *place)
        };
        new.different.retain(|place, _| !gone(place));
        if found.is_empty() {
            new.files.remove(name);
        } else {
            new.files.insert(name.clone(), found);
        }
    }
    match grown.is_empty() {
        true => Ok(new),
        false => Err(format!("the list may only shrink:\n{}", grown.join("\n"))),
    }
}

const HEAD: &str = "\
# Records of DataFusion's own SQL test files that are not compared. docs/sql-suites.md tells what
# the reasons mean. The list may only shrink: cargo test -p tierloom-sqlsuite -- --bless
";

/// The advice if the list is longer than necessary.
const BETTER: &str = "shorten the list with --bless";

/// Maximum number of places shown for one reason.
const SHOWN: usize = 20;

/// Maximum length of a line.
const COLUMNS: usize = 100;

/// Wraps a text into lines that are indented below its key.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < COLUMNS - INDENT.len() => {
                line.push_str(if line.is_empty() { "" } else { " " });
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    format!("{INDENT}{}", lines.join(&format!("\n{INDENT}")))
}

/// The indentation of wrapped lines.
const INDENT: &str = "      ";

fn open(text: &mut String, name: &str, empty: bool) {
    let _ = writeln!(text, "{name}:{}", if empty { " {}" } else { "" });
}

fn counts(report: &FileReport) -> Listed {
    let skipped = report.skipped.iter();
    skipped.map(|(r, n)| (r.key().to_owned(), *n)).collect()
}

fn keys<'a>(listed: &'a Listed, found: &'a Listed) -> Vec<&'a str> {
    let new = found.keys().filter(|key| !listed.contains_key(*key));
    listed.keys().chain(new).map(String::as_str).collect()
}

fn count(listed: &Listed, key: &str) -> u64 {
    listed.get(key).copied().unwrap_or(0)
}

/// Whether a place ("window.slt:12") is in the file `name`.
fn is_in(place: &str, name: &str) -> bool {
    place.rsplit_once(':').is_some_and(|(file, _)| file == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Difference, Reason};

    fn skips(explain: u64) -> Skips {
        let text = format!(
            "version: 1.0.0\nfolders: {{}}\ndifferent:\n  \"a.slt:3\":\n    known\n\
             files:\n  a.slt: {{ explain: {explain} }}\n"
        );
        Skips::parse(&text).unwrap()
    }

    fn report(explain: u64, places: &[&str]) -> FileReport {
        let different = places.iter().map(|place| Difference {
            place: (*place).to_owned(),
            what: "rows".to_owned(),
            plain: "as expected".to_owned(),
        });
        FileReport {
            skipped: [(Reason::Explain, explain)].into(),
            different: different.collect(),
            ..FileReport::default()
        }
    }

    #[test]
    fn a_file_must_do_exactly_as_listed() {
        let list = skips(2);
        let judge = |explain, places: &[&str]| list.judge("a.slt", &report(explain, places));
        assert_eq!(judge(2, &["a.slt:3"]), Ok(()));
        assert!(
            judge(3, &["a.slt:3"])
                .unwrap_err()
                .contains("the list has 2")
        );
        assert!(judge(1, &["a.slt:3"]).unwrap_err().contains("--bless"));
        assert!(judge(2, &[]).unwrap_err().contains("not differ any more"));
        let new = judge(2, &["a.slt:3", "a.slt:9"]).unwrap_err();
        assert!(new.contains("a.slt:9: rows"), "{new}");
    }

    #[test]
    fn blessing_shortens_and_never_lengthens() {
        let bless = |list: &Skips, report: FileReport| {
            blessed(list, &list.version, &[("a.slt".to_owned(), report)].into())
        };
        let list = skips(2);
        assert_eq!(bless(&list, report(1, &["a.slt:3"])), Ok(skips(1)));
        assert!(bless(&list, report(3, &["a.slt:3"])).is_err());
        assert!(bless(&list, report(2, &["a.slt:3", "a.slt:9"])).is_err());
        let gone = bless(&list, report(2, &[])).unwrap();
        assert!(gone.different.is_empty());
    }

    #[test]
    fn the_text_of_a_list_reads_back_as_the_list() {
        let mut list = skips(7);
        let long = "rows in another order: # any two rows are right; ".repeat(9);
        let reason = long.trim_end().to_owned();
        list.different.insert("b c.slt:12".to_owned(), reason);
        assert_eq!(Skips::parse(&list.text()).unwrap(), list);
    }

    #[test]
    fn places_belong_to_their_own_file_only() {
        assert!(is_in("string/a.slt:3", "string/a.slt"));
        assert!(!is_in("string/a.slt:3", "a.slt"));
    }
}
