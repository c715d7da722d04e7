//! Logs that are cut, damaged, and on a medium that becomes full.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file on a disk with room for so many bytes.
#[derive(Debug)]
struct SmallDisk {
    file: File,
    room: Arc<AtomicU64>,
}

impl LogMedium for SmallDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.room.load(Ordering::Relaxed) as usize;
        let fits = bytes.len().min(room);
        LogMedium::append(&mut self.file, &bytes[..fits])?;
        self.room.fetch_sub(fits as u64, Ordering::Relaxed);
        match fits == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        LogMedium::sync(&mut self.file)
    }
}

/// A log at `path` on a disk with room for so many bytes of records.
pub(crate) fn on_small_disk(path: &Path, identity: &str, room_bytes: u64) -> RedoLog {
    drop(RedoLog::create(path, identity).unwrap());
    let disk = SmallDisk {
        file: File::options().append(true).open(path).unwrap(),
        room: Arc::new(AtomicU64::new(room_bytes)),
    };
    RedoLog::start(path, identity, 0, Box::new(disk)).unwrap()
}

#[test]
fn a_full_disk_is_one_error_and_loses_nothing_that_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redo");
    let log = on_small_disk(&path, "data", 10_000);
    let (mut committed, mut errors) = (0, Vec::new());
    for number in 0..200_u32 {
        let record = [number.to_le_bytes().as_slice(), &[7; 100]].concat();
        match log.append(&record).and_then(|done| log.wait(done.lsn)) {
            Ok(()) => committed += 1,
            Err(error) => errors.push(error.to_string()),
        }
    }
    assert!(committed > 50 && committed + errors.len() == 200);
    errors.dedup();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("redo: cannot write"), "{errors:?}");
    drop(log);
    let contents = read_log(&path).unwrap();
    assert_eq!(contents.transactions(), committed);
    assert!(contents.cut_bytes > 0, "the disk was full inside a record");
    for (number, record) in contents.records.iter().enumerate() {
        assert_eq!(record[..4], (number as u32).to_le_bytes());
    }
}

#[test]
fn a_log_cut_or_damaged_anywhere_gives_its_whole_beginning_and_goes_on_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redo");
    let log = RedoLog::create(&path, "data").unwrap();
    for number in 0..5_u8 {
        let appended = log.append(&[number; 20]).unwrap();
        log.wait(appended.lsn).unwrap();
    }
    assert_eq!(log.used().size_bytes, 5 * 32);
    drop(log);
    let whole = std::fs::read(&path).unwrap();
    let header = whole.len() - 5 * 32;
    for end in header..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        let contents = read_log(&path).unwrap();
        assert_eq!(contents.transactions(), (end - header) / 32, "cut at {end}");
        let mut damaged = whole.clone();
        damaged[end] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let contents = read_log(&path).unwrap();
        let before = (end - header) / 32;
        assert_eq!(contents.transactions(), before, "damaged at {end}");
        let log = RedoLog::resume(&path, &contents).unwrap();
        let appended = log.append(b"after").unwrap();
        log.wait(appended.lsn).unwrap();
        drop(log);
        let contents = read_log(&path).unwrap();
        assert_eq!(contents.records.last().unwrap(), b"after");
        assert_eq!(
            (contents.transactions(), contents.cut_bytes),
            (before + 1, 0)
        );
    }
    for end in 0..header {
        std::fs::write(&path, &whole[..end]).unwrap();
        read_log(&path).unwrap_err();
    }
}

#[test]
fn a_part_begins_when_what_was_appended_before_is_in_the_store_and_keeps_the_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redo");
    let log = RedoLog::create(&path, "data").unwrap();
    let before = log.append(b"before").unwrap();
    let begun = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beginning = scope.spawn(|| {
            let start = log.begin_part().unwrap();
            begun.store(true, Ordering::Release);
            start
        });
        // Others go on meanwhile, in the next part as soon as there is one.
        while log.part() == 0 {
            std::thread::yield_now();
        }
        let after = log.append(b"after").unwrap();
        log.wait(after.lsn).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!begun.load(Ordering::Acquire), "`before` is not applied");
        log.applied(before);
        let start = beginning.join().unwrap();
        assert_eq!(
            start.bytes_to(after.lsn),
            (FRAME_BYTES + b"after".len()) as u64
        );
        log.applied(after);
    });
    drop(log);
    let contents = read_log(&path).unwrap();
    assert_eq!(contents.records, [b"before".to_vec(), b"after".to_vec()]);
    assert_eq!(log_parts(&path).unwrap(), [0, 1]);
    // A new log takes nothing of the old one for its own.
    drop(RedoLog::create(&path, "data").unwrap());
    assert_eq!(log_parts(&path).unwrap(), [0]);
}
