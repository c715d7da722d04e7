//! A read of every n-th value of a column (Huang et al., "Bandwidth Expansion via CXL", 2024;
//! Lebedev et al., "Demystifying CXL Memory Bandwidth Expansion for Analytical Workloads", 2025).
//!
//! The tuned form keeps four sums, so that additions do not wait for each other, and prefetches
//! the line of a later value where each has a line of its own; without skips it adds vectors. The
//! plain form has one sum.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use tierloom_kernels::{prefetch_read, sequential_read};

use crate::data::{Sums, each, random};
use crate::share::{Found, chunks, part};
use crate::spec::{ParameterError, Parameters, ahead, check_ahead, check_tuples, form_words};
use crate::{Filled, Form, Job, PhaseInfo, Structure, Traffic};

/// Bytes of a value.
const VALUE_BYTES: u64 = 8;
/// Most values between two reads.
const MAX_SKIP: u64 = 1 << 20;
/// Values of a cache line.
const LINE_VALUES: usize = 8;
/// Sums of the tuned form.
const LANES: usize = 4;

/// A read that skips values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectiveRead {
    /// Values of the column.
    pub tuples: u64,
    /// Values that are skipped between two reads.
    pub skip: u64,
    /// How it is carried out.
    pub form: Form,
    /// Read values that prefetches are ahead in the tuned form; 0 for none.
    pub prefetch_tuples: u32,
}

impl Default for SelectiveRead {
    /// The size of the publications; seven of eight values of each line are skipped.
    fn default() -> Self {
        Self {
            tuples: 2 << 30,
            skip: 7,
            form: Form::Tuned,
            prefetch_tuples: 64,
        }
    }
}

impl fmt::Display for SelectiveRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = form_words(self.form, self.prefetch_tuples);
        write!(f, "{} values, {} skipped, {form}", self.tuples, self.skip)
    }
}

impl SelectiveRead {
    /// Values that are read.
    pub(crate) fn read(&self) -> u64 {
        self.tuples.div_ceil(self.skip + 1)
    }

    fn filled(&self, structures: &mut [&mut [u8]], seed: u64) -> FilledRead {
        let step = self.skip as usize + 1;
        let bytes = (self.tuples * VALUE_BYTES) as usize;
        let expected = each::<8>(&mut structures[0][..bytes], |at, words| {
            let mut sums = Sums::default();
            for (at, word) in at.zip(words) {
                let value = random(seed, at);
                *word = value.to_le_bytes();
                if at.is_multiple_of(step) {
                    sums.add(value);
                }
            }
            sums
        });
        FilledRead {
            read: self.clone(),
            expected,
        }
    }
}

impl Parameters for SelectiveRead {
    fn check(&self) -> Result<(), ParameterError> {
        check_tuples("tuples", self.tuples, u64::MAX)?;
        if self.skip > MAX_SKIP {
            let problem = format!("{}; expected 0 to {MAX_SKIP}", self.skip);
            return Err(ParameterError::new("skip", problem));
        }
        check_ahead(self.prefetch_tuples)
    }

    fn structures(&self, _: u32) -> Vec<Structure> {
        vec![Structure {
            name: "column",
            size_bytes: self.tuples * VALUE_BYTES,
        }]
    }

    fn tuples(&self, _: u32) -> u64 {
        self.read()
    }

    fn fill(&self, structures: &mut [&mut [u8]], _: u32, seed: u64) -> Box<dyn Filled> {
        Box::new(self.filled(structures, seed))
    }
}

/// A read whose column is in place.
#[derive(Debug)]
pub(crate) struct FilledRead {
    read: SelectiveRead,
    expected: Sums,
}

impl Filled for FilledRead {
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a> {
        // Nobody writes, so workers share the bytes as they are.
        let column: &'a [u8] = structures.into_iter().next().unwrap_or_default();
        Box::new(SelectiveReading {
            column: &column.as_chunks().0[..self.read.tuples as usize],
            step: self.read.skip as usize + 1,
            form: self.read.form,
            ahead: ahead(self.read.form, self.read.prefetch_tuples),
            found: Found::new(workers),
            expected: self.expected,
            workers,
        })
    }

    fn check(&self, _: &[&[u8]], _: usize) -> Result<String, String> {
        let read = self.expected.count;
        Ok(format!("{read} values with the right sum in every pass"))
    }
}

struct SelectiveReading<'a> {
    column: &'a [[u8; VALUE_BYTES as usize]],
    step: usize,
    form: Form,
    ahead: Option<usize>,
    found: Found,
    expected: Sums,
    workers: usize,
}

impl SelectiveReading<'_> {
    #[inline(always)]
    fn value(&self, read: usize) -> u64 {
        u64::from_le_bytes(self.column[read * self.step])
    }

    /// Reads the values with these numbers, counted without the skipped ones.
    fn tuned(&self, range: Range<usize>) -> Sums {
        let count = range.len() as u64;
        if self.step == 1 {
            let sum = sequential_read(self.column[range].as_flattened());
            return Sums { count, sum };
        }
        let ahead = self.ahead.filter(|_| self.step >= LINE_VALUES);
        let mut sums = [0_u64; LANES];
        let lanes = range.len() / LANES;
        for group in 0..lanes {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let read = range.start + group * LANES + lane;
                if let Some(ahead) = ahead {
                    prefetch_read(self.column, (read + ahead) * self.step);
                }
                *sum = sum.wrapping_add(self.value(read));
            }
        }
        let rest = (range.start + lanes * LANES..range.end).map(|read| self.value(read));
        let sum = rest.chain(sums).fold(0, u64::wrapping_add);
        Sums { count, sum }
    }

    fn plain(&self, range: Range<usize>) -> Sums {
        let mut sums = Sums::default();
        range.for_each(|read| sums.add(self.value(read)));
        sums
    }
}

impl Job for SelectiveReading<'_> {
    fn phases(&self) -> Vec<PhaseInfo> {
        let read = self.expected.count;
        vec![PhaseInfo {
            name: "read",
            tuples: read,
            counted: true,
            traffic: vec![Traffic::scan("column", read * VALUE_BYTES)],
        }]
    }

    fn run(&self, _: usize, worker: usize, stop: &dyn Fn() -> bool) {
        let mut sums = Sums::default();
        let own = part(self.expected.count as usize, self.workers, worker);
        for chunk in chunks(own, stop) {
            sums += match self.form {
                Form::Tuned => self.tuned(chunk),
                Form::Plain => self.plain(chunk),
            };
        }
        self.found.set(worker, sums);
    }

    fn result(&self) -> Result<(), String> {
        self.found.compare(self.expected, "values")
    }
}
