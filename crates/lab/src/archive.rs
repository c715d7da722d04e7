//! Archives in the newc cpio format: the initramfs of a guest, and the files collected from it.
//!
//! Only what the kernel and busybox's `cpio` write is supported; device files and sockets are
//! skipped.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use cpio::newc::{Builder, ModeFileType, Reader, trailer};

use crate::LabError;

/// Writes an initramfs as a stream, one entry after another, and adds missing parent folders.
pub(crate) struct Initramfs<W: Write> {
    out: W,
    names: BTreeSet<String>,
}

impl<W: Write> Initramfs<W> {
    pub(crate) fn new(out: W) -> Initramfs<W> {
        Initramfs {
            out,
            names: BTreeSet::new(),
        }
    }

    /// Adds `guest_dir` (absolute) and those of its parents that are not in the archive yet.
    pub(crate) fn dir(&mut self, guest_dir: &str) -> io::Result<()> {
        let mut path = String::new();
        for part in guest_dir.split('/').filter(|part| !part.is_empty()) {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(part);
            if self.names.insert(path.clone()) {
                self.entry(&path, ModeFileType::Directory, 0o755, &[])?;
            }
        }
        Ok(())
    }

    /// Adds a file whose content is in memory.
    pub(crate) fn bytes(&mut self, guest_path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        if let Some(name) = self.claim(guest_path)? {
            self.entry(&name, ModeFileType::Regular, mode, content)?;
        }
        Ok(())
    }

    /// Adds a file of the host by streaming it, so that large programs need no buffer.
    pub(crate) fn file(
        &mut self,
        guest_path: &str,
        mode: u32,
        host_path: &Path,
    ) -> Result<(), LabError> {
        let Some(name) = self
            .claim(guest_path)
            .map_err(LabError::io("write the initramfs for", host_path))?
        else {
            return Ok(());
        };
        let file = File::open(host_path).map_err(LabError::io("open", host_path))?;
        let size = file
            .metadata()
            .map_err(LabError::io("stat", host_path))?
            .len();
        // The newc header has eight hexadecimal digits for the size.
        let size = u32::try_from(size).map_err(|_| LabError::Program {
            path: host_path.to_owned(),
            reason: format!("it has {size} bytes and an initramfs file can have 4 GiB at most; take less data into the guest"),
        })?;
        let mut entry = self
            .builder(&name, ModeFileType::Regular, mode)
            .write(&mut self.out, size);
        let copied = io::copy(&mut file.take(u64::from(size)), &mut entry)
            .map_err(LabError::io("copy into the initramfs", host_path))?;
        // The header with the size is already written, so a shorter copy would shift all later
        // entries.
        if copied != u64::from(size) {
            return Err(LabError::Program {
                path: host_path.to_owned(),
                reason: "it shrank while it was read; try again".into(),
            });
        }
        entry
            .finish()
            .map(|_| ())
            .map_err(LabError::io("copy into the initramfs", host_path))
    }

    /// Writes the trailer and returns the underlying writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        trailer(&mut self.out)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Adds the parents of `guest_path` and returns its archive name; `None` if that name is
    /// already in the archive.
    ///
    /// The first file wins, since several programs bring the same libraries.
    fn claim(&mut self, guest_path: &str) -> io::Result<Option<String>> {
        let name = guest_path.trim_start_matches('/').to_owned();
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.dir(parent)?;
        }
        Ok(self.names.insert(name.clone()).then_some(name))
    }

    fn entry(
        &mut self,
        name: &str,
        kind: ModeFileType,
        mode: u32,
        content: &[u8],
    ) -> io::Result<()> {
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut entry = self.builder(name, kind, mode).write(&mut self.out, size);
        entry.write_all(content)?;
        entry.finish().map(|_| ())
    }

    /// Gives each entry its own inode number: the kernel treats equal ones as hard links.
    fn builder(&self, name: &str, kind: ModeFileType, mode: u32) -> Builder {
        let ino = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        Builder::new(name)
            .ino(ino)
            .mode(mode)
            .set_mode_file_type(kind)
    }
}

/// One entry of an archive that a guest sent back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Dir,
    File(Vec<u8>),
    Link(String),
}

/// Reads a whole archive as `(name, entry)` pairs, skipping device files and sockets.
///
/// # Errors
/// `UnexpectedEof` if an entry is truncated; other errors if a header is malformed.
pub(crate) fn read(mut bytes: &[u8]) -> io::Result<Vec<(String, Entry)>> {
    let mut entries = Vec::new();
    loop {
        let mut reader = Reader::new(bytes)?;
        if reader.entry().is_trailer() {
            return Ok(entries);
        }
        let (name, mode, size) = (
            reader.entry().name().to_owned(),
            reader.entry().mode(),
            reader.entry().file_size(),
        );
        let mut content = Vec::new();
        reader.read_to_end(&mut content)?;
        if content.len() != size as usize {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the entry {name} is cut"),
            ));
        }
        // The file type bits of st_mode (S_IFMT).
        let kind = mode & 0o170_000;
        match kind {
            0o040_000 => entries.push((name, Entry::Dir)),
            0o100_000 => entries.push((name, Entry::File(content))),
            0o120_000 => entries.push((
                name,
                Entry::Link(String::from_utf8_lossy(&content).into_owned()),
            )),
            _ => {}
        }
        bytes = reader.finish()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parents_come_before_files_and_duplicates_are_dropped() {
        let mut archive = Initramfs::new(Vec::new());
        archive.bytes("/a/b/c", 0o755, b"one").unwrap();
        archive.bytes("/a/b/c", 0o755, b"two").unwrap();
        archive
            .entry("a/l", ModeFileType::Symlink, 0o777, b"b/c")
            .unwrap();
        let entries = read(&archive.finish().unwrap()).unwrap();
        let expected = [
            ("a", Entry::Dir),
            ("a/b", Entry::Dir),
            ("a/b/c", Entry::File(b"one".to_vec())),
            ("a/l", Entry::Link("b/c".into())),
        ];
        assert_eq!(
            entries,
            expected.map(|(name, entry)| (name.to_owned(), entry))
        );
    }

    #[test]
    fn host_files_arrive_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let content: Vec<u8> = (0..100_001_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let mut archive = Initramfs::new(Vec::new());
        archive.file("/bin/f", 0o755, &path).unwrap();
        let entries = read(&archive.finish().unwrap()).unwrap();
        assert_eq!(entries[1], ("bin/f".to_owned(), Entry::File(content)));
        let missing = Initramfs::new(Vec::new())
            .file("/x", 0o755, &dir.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(missing.contains("none"), "{missing}");
    }

    #[test]
    fn a_cut_archive_is_an_error_at_every_length() {
        let mut archive = Initramfs::new(Vec::new());
        archive.bytes("/f", 0o644, b"content").unwrap();
        let bytes = archive.finish().unwrap();
        let whole = bytes.len() - 4;
        for len in 0..whole {
            assert!(read(&bytes[..len]).is_err(), "{len}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_content_survives(files in proptest::collection::btree_map("[a-z]{1,9}", proptest::collection::vec(any::<u8>(), 0..70), 0..8)) {
            let mut archive = Initramfs::new(Vec::new());
            for (name, content) in &files {
                archive.bytes(&format!("/{name}"), 0o644, content).unwrap();
            }
            let entries = read(&archive.finish().unwrap()).unwrap();
            let expected: Vec<(String, Entry)> = files.into_iter().map(|(name, content)| (name, Entry::File(content))).collect();
            prop_assert_eq!(entries, expected);
        }
    }
}
