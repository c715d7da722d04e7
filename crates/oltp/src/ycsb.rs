//! YCSB: point reads, scans, updates and inserts of single rows, as a control in which the latency
//! of memory must show.
//!
//! The six core workloads of Cooper, Silberstein, Tam, Ramakrishnan and Sears, "Benchmarking Cloud
//! Serving Systems with YCSB" (SoCC 2010): rows of ten fields of 100 bytes, keys in a scrambled
//! order, Zipf-distributed with a constant of 0.99. Every operation is a transaction.

use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

use crate::drive::Transactions;
use crate::index::IndexSpec;
use crate::places::StoreMemory;
use crate::store::Store;
use crate::table::RowSpec;
use crate::{Abort, OltpError, TxSession};

const ROWS: usize = 0;
const GUARDS: usize = 1;
/// Fields of 100 bytes, in words of 8.
const FIELDS: usize = 10;
const FIELD_WORDS: usize = 13;
/// Word 0 is the key.
const ROW_WORDS: usize = 1 + FIELDS * FIELD_WORDS;
/// Ranges of keys, each with a guard.
const RANGES: u32 = 16;
const LONGEST_SCAN: u64 = 100;
const ZIPF: f64 = 0.99;

const KINDS: [&str; 4] = ["read", "update", "insert", "scan"];

/// A core workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YcsbMix {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads alone.
    C,
    /// 95 % reads of recent rows, 5 % inserts.
    D,
    /// 95 % scans of up to 100 rows, 5 % inserts.
    E,
    /// Half reads, half updates of a row that is read first.
    F,
}

impl YcsbMix {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// Its letter, in lower case.
    pub fn letter(self) -> char {
        match self {
            Self::A => 'a',
            Self::B => 'b',
            Self::C => 'c',
            Self::D => 'd',
            Self::E => 'e',
            Self::F => 'f',
        }
    }

    /// Share of operations that change something, in per cent.
    fn changes_percent(self) -> u32 {
        match self {
            Self::A | Self::F => 50,
            Self::B | Self::D | Self::E => 5,
            Self::C => 0,
        }
    }
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub enum YcsbInput {
    /// Reads the row of a number.
    Read(u64),
    /// Changes a field of a row; `true` to read the row first.
    Update(u64, u32, bool),
    /// Adds a row.
    Insert,
    /// Reads rows from that of a number on.
    Scan(u64, u64),
}

/// The workload: rows, and what operations draw.
#[derive(Debug)]
pub struct Ycsb {
    mix: YcsbMix,
    store: Store,
    loaded: u64,
    /// Rows that were begun to be inserted, loaded ones included.
    next: AtomicU64,
    zipf: Zipf,
}

impl Ycsb {
    /// The fewest rows: scans must not pass a whole range of keys.
    pub const LEAST_ROWS: u64 = 20_000;

    /// Loads `rows` rows, with room for `room` inserts.
    ///
    /// # Errors
    /// [`OltpError`]: no memory where it was to be, too many rows.
    pub fn load(
        mix: YcsbMix,
        rows: u64,
        room: u64,
        seed: u64,
        memory: &StoreMemory<'_>,
    ) -> Result<Self, OltpError> {
        let spec = |name, row_words, rows, delta_rows| RowSpec {
            name,
            row_words,
            rows,
            delta_rows,
        };
        let delta_rows = (rows / 8).clamp(1 << 12, 1 << 20) as u32;
        let tables = [
            spec("usertable", ROW_WORDS, rows + room, delta_rows),
            spec("guards", 1, u64::from(RANGES), 4096),
        ];
        let index = IndexSpec {
            name: "usertable",
            loaded_keys: rows,
            inserted_keys: room,
        };
        let mut store = Store::create(&tables, &[index], memory)?;
        (0..RANGES).try_for_each(|range| store.load_row(GUARDS, range, &[0]))?;
        let mut rng = Rng::with_seed(seed);
        let mut keys = Vec::with_capacity(rows as usize);
        for number in 0..rows {
            let row = new_row(number, &mut rng);
            store.load_row(ROWS, number as u32, &row)?;
            keys.push((row[0], number));
        }
        keys.sort_unstable();
        store.load_index(0, keys, rows as usize)?;
        Ok(Self {
            mix,
            store,
            loaded: rows,
            next: AtomicU64::new(rows),
            zipf: Zipf::new(rows),
        })
    }

    /// What is wrong with the rows, with no transaction running: every row must be found by its key
    /// and be whole.
    pub fn check(&self) -> Vec<String> {
        let mut session = self.store.session();
        let (mut wrong, mut count, mut entries) = (Vec::new(), 0_u64, 0_u64);
        for row in 0..self.store.used_rows(ROWS) {
            let mut words = [0; ROW_WORDS];
            if !session.peek(ROWS, row, 0, &mut words) {
                continue;
            }
            count += 1;
            if session.look_up(0, words[0]) != Some(row) {
                wrong.push(format!("row {row} is not found by its key"));
            }
            let whole = words[1..].chunks(FIELD_WORDS).all(is_whole);
            if !whole {
                wrong.push(format!("a field of row {row} is of two writes"));
            }
        }
        session.scan(0, 0, |_, _| {
            entries += 1;
            true
        });
        if entries != count {
            wrong.push(format!("{entries} index entries for {count} rows"));
        }
        wrong
    }

    fn read(&self, session: &mut TxSession<'_>, number: u64) -> Result<(), Abort> {
        let row = session
            .look_up(0, key_of(number))
            .ok_or(Abort::RolledBack)?;
        let mut words = [0; ROW_WORDS];
        session.read(ROWS, row, 0, &mut words)?;
        std::hint::black_box(words);
        Ok(())
    }

    fn update(
        &self,
        session: &mut TxSession<'_>,
        number: u64,
        field: u32,
        reads: bool,
    ) -> Result<(), Abort> {
        let row = session
            .look_up(0, key_of(number))
            .ok_or(Abort::RolledBack)?;
        let at = 1 + field as usize * FIELD_WORDS;
        let mut value = mix(number ^ u64::from(field) << 48);
        if reads {
            let mut words = [0; ROW_WORDS];
            session.read(ROWS, row, 0, &mut words)?;
            value = mix(words[at]);
        }
        session.update(ROWS, row, at, &field_of(value));
        Ok(())
    }

    fn insert(&self, session: &mut TxSession<'_>) -> Result<(), Abort> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let row = new_row(number, &mut Rng::with_seed(number));
        session.guard(GUARDS, range_of(row[0]));
        session.insert(ROWS, &row, &[(0, row[0])]);
        Ok(())
    }

    /// Reads the guards of the two ranges that a scan can be in, and then the rows.
    fn scan(&self, session: &mut TxSession<'_>, number: u64, count: u64) -> Result<(), Abort> {
        let from = key_of(number);
        let range = range_of(from);
        for guard in range..(range + 2).min(RANGES) {
            session.word(GUARDS, guard, 0)?;
        }
        let mut rows = Vec::with_capacity(count as usize);
        session.scan(0, from, |_, row| {
            rows.push(row);
            (rows.len() as u64) < count
        });
        for row in rows {
            let mut words = [0; ROW_WORDS];
            session.read(ROWS, row, 0, &mut words)?;
            std::hint::black_box(words);
        }
        Ok(())
    }
}

impl Transactions for Ycsb {
    type Input = YcsbInput;

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn draw(&self, rng: &mut Rng) -> (usize, YcsbInput) {
        let rank = self.zipf.rank(rng);
        // Popular rows are anywhere, but with the workload of recent rows.
        let scattered = mix(rank) % self.loaded;
        let changes = rng.u32(0..100) < self.mix.changes_percent();
        match (self.mix, changes) {
            (YcsbMix::D | YcsbMix::E, true) => (2, YcsbInput::Insert),
            (_, true) => {
                let field = rng.u32(0..FIELDS as u32);
                let reads = self.mix == YcsbMix::F;
                (1, YcsbInput::Update(scattered, field, reads))
            }
            (YcsbMix::D, false) => {
                let newest = self.next.load(Ordering::Relaxed) - 1;
                (0, YcsbInput::Read(newest - rank))
            }
            (YcsbMix::E, false) => (3, YcsbInput::Scan(scattered, rng.u64(1..=LONGEST_SCAN))),
            (_, false) => (0, YcsbInput::Read(scattered)),
        }
    }

    fn attempt(&self, session: &mut TxSession<'_>, input: &YcsbInput) -> Result<(), Abort> {
        session.begin();
        match *input {
            YcsbInput::Read(number) => self.read(session, number)?,
            YcsbInput::Update(number, field, reads) => {
                self.update(session, number, field, reads)?;
            }
            YcsbInput::Insert => self.insert(session)?,
            YcsbInput::Scan(number, count) => self.scan(session, number, count)?,
        }
        session.commit()
    }

    fn store(&self) -> &Store {
        &self.store
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), which is a bijection.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Keys are in another order than rows.
fn key_of(number: u64) -> u64 {
    mix(number.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

fn range_of(key: u64) -> u32 {
    (key >> 32) as u32 / (u32::MAX / RANGES + 1)
}

/// The words of a field follow from the first, so that half a write is seen.
fn field_of(value: u64) -> [u64; FIELD_WORDS] {
    std::array::from_fn(|word| value.wrapping_add(word as u64))
}

fn is_whole(field: &[u64]) -> bool {
    field
        .iter()
        .zip(0_u64..)
        .all(|(word, at)| *word == field[0].wrapping_add(at))
}

fn new_row(number: u64, rng: &mut Rng) -> [u64; ROW_WORDS] {
    let mut row = [0; ROW_WORDS];
    row[0] = key_of(number);
    for field in row[1..].chunks_mut(FIELD_WORDS) {
        field.copy_from_slice(&field_of(rng.u64(..)));
    }
    row
}

/// Ranks by the method of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly Generating
/// Billion-Record Synthetic Databases" (SIGMOD 1994).
#[derive(Debug)]
struct Zipf {
    count: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(count: u64) -> Self {
        let zeta_of = |count: u64| {
            (1..=count)
                .map(|rank| (rank as f64).powf(-ZIPF))
                .sum::<f64>()
        };
        let (zeta, two) = (zeta_of(count), zeta_of(2));
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - ZIPF)) / (1.0 - two / zeta);
        Self { count, zeta, eta }
    }

    /// A rank from 0, the most popular.
    fn rank(&self, rng: &mut Rng) -> u64 {
        let random = rng.f64();
        let scaled = random * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(ZIPF) {
            return 1;
        }
        let share = (self.eta * random - self.eta + 1.0).powf(1.0 / (1.0 - ZIPF));
        ((self.count as f64 * share) as u64).min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_frequencies_of_the_distribution() {
        let (zipf, seed) = (Zipf::new(1000), fastrand::u64(..));
        println!("seed {seed}");
        let mut rng = Rng::with_seed(seed);
        let mut counts = vec![0.0; 1000];
        for _ in 0..1_000_000 {
            counts[zipf.rank(&mut rng) as usize] += 1.0;
        }
        for rank in [1_usize, 2, 11, 101] {
            let wanted = 1e6 * (rank as f64).powf(-ZIPF) / zipf.zeta;
            let found: f64 = counts[rank - 1];
            assert!(
                (found / wanted - 1.0).abs() < 0.35,
                "{rank}: {found}, {wanted}"
            );
        }
        assert!(counts[999] > 0.0);
    }

    #[test]
    fn keys_are_spread_over_all_ranges_and_halves_of_writes_are_seen() {
        let mut ranges = [0_u32; RANGES as usize];
        (0..10_000).for_each(|number| ranges[range_of(key_of(number)) as usize] += 1);
        assert!(ranges.iter().all(|count| *count > 400), "{ranges:?}");
        assert_eq!(range_of(u64::MAX), RANGES - 1);
        let mut field = field_of(7);
        assert!(is_whole(&field));
        field[12] = 0;
        assert!(!is_whole(&field));
    }
}
