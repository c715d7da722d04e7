//! Reading and writing single lines, so that a torn line is never taken for a damaged one.
//!
//! A writer first makes the magic 0, then stores the other words, and last the magic, with a flush
//! and a fence after each step. So a magic in memory means that the other words are there too,
//! whatever a crash or another host's view of the line tears apart, as long as single words are
//! whole. A line with a magic and a wrong checksum is therefore damaged, and never just unfinished.

use uuid::Uuid;

use crate::format::{Line, line_checksum};
use crate::medium::{Medium, Readable};

/// What a place of a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing yet, or something unfinished.
    Empty,
    /// A whole line.
    Whole(Line),
    /// Neither: bytes have changed that nobody has written.
    Damaged,
}

/// A writer may change the line between two loads of a reader, which looks like damage: how often a
/// reader looks again before it believes that.
const LOOKS: u32 = 64;

/// Reads the line at `offset` from memory.
pub(crate) fn read(medium: &impl Readable, pool: Uuid, offset: u64, magic: u64) -> Found {
    let mut found = look(medium, pool, offset, magic);
    for _ in 1..LOOKS {
        if found != Found::Damaged {
            break;
        }
        std::thread::yield_now();
        found = look(medium, pool, offset, magic);
    }
    found
}

fn look(medium: &impl Readable, pool: Uuid, offset: u64, magic: u64) -> Found {
    medium.invalidate(offset);
    let mut line = [0; 8];
    for (at, word) in (offset..).step_by(8).zip(&mut line) {
        *word = medium.load(at);
    }
    match line[0] {
        0 => Found::Empty,
        found if found == magic && line[7] == line_checksum(pool, offset, &line) => {
            Found::Whole(line)
        }
        _ => Found::Damaged,
    }
}

/// Step 1 of writing a line: from now on nobody believes what is there.
pub(crate) fn retire(medium: &impl Medium, offset: u64) {
    medium.store(offset, 0);
    medium.flush(offset);
    medium.fence();
}

/// Step 2: all words but the magic. Complete with the next fence.
pub(crate) fn fill(medium: &impl Medium, pool: Uuid, offset: u64, line: &Line) {
    for (at, word) in (offset..).step_by(8).zip(line).skip(1).take(6) {
        medium.store(at, *word);
    }
    medium.store(offset + 56, line_checksum(pool, offset, line));
    medium.flush(offset);
}

/// Step 3: the magic, after which the line is there for everybody.
pub(crate) fn publish(medium: &impl Medium, offset: u64, line: &Line) {
    medium.store(offset, line[0]);
    medium.flush(offset);
    medium.fence();
}

/// All steps.
pub(crate) fn write(medium: &impl Medium, pool: Uuid, offset: u64, line: &Line) {
    retire(medium, offset);
    fill(medium, pool, offset, line);
    medium.fence();
    publish(medium, offset, line);
}
