//! Detects whether the files of a table have changed since it was placed.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The files at some locations, with their lengths and modification times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<(PathBuf, u64, Option<SystemTime>)>);

impl Stamp {
    /// The files at `locations` now; for a pattern, all files in its folder.
    pub(crate) fn of(locations: &[String]) -> Stamp {
        let mut files = Vec::new();
        for location in locations {
            let path = location.strip_prefix("file://").unwrap_or(location);
            let path = match path.split_once('*') {
                Some((before, _)) => before.rsplit_once('/').map_or(".", |(folder, _)| folder),
                None => path,
            };
            collect(Path::new(path), &mut files);
        }
        files.sort_unstable();
        Stamp(files)
    }
}

fn collect(path: &Path, files: &mut Vec<(PathBuf, u64, Option<SystemTime>)>) {
    match path.metadata() {
        Ok(found) if found.is_dir() => {
            let inside = path.read_dir().into_iter().flatten().flatten();
            inside.for_each(|entry| collect(&entry.path(), files));
        }
        Ok(found) => files.push((path.to_owned(), found.len(), written(&found))),
        // A missing path has no files.
        Err(_) => {}
    }
}

fn written(file: &Metadata) -> Option<SystemTime> {
    file.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_or_grows_changes_the_stamp_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("part=1");
        std::fs::create_dir(&inside).unwrap();
        let text = |path: &Path| vec![path.display().to_string()];
        let all = text(folder.path());
        let pattern = text(&folder.path().join("*.csv"));
        let before = (Stamp::of(&all), Stamp::of(&pattern));
        assert_eq!(before, (Stamp::of(&all), Stamp::of(&pattern)));
        std::fs::write(inside.join("a.csv"), "1\n").unwrap();
        let after = (Stamp::of(&all), Stamp::of(&pattern));
        assert!(before.0 != after.0 && before.1 != after.1);
        std::fs::write(inside.join("a.csv"), "1\n2\n").unwrap();
        assert_ne!(Stamp::of(&all), after.0);
        assert_eq!(
            Stamp::of(&text(&folder.path().join("absent"))),
            Stamp::default()
        );
    }
}
