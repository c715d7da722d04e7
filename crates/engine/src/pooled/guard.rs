//! Checks bytes of a table before they are first used.
//!
//! A chunk of 2 MiB has one checksum. Codes and values of fixed width are checked chunk by chunk,
//! as rows of them are used; other columns as a whole. Once all chunks of a column are checked, the
//! check is one relaxed load.

use super::stored::StoredArray;
use crate::EngineError;
use crate::coded::CodedColumn;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tierloom_memory::Region;
use tierloom_pool::Attached;

/// Guards the bytes of one column.
pub(crate) struct Guard {
    attached: Arc<Attached>,
    /// The column's bytes in the table's data.
    bytes: Range<u64>,
    /// Start and bytes of a row in the column, where rows are at fixed positions.
    fixed: Option<(u64, u64)>,
    /// Whether everything is checked, or believed without a check.
    done: AtomicBool,
}

/// How much of some bytes was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedBytes {
    /// Chunks that were found whole.
    pub chunks: u64,
    /// All chunks.
    pub of_chunks: u64,
}

/// What is known about a column in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PooledState {
    /// Members of the pool that its table lies on.
    pub members: Vec<u32>,
    /// What was checked; `None` if the bytes are believed without a check.
    pub verified: Option<VerifiedBytes>,
    /// Whether bytes of its table were found damaged.
    pub damaged: bool,
}

impl VerifiedBytes {
    pub(super) fn of(attached: &Attached, bytes: Range<u64>) -> Self {
        let chunk = attached.chunk_bytes();
        let chunks = bytes.start / chunk..bytes.end.div_ceil(chunk);
        let of_chunks = chunks.end - chunks.start;
        let found = |n: &u64| attached.is_verified(n * chunk..n * chunk + 1);
        VerifiedBytes {
            chunks: chunks.filter(found).count() as u64,
            of_chunks,
        }
    }
}

impl Guard {
    pub fn new(
        attached: Arc<Attached>,
        bytes: Range<u64>,
        fixed: Option<(u64, u64)>,
        believe: bool,
    ) -> Self {
        Guard {
            attached,
            bytes,
            fixed,
            done: AtomicBool::new(believe),
        }
    }

    /// Checks what the rows are stored in.
    ///
    /// # Errors
    /// [`EngineError::Pool`] for bytes that are not those that were sealed.
    #[inline]
    pub fn rows(&self, rows: Range<usize>) -> Result<(), EngineError> {
        // Relaxed is enough: nobody writes the bytes, so there is no order to keep.
        if self.done.load(Ordering::Relaxed) && !self.attached.has_lost_pages() {
            return Ok(());
        }
        self.check_rows(rows)
    }

    #[cold]
    fn check_rows(&self, rows: Range<usize>) -> Result<(), EngineError> {
        self.attached.check_pages()?;
        match self.fixed {
            Some((start, width)) => {
                let at = |row: usize| start.saturating_add((row as u64).saturating_mul(width));
                self.part(&(at(rows.start)..at(rows.end)))
            }
            None => self.part(&(0..self.bytes.end - self.bytes.start)),
        }
    }

    /// Checks a part of the column's bytes.
    fn part(&self, part: &Range<u64>) -> Result<(), EngineError> {
        if self.done.load(Ordering::Relaxed) {
            return Ok(());
        }
        let at = |offset: u64| self.bytes.start.saturating_add(offset);
        self.attached.verify(at(part.start)..at(part.end))?;
        if self.attached.is_verified(self.bytes.clone()) {
            self.done.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    pub fn state(&self) -> PooledState {
        let verified = VerifiedBytes::of(&self.attached, self.bytes.clone());
        let believed = self.done.load(Ordering::Relaxed) && verified.chunks < verified.of_chunks;
        PooledState {
            members: self.attached.members().to_vec(),
            verified: (!believed).then_some(verified),
            damaged: self.attached.is_damaged(),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// An array over guarded bytes, made when it is first used.
#[derive(Debug)]
pub(crate) struct Guarded {
    guard: Arc<Guard>,
    data_type: DataType,
    source: ArraySource,
    made: OnceLock<ArrayRef>,
}

#[derive(Debug)]
enum ArraySource {
    Stored(StoredArray, Arc<Region>),
    /// The codes themselves, in the layout of the column's type.
    Codes(CodedColumn),
}

impl Guarded {
    /// An array whose buffers are in `region`.
    pub fn stored(
        guard: Arc<Guard>,
        data_type: DataType,
        array: StoredArray,
        region: Arc<Region>,
    ) -> Self {
        Guarded {
            guard,
            data_type,
            source: ArraySource::Stored(array, region),
            made: OnceLock::new(),
        }
    }

    /// The codes of a column as an array.
    pub fn codes(guard: Arc<Guard>, column: CodedColumn) -> Self {
        Guarded {
            guard,
            data_type: column.data_type().clone(),
            source: ArraySource::Codes(column),
            made: OnceLock::new(),
        }
    }

    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    pub fn len(&self) -> usize {
        match &self.source {
            ArraySource::Stored(array, _) => array.rows(),
            ArraySource::Codes(column) => column.rows(),
        }
    }

    /// The array, of which `rows` are checked.
    ///
    /// # Errors
    /// As [`Guard::rows`], and Arrow's.
    pub fn rows(&self, rows: Range<usize>) -> Result<&ArrayRef, EngineError> {
        let array = match self.made.get() {
            Some(array) => array,
            None => self.make()?,
        };
        self.guard.rows(rows)?;
        Ok(array)
    }

    #[cold]
    fn make(&self) -> Result<&ArrayRef, EngineError> {
        let made = match &self.source {
            ArraySource::Stored(array, region) => {
                // What Arrow reads: the validity bits, and all bytes of types that can be invalid.
                match (self.guard.fixed, array.validity()) {
                    (Some(_), Some(bits)) => self.guard.part(&bits)?,
                    (Some(_), None) => {}
                    (None, _) => self.guard.rows(0..self.len())?,
                }
                array.array(&self.data_type, region)?
            }
            ArraySource::Codes(column) => {
                // Keys are compared with the number of words; integers are taken as they are.
                if matches!(self.data_type, DataType::Dictionary(..)) {
                    self.guard.rows(0..self.len())?;
                }
                let view = crate::column::view(column)?;
                view.ok_or_else(|| EngineError::Table {
                    table: "of codes".into(),
                    problem: format!("is no {}", self.data_type),
                })?
            }
        };
        // Two threads that make it at once make the same.
        Ok(self.made.get_or_init(|| made))
    }
}
