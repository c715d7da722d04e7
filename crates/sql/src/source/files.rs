//! Finds the files of a table: a file, a folder, a pattern, or folders named after partitions.

use super::unreadable;
use crate::error::SqlError;
use glob::MatchOptions;
use percent_encoding::percent_decode_str;
use std::path::{Path, PathBuf};

/// What Hive and Spark write for a partition whose value is NULL.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// Folders inside folders that are looked into.
const MOST_LEVELS: usize = 64;

/// The files at `path`, sorted by name, without hidden ones and those that start with `_`.
pub(super) fn at(path: &Path) -> Result<Vec<PathBuf>, SqlError> {
    let about = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    if !about.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let found: Vec<PathBuf> = entries(path)?.into_iter().filter(|e| e.is_file()).collect();
    if found.is_empty() {
        return Err(SqlError::input(format!(
            "{}: the folder has no file in it (folders inside are not looked into)",
            path.display()
        )));
    }
    Ok(found)
}

/// The files that `path` means, which may have `*`, `?`, `[...]` and `**` in it; with `partitioned`
/// also those in folders inside.
pub(super) fn meant(path: &Path, partitioned: bool) -> Result<Vec<PathBuf>, SqlError> {
    let text = path.to_string_lossy();
    let is_pattern = text.contains(['*', '?', '[']) && !path.exists();
    let roots = match is_pattern {
        true => matching(&text)?,
        false => vec![path.to_owned()],
    };
    let mut found = Vec::new();
    for root in roots {
        match partitioned && root.is_dir() {
            true => below(&root, MOST_LEVELS, &mut found)?,
            false => found.extend(at(&root)?),
        }
    }
    if found.is_empty() {
        return Err(SqlError::input(format!(
            "{text}: no file is there, in folders inside neither"
        )));
    }
    Ok(found)
}

fn matching(pattern: &str) -> Result<Vec<PathBuf>, SqlError> {
    // As in a shell.
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let bad = |problem: &dyn std::fmt::Display| {
        SqlError::input(format!("{pattern} is not a pattern of files: {problem}"))
    };
    let paths = glob::glob_with(pattern, options).map_err(|e| bad(&e))?;
    let found = paths.collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|e| unreadable(e.path(), e.error()))?;
    if found.is_empty() {
        return Err(SqlError::input(format!("no file matches {pattern}")));
    }
    Ok(found)
}

fn below(folder: &Path, levels: usize, found: &mut Vec<PathBuf>) -> Result<(), SqlError> {
    if levels == 0 {
        return Err(SqlError::input(format!(
            "{}: there are more than {MOST_LEVELS} folders inside each other",
            folder.display()
        )));
    }
    for entry in entries(folder)? {
        match entry.is_dir() {
            true => below(&entry, levels - 1, found)?,
            false => found.push(entry),
        }
    }
    Ok(())
}

/// The visible entries of a folder. It lists them in any order; sorting makes the order of rows
/// reproducible.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, SqlError> {
    let entries = std::fs::read_dir(folder).map_err(|e| unreadable(folder, &e))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| unreadable(folder, &e))?;
        if !entry.file_name().to_string_lossy().starts_with(['.', '_']) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// What the folders `KEY=VALUE` of a path are named after, outermost first; values are not decoded.
fn keys(folders: &Path) -> Vec<(String, &str)> {
    let parts = folders.iter().filter_map(|part| {
        let (key, value) = part.to_str()?.split_once('=')?;
        Some((decoded(key)?, value))
    });
    parts.collect()
}

/// Text in which `%2F` and the like stand for bytes; `None` if it is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    Some(text.into_owned())
}

/// Refuses files below `location` in folders `name=value` that are not the partitions `names`.
pub(super) fn check_folders(
    location: &Path,
    files: &[PathBuf],
    names: &[&str],
) -> Result<(), SqlError> {
    for file in files {
        let Some(folder) = file.strip_prefix(location).ok().and_then(Path::parent) else {
            continue;
        };
        let keys: Vec<String> = keys(folder).into_iter().map(|(key, _)| key).collect();
        if !keys.is_empty() && keys != names {
            return Err(SqlError::input(format!(
                "{}: its folders are partitions by {}, and PARTITIONED BY ({}) is declared",
                file.display(),
                keys.join(", "),
                names.join(", ")
            )));
        }
    }
    Ok(())
}

/// The values of the partitions `names` that the folders of `file` are named after (`year=2024`);
/// `None` for NULL.
pub(super) fn partition_values(
    file: &Path,
    names: &[&str],
) -> Result<Vec<Option<String>>, SqlError> {
    let folders = file.parent().map(keys).unwrap_or_default();
    let refused = |problem: String| SqlError::input(format!("{}: {problem}", file.display()));
    // The innermost one, if there are several.
    let place = |name: &&str| {
        let place = folders.iter().rposition(|(key, _)| key == name);
        place.ok_or_else(|| {
            refused(format!(
                "expected a folder {name}=VALUE above it, for PARTITIONED BY ({})",
                names.join(", ")
            ))
        })
    };
    let places = names.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    if !places.is_sorted() {
        return Err(refused(format!(
            "its folders are in another order than PARTITIONED BY ({})",
            names.join(", ")
        )));
    }
    let value = |place: usize| match folders[place].1 {
        NULL_PARTITION => Ok(None),
        value => match decoded(value) {
            Some(value) => Ok(Some(value)),
            None => Err(refused(format!("{value} is not UTF-8"))),
        },
    };
    places.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(root: &Path, name: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    fn names(root: &Path, found: Result<Vec<PathBuf>, SqlError>) -> Vec<String> {
        let found = found.unwrap().into_iter();
        let name = |path: PathBuf| path.strip_prefix(root).unwrap().display().to_string();
        found.map(name).collect()
    }

    #[test]
    fn patterns_match_as_in_a_shell_and_folders_in_order() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for name in [
            "b/2.csv",
            "b/1.csv",
            "a/1.csv",
            "a/.1.csv",
            "a/x/3.csv",
            "a/n.txt",
        ] {
            file(root, name);
        }
        let meant = |pattern: &str| names(root, meant(&root.join(pattern), false));
        assert_eq!(meant("*/1.csv"), ["a/1.csv", "b/1.csv"]);
        assert_eq!(meant("a/*.csv"), ["a/1.csv"]);
        assert_eq!(
            meant("**/*.csv"),
            ["a/1.csv", "a/x/3.csv", "b/1.csv", "b/2.csv"]
        );
        assert_eq!(meant("b"), ["b/1.csv", "b/2.csv"]);
        assert_eq!(meant("b/[2-9].csv"), ["b/2.csv"]);
    }

    #[test]
    fn a_file_whose_name_looks_like_a_pattern_is_that_file() {
        let root = tempfile::tempdir().unwrap();
        file(root.path(), "a[1].csv");
        file(root.path(), "a1.csv");
        let found = meant(&root.path().join("a[1].csv"), false);
        assert_eq!(names(root.path(), found), ["a[1].csv"]);
    }

    #[test]
    fn nothing_found_and_wrong_patterns_are_errors_that_name_them() {
        let root = tempfile::tempdir().unwrap();
        let error = |name: &str| {
            let found = meant(&root.path().join(name), true);
            found.unwrap_err().to_string()
        };
        assert!(error("*.csv").contains("no file matches"));
        assert!(error("a***").contains("not a pattern"));
        assert!(error("").contains("no file is there"));
        assert!(error("missing").contains("missing"));
    }

    #[test]
    fn partitions_are_read_from_folders_with_null_and_escaped_values() {
        let file = Path::new("/data/year=2023/t/year=2024/city=S%C3%A3o%2FPaulo/m=/1.csv");
        let values = partition_values(file, &["year", "city", "m"]).unwrap();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(values, [text("2024"), text("São/Paulo"), text("")]);
        let null = Path::new("year=__HIVE_DEFAULT_PARTITION__/1.csv");
        assert_eq!(partition_values(null, &["year"]).unwrap(), [None]);
        let order = partition_values(file, &["city", "year"])
            .unwrap_err()
            .to_string();
        assert!(order.contains("another order"), "{order}");
        let missing = partition_values(file, &["day"]).unwrap_err().to_string();
        assert!(missing.contains("day=VALUE"), "{missing}");
    }
}
