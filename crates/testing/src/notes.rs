//! Notes as lines of a file, and their summary.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The kind of event that a note records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A test returned without having checked anything.
    CheckedNothing,
    /// A test skipped a part of its checks.
    LeftOut,
    /// A guest was booted again because the emulator had failed.
    Retried,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::CheckedNothing, Kind::LeftOut, Kind::Retried];

    /// The text for this kind in the file and on stderr.
    fn word(self) -> &'static str {
        match self {
            Kind::CheckedNothing => "checked nothing",
            Kind::LeftOut => "left a part out",
            Kind::Retried => "booted a guest again",
        }
    }
}

/// One event in one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The kind of event.
    pub kind: Kind,
    /// The test, as `program::module::test`.
    pub test: String,
    /// The reason, in one line.
    pub reason: String,
}

impl Note {
    /// A note in which line breaks in `test` and `reason` become spaces.
    pub fn new(kind: Kind, test: &str, reason: &str) -> Note {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Note {
            kind,
            test: one_line(test),
            reason: one_line(reason),
        }
    }

    /// Appends the note in one write, so that lines of several test processes do not mix.
    ///
    /// # Errors
    /// If the file cannot be opened or written.
    pub fn append(&self, path: &Path) -> io::Result<()> {
        let line = format!("{}\t{}\t{}\n", self.kind.word(), self.test, self.reason);
        let mut file = File::options().create(true).append(true).open(path)?;
        file.write_all(line.as_bytes())
    }

    fn parse(line: &str) -> Option<Note> {
        let mut parts = line.split('\t');
        let (word, test, reason) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word)?;
        parts
            .next()
            .is_none()
            .then(|| Note::new(kind, test, reason))
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "test {} {}: {}",
            self.test,
            self.kind.word(),
            self.reason
        )
    }
}

/// All notes of a test run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    notes: Vec<Note>,
}

impl Notes {
    /// Reads the file that [`NOTES`](crate::NOTES) named; a missing file means no notes.
    ///
    /// # Errors
    /// If the file cannot be read, or contains a line that is not a note
    /// ([`io::ErrorKind::InvalidData`]).
    pub fn read(path: &Path) -> io::Result<Notes> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Notes::default()),
            text => text?,
        };
        let notes: Option<Vec<Note>> = text.lines().map(Note::parse).collect();
        let notes = notes.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "a line that is no test's note")
        })?;
        Ok(Notes { notes })
    }

    /// Number of notes of this kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.of(kind).count()
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(move |note| note.kind == kind)
    }

    /// A summary for people: per kind the count, then each reason with the tests that gave it.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for kind in Kind::ALL {
            let count = self.count(kind);
            text += &match kind {
                Kind::CheckedNothing => format!("{count} tests checked nothing\n"),
                Kind::LeftOut => format!("{count} parts of tests were left out\n"),
                Kind::Retried => format!("{count} boots were tried again (the emulator failed)\n"),
            };
            let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for note in self.of(kind) {
                by_reason.entry(&note.reason).or_default().push(&note.test);
            }
            for (reason, tests) in by_reason {
                text += &format!("  {reason}\n");
                for test in tests {
                    text += &format!("    {test}\n");
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_several_processes_come_to_one_summary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes");
        assert_eq!(Notes::read(&path).unwrap(), Notes::default());
        for (kind, test, reason) in [
            (Kind::CheckedNothing, "a::one", "no\tdevice\nhere"),
            (Kind::Retried, "b::two", "QEMU aborted"),
            (Kind::CheckedNothing, "a::three", "no device here"),
        ] {
            Note::new(kind, test, reason).append(&path).unwrap();
        }
        let notes = Notes::read(&path).unwrap();
        assert_eq!(
            notes.summary(),
            "2 tests checked nothing\n  no device here\n    a::one\n    a::three\n0 parts of tests were left out\n\
             1 boots were tried again (the emulator failed)\n  QEMU aborted\n    b::two\n"
        );
    }

    #[test]
    fn a_file_of_something_else_is_no_summary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes");
        for text in ["checked nothing\ta\n", "what\ta\tb\n", "retried\ta\tb\tc\n"] {
            std::fs::write(&path, text).unwrap();
            let error = Notes::read(&path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text}");
        }
    }
}
