//! A scan of columns that writes the numbers of matching rows (Weisgut et al., "CXL Memory
//! Performance for In-Memory Data Processing", 2025).
//!
//! ```text
//!   column:   4-byte unsigned numbers, a part for each worker
//!   row_ids:  4-byte row numbers of the values below a bound, a list for each worker
//! ```
//! The tuned form compares vectors and packs the row numbers; the plain one tests one value at a
//! time.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tierloom_kernels::{LINE_BYTES, Simd, rows_in_range};

use crate::data::{Sums, each, mix, random};
use crate::share::chunks;
use crate::spec::{ParameterError, Parameters, check_tuples};
use crate::{Filled, Form, Job, PhaseInfo, Structure, Traffic};

/// Bytes of a value and of a row number.
const BYTES: usize = 4;

/// A scan of one private column per worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnScan {
    /// Values in the column of each worker.
    pub rows_per_thread: u64,
    /// Share of the values that match, 0 to 1.
    pub selectivity: f64,
    /// How it is carried out.
    pub form: Form,
    /// Width of the vectors of the tuned form.
    pub simd: Simd,
}

impl Default for ColumnScan {
    /// The size of the publication: 512 MiB per worker; one value in a hundred matches.
    fn default() -> Self {
        Self {
            rows_per_thread: 128 << 20,
            selectivity: 0.01,
            form: Form::Tuned,
            simd: Simd::detect(),
        }
    }
}

impl fmt::Display for ColumnScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, percent) = (self.rows_per_thread, self.selectivity * 100.0);
        write!(f, "{rows} rows per thread, {percent}% selected, ")?;
        match self.form {
            Form::Tuned => write!(f, "{}, {}", self.form, self.simd),
            Form::Plain => write!(f, "{}", self.form),
        }
    }
}

impl ColumnScan {
    /// Bytes from the part of one worker to that of the next: whole lines.
    fn part_bytes(&self) -> usize {
        (self.rows_per_thread as usize * BYTES).next_multiple_of(LINE_BYTES)
    }

    /// Number of 32-bit values that match.
    fn matching(&self) -> u64 {
        (self.selectivity * (1_u64 << 32) as f64).round() as u64
    }

    /// The largest value that matches; 0 if none does, and then no column has a 0.
    fn highest(&self) -> u32 {
        self.matching().saturating_sub(1) as u32
    }

    /// What is set in every generated word: where nothing matches, two odd values, so that the scan
    /// still compares each of them.
    fn always_set(&self) -> u64 {
        match self.matching() {
            0 => 1 << 32 | 1,
            _ => 0,
        }
    }

    /// What a matching row of a worker adds to the checksum.
    fn matched(worker: usize, row: u32) -> u64 {
        mix((worker as u64) << 32 | u64::from(row))
    }

    fn filled(&self, structures: &mut [&mut [u8]], workers: u32, seed: u64) -> FilledScan {
        let (highest, always_set) = (self.highest(), self.always_set());
        let mut expected = Sums::default();
        for worker in 0..workers as usize {
            let part = &mut structures[0][worker * self.part_bytes()..][..self.part_bytes()];
            let seed = random(seed, worker);
            expected += each::<8>(part, |at, words| {
                let mut sums = Sums::default();
                for (at, word) in at.zip(words) {
                    let bits = random(seed, at) | always_set;
                    *word = bits.to_le_bytes();
                    for (half, value) in [bits as u32, (bits >> 32) as u32].into_iter().enumerate()
                    {
                        let row = 2 * at + half;
                        let exists = (row as u64) < self.rows_per_thread;
                        if exists && value <= highest {
                            sums.add(Self::matched(worker, row as u32));
                        }
                    }
                }
                sums
            });
        }
        FilledScan {
            scan: self.clone(),
            expected,
            workers: workers as usize,
        }
    }
}

impl Parameters for ColumnScan {
    fn check(&self) -> Result<(), ParameterError> {
        // Row numbers have 32 bits.
        check_tuples("rows_per_thread", self.rows_per_thread, 1 << 32)?;
        if (0.0..=1.0).contains(&self.selectivity) {
            return Ok(());
        }
        let problem = format!("{}; expected a share from 0% to 100%", self.selectivity);
        Err(ParameterError::new("selectivity", problem))
    }

    fn simd(&self) -> Option<Simd> {
        (self.form == Form::Tuned).then_some(self.simd)
    }

    fn structures(&self, workers: u32) -> Vec<Structure> {
        ["column", "row_ids"]
            .map(|name| Structure {
                name,
                size_bytes: self.part_bytes() as u64 * u64::from(workers),
            })
            .into()
    }

    fn tuples(&self, workers: u32) -> u64 {
        self.rows_per_thread * u64::from(workers)
    }

    fn fill(&self, structures: &mut [&mut [u8]], workers: u32, seed: u64) -> Box<dyn Filled> {
        Box::new(self.filled(structures, workers, seed))
    }
}

/// A scan whose columns are in place.
#[derive(Debug)]
pub(crate) struct FilledScan {
    scan: ColumnScan,
    expected: Sums,
    workers: usize,
}

impl Filled for FilledScan {
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a> {
        let part_bytes = self.scan.part_bytes();
        let own_bytes = self.scan.rows_per_thread as usize * BYTES;
        let mut structures = structures.into_iter();
        let (column, row_ids) = (structures.next(), structures.next());
        let columns = column.into_iter().flat_map(|c| c.chunks_mut(part_bytes));
        let lists = row_ids.into_iter().flat_map(|r| r.chunks_mut(part_bytes));
        let parts = columns.zip(lists).take(workers).map(|(column, list)| {
            Mutex::new(ScanPart {
                column: &column[..own_bytes],
                list: &mut list[..own_bytes],
                found: 0,
            })
        });
        Box::new(Scanning {
            parts: parts.collect(),
            scan: self.scan.clone(),
            expected: self.expected,
        })
    }

    fn check(&self, structures: &[&[u8]], _: usize) -> Result<String, String> {
        let highest = self.scan.highest();
        let mut sums = Sums::default();
        let parts = structures.iter().map(|s| s.chunks(self.scan.part_bytes()));
        let mut parts: Vec<_> = parts.collect();
        for worker in 0..self.workers {
            let (Some(column), Some(list)) = (parts[0].next(), parts[1].next()) else {
                return Err(format!("no column for thread {worker}"));
            };
            let column = &column.as_chunks::<BYTES>().0[..self.scan.rows_per_thread as usize];
            let matching = column
                .iter()
                .map(|value| u32::from_le_bytes(*value) <= highest);
            let expected = (0_u32..).zip(matching).filter(|(_, matches)| *matches);
            for ((row, _), found) in expected.zip(list.as_chunks::<BYTES>().0) {
                if *found != row.to_le_bytes() {
                    return Err(format!("thread {worker}: row {row} is not in its place"));
                }
                sums.add(ColumnScan::matched(worker, row));
            }
        }
        if sums != self.expected {
            return Err("the column is not the one that was generated".into());
        }
        Ok(format!(
            "all {} matching rows were found, in order",
            sums.count
        ))
    }
}

/// The column of a worker and its list.
struct ScanPart<'a> {
    column: &'a [u8],
    list: &'a mut [u8],
    found: usize,
}

struct Scanning<'a> {
    parts: Vec<Mutex<ScanPart<'a>>>,
    scan: ColumnScan,
    expected: Sums,
}

impl Job for Scanning<'_> {
    fn phases(&self) -> Vec<PhaseInfo> {
        let rows = self.scan.rows_per_thread * self.parts.len() as u64;
        vec![PhaseInfo {
            name: "scan",
            tuples: rows,
            counted: true,
            traffic: vec![
                Traffic::scan("column", rows * BYTES as u64),
                Traffic {
                    structure: "row_ids",
                    read_bytes: 0,
                    written_bytes: self.expected.count * BYTES as u64,
                    random_accesses: 0,
                },
            ],
        }]
    }

    fn run(&self, _: usize, worker: usize, stop: &dyn Fn() -> bool) {
        let mut part = self.parts[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let part = &mut *part;
        part.found = 0;
        let highest = self.scan.highest();
        for chunk in chunks(0..self.scan.rows_per_thread as usize, stop) {
            let values = &part.column[chunk.start * BYTES..chunk.end * BYTES];
            let list = &mut part.list[part.found * BYTES..];
            let first_row = chunk.start as u32;
            part.found += match self.scan.form {
                Form::Tuned => {
                    rows_in_range(self.scan.simd, values, first_row, &(0..=highest), list)
                }
                Form::Plain => plain(values, first_row, highest, list),
            };
        }
    }

    fn result(&self) -> Result<(), String> {
        let counts = self.parts.iter().map(|part| {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.found as u64
        });
        let found: u64 = counts.sum();
        if found == self.expected.count {
            return Ok(());
        }
        Err(format!(
            "{found} matching rows, expected {}",
            self.expected.count
        ))
    }
}

/// The same with a branch per value.
fn plain(values: &[u8], first_row: u32, highest: u32, list: &mut [u8]) -> usize {
    let mut found = 0;
    let list = list.as_chunks_mut::<BYTES>().0;
    for (row, value) in (first_row..).zip(values.as_chunks::<BYTES>().0) {
        if u32::from_le_bytes(*value) <= highest {
            list[found] = row.to_le_bytes();
            found += 1;
        }
    }
    found
}
