//! Columns whose values are stored in memory regions, as Arrow buffers or as narrow codes.
//!
//! A column is immutable once it is built; only its pages move. It never converts between the two
//! forms.

mod facts;
mod rank_zones;
mod values;
mod words;

pub use facts::ColumnFacts;
pub(crate) use values::view;
use values::{Values, has_view};
pub(crate) use words::ColumnWords;

use crate::EngineError;
use crate::coded::{CodedColumn, Domain, Unit, ZONE_ROWS, zones_of};
use crate::pooled::{Guard, Guarded, PooledState};
use arrow::array::{Array, ArrayData, ArrayRef, UInt32Array, make_array};
use arrow::buffer::Buffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use rank_zones::{RankZones, ZoneRanks};
use std::ops::Range;
use std::sync::Arc;
use tierloom_memory::{Placing, Region};

/// A column in placed memory.
///
/// ```text
///   plain   one region: the array's buffers in sequence, each at a multiple of 64 bytes
///   coded   one region: [codes; rows], padding;  the domain (at most 65,536 values) is on the heap
/// ```
/// Where possible, a scan returns slices that borrow the region through reference-counted owners,
/// so a result that points into a region keeps it mapped. Codes that are themselves an Arrow layout
/// (keys of a dictionary of strings, integers whose code is the value) are returned in place; all
/// others are decoded per batch.
///
/// The regions may be in a pool ([`crate::pooled`]); their bytes are then checked before they are
/// first used.
#[derive(Debug, Clone)]
pub struct PlacedColumn {
    name: String,
    store: Store,
    regions: Vec<Arc<Region>>,
    size_bytes: u64,
    /// Whether some row is NULL, as seen when the column was loaded.
    nullable: bool,
    facts: ColumnFacts,
    /// Of a column in a pool.
    guard: Option<Arc<Guard>>,
}

#[derive(Debug, Clone)]
enum Store {
    Plain {
        values: Values,
        /// Of a type with an order and a width.
        zones: Option<Arc<RankZones>>,
    },
    Coded {
        column: CodedColumn,
        /// The codes as an array of the column's type, where that needs no copy.
        view: Option<Values>,
    },
}

impl Store {
    fn plain(values: Values) -> Self {
        let zones = RankZones::new(values.data_type(), values.len());
        Store::Plain {
            values,
            zones: zones.map(Arc::new),
        }
    }
}

impl PlacedColumn {
    /// Creates a column of `array`, whose buffers are in `regions`.
    ///
    /// # Errors
    /// If a buffer is outside of `regions`.
    pub fn plain(
        name: &str,
        array: ArrayRef,
        regions: Vec<Arc<Region>>,
        facts: ColumnFacts,
    ) -> Result<Self, EngineError> {
        let data = array.to_data();
        let mut size_bytes = 0;
        // A buffer outside would make audits and migrations of the regions meaningless.
        for_buffers(&data, &mut |address, len| {
            size_bytes += len as u64;
            let inside = |r: &Arc<Region>| r.contains(address) && r.contains(address + len - 1);
            if len == 0 || regions.iter().any(inside) {
                return Ok(());
            }
            Err(EngineError::Table {
                table: name.into(),
                problem: format!("has {len} bytes outside its regions"),
            })
        })?;
        Ok(PlacedColumn {
            name: name.into(),
            nullable: array.is_nullable(),
            store: Store::plain(Values::Array(array)),
            regions,
            size_bytes,
            facts,
            guard: None,
        })
    }

    /// Creates a column of codes.
    ///
    /// # Errors
    /// Arrow's, if a code is outside the dictionary.
    pub fn from_codes(
        name: &str,
        column: CodedColumn,
        facts: ColumnFacts,
    ) -> Result<Self, EngineError> {
        Ok(PlacedColumn {
            name: name.into(),
            regions: vec![Arc::clone(column.region())],
            size_bytes: (column.rows() * column.width().bytes()) as u64,
            nullable: column.nullable(),
            store: Store::Coded {
                view: view(&column)?.map(Values::Array),
                column,
            },
            facts,
            guard: None,
        })
    }

    /// Creates a column of an array in a pool.
    pub(crate) fn guarded(
        name: &str,
        array: Guarded,
        nullable: bool,
        size_bytes: u64,
        region: Arc<Region>,
        facts: ColumnFacts,
    ) -> Self {
        PlacedColumn {
            name: name.into(),
            guard: Some(Arc::clone(array.guard())),
            store: Store::plain(Values::Guarded(Arc::new(array))),
            regions: vec![region],
            size_bytes,
            nullable,
            facts,
        }
    }

    /// Creates a column of codes in a pool.
    pub(crate) fn guarded_codes(
        name: &str,
        column: CodedColumn,
        guard: Arc<Guard>,
        facts: ColumnFacts,
    ) -> Self {
        let view = has_view(&column)
            .then(|| Values::Guarded(Arc::new(Guarded::codes(Arc::clone(&guard), column.clone()))));
        PlacedColumn {
            name: name.into(),
            regions: vec![Arc::clone(column.region())],
            size_bytes: (column.rows() * column.width().bytes()) as u64,
            nullable: column.nullable(),
            store: Store::Coded { view, column },
            facts,
            guard: Some(guard),
        }
    }

    /// The same column under another name.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Self {
        PlacedColumn {
            name: name.into(),
            ..self.clone()
        }
    }

    /// Column name, without the table's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Arrow type that scans return.
    pub fn data_type(&self) -> &DataType {
        match &self.store {
            Store::Plain { values, .. } => values.data_type(),
            Store::Coded { column, .. } => column.data_type(),
        }
    }

    /// Number of rows, NULLs included.
    pub fn rows(&self) -> usize {
        match &self.store {
            Store::Plain { values, .. } => values.len(),
            Store::Coded { column, .. } => column.rows(),
        }
    }

    /// The codes; `None` for a plain column.
    pub fn coded(&self) -> Option<&CodedColumn> {
        match &self.store {
            Store::Plain { .. } => None,
            Store::Coded { column, .. } => Some(column),
        }
    }

    /// Whether some row is NULL, as seen when the column was loaded.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// Bytes of its values or codes in the regions, not rounded up to pages.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of the values as returned by a scan, without shared payloads.
    ///
    /// This is the volume that operators process.
    pub fn output_bytes(&self) -> u64 {
        let Store::Coded { column, .. } = &self.store else {
            return self.size_bytes;
        };
        // Strings count as 16-byte views.
        let slot = match column.data_type() {
            DataType::Dictionary(key, _) => key.primitive_width().unwrap_or(4),
            other => other.primitive_width().unwrap_or(16),
        };
        (column.rows() * slot) as u64
    }

    /// Bytes on the heap outside the regions: the values of the codes.
    pub fn domain_bytes(&self) -> u64 {
        match self.coded().map(CodedColumn::domain) {
            Some(Domain::Values(values)) => values.get_array_memory_size() as u64,
            _ => 0,
        }
    }

    /// Encoding for display: "plain", or the bytes per code and the kind of domain.
    pub fn encoding(&self) -> String {
        match self.coded() {
            None => "plain".into(),
            Some(column) => format!(
                "{} B {}",
                column.width().bytes(),
                match column.domain() {
                    Domain::Offset {
                        unit: Unit::Decimal(_),
                        ..
                    } => "decimal",
                    Domain::Offset { .. } => "offset",
                    Domain::Values(_) => "dictionary",
                }
            ),
        }
    }

    /// Whether it is stored at the places of a class of operator memory; such a column never moves.
    pub fn is_of_class(&self) -> bool {
        let by_class = |region: &Arc<Region>| matches!(region.placing(), Placing::ByClass { .. });
        self.regions.iter().any(by_class)
    }

    /// Whether placements apply to it: not to columns of a class or in a pool.
    pub fn is_movable(&self) -> bool {
        let movable = |region: &Arc<Region>| {
            matches!(
                region.placing(),
                Placing::ByPlacement | Placing::Kernel { .. }
            )
        };
        self.regions.iter().all(movable)
    }

    /// Of a column in a pool, where it lies and what was checked of it.
    pub fn pooled(&self) -> Option<PooledState> {
        self.guard.as_ref().map(|guard| guard.state())
    }

    /// Whether its bytes may have to be checked before they are used.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Checks the bytes of rows in a pool before their codes are used.
    ///
    /// # Errors
    /// [`EngineError::Pool`] for bytes that are not those that were sealed.
    #[inline]
    pub(crate) fn check_rows(&self, rows: Range<usize>) -> Result<(), EngineError> {
        match &self.guard {
            None => Ok(()),
            Some(guard) => guard.rows(rows),
        }
    }

    /// Whether some of `rows` may have a code that passes, by the smallest and the largest code of
    /// their zones; NULL does not pass.
    pub(crate) fn may_pass(&self, rows: Range<usize>, may_pass: impl Fn(u32, u32) -> bool) -> bool {
        let Some(coded) = self.coded() else {
            return true;
        };
        let found = coded.any_zone(rows, |zone| self.check_rows(zone), may_pass);
        // Whoever reads rows that turn out to be damaged gets the error.
        found.unwrap_or(true)
    }

    /// Whether some of `rows` may have a rank from `low` to `high` in an ascending order, by the
    /// zones of a column that is not coded; NULL has none.
    pub(crate) fn may_rank(&self, rows: Range<usize>, low: u64, high: u64) -> bool {
        zones_of(&rows).any(|zone| match self.ranks_in_zone(zone.start) {
            Some(Some((least, most))) => least <= high && most >= low,
            Some(None) => false,
            // Whoever reads rows that turn out to be damaged gets the error.
            None => true,
        })
    }

    /// The smallest and the largest code in the zone of `row`, of a coded column; `None` if nothing
    /// is known, all of its rows are NULL, or there is no such row.
    pub(crate) fn codes_in_zone(&self, row: usize) -> Option<(u32, u32)> {
        let mut range = None;
        // A table without rows has no zones.
        self.coded()
            .filter(|coded| row < coded.rows())?
            .any_zone(
                row..row + 1,
                |zone| self.check_rows(zone),
                |low, high| {
                    range = Some((low, high));
                    true
                },
            )
            .ok()?;
        range
    }

    /// Whether zones of ranks can be asked for: not of coded columns, and of types with an order
    /// and a width alone.
    pub(crate) fn has_rank_zones(&self) -> bool {
        matches!(&self.store, Store::Plain { zones: Some(_), .. })
    }

    /// The ranks in the zone of `row`, of a column that is not coded; `None` if nothing is known.
    pub(crate) fn ranks_in_zone(&self, row: usize) -> Option<ZoneRanks> {
        let Store::Plain {
            zones: Some(zones), ..
        } = &self.store
        else {
            return None;
        };
        let rows = self.rows();
        zones.range(row, |start, len| {
            self.slice(start, len.min(rows - start)).ok()
        })
    }

    /// The smallest and the largest rank of a column that is not coded, both `None` if all of its
    /// rows are NULL; `None` if nothing is known. Reads the zones that no query has asked for.
    pub(crate) fn rank_range(&self) -> Option<ZoneRanks> {
        let starts = (0..self.rows()).step_by(ZONE_ROWS);
        let zones = starts.map(|row| self.ranks_in_zone(row));
        let known: Option<Vec<ZoneRanks>> = zones.collect();
        let wider = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.max(b.1));
        Some(known?.into_iter().flatten().reduce(wider))
    }

    /// The regions that hold its values or codes.
    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    /// Statistics as of when it was loaded.
    pub fn facts(&self) -> &ColumnFacts {
        &self.facts
    }

    /// Computes the statistics again; reads the whole column.
    ///
    /// # Errors
    /// Same as [`ColumnFacts::of_codes`] and [`ColumnFacts::of_array`].
    pub fn measured_facts(&self) -> Result<ColumnFacts, EngineError> {
        self.check_rows(0..self.rows())?;
        match &self.store {
            Store::Plain { values, .. } => ColumnFacts::of_array(values.rows(0..self.rows())?),
            Store::Coded { column, .. } => ColumnFacts::of_codes(column),
        }
    }

    /// Whether [`PlacedColumn::slice`] points into the regions.
    ///
    /// If so, payloads of strings and lists do as well.
    pub fn is_zero_copy(&self) -> bool {
        matches!(
            &self.store,
            Store::Plain { .. } | Store::Coded { view: Some(_), .. }
        )
    }

    /// Rows `start..start + len`, as a slice or decoded.
    ///
    /// A slice needs no copy, see [`PlacedColumn::is_zero_copy`]; decoded rows are on the heap.
    ///
    /// A slice of fixed width gets a buffer of its own length: memory accounting that counts whole
    /// buffers would otherwise charge the whole column to every batch.
    ///
    /// # Errors
    /// Arrow's, from decoding.
    ///
    /// # Panics
    /// If the rows are out of range.
    pub fn slice(&self, start: usize, len: usize) -> Result<ArrayRef, EngineError> {
        let rows = start..start + len;
        let array = match &self.store {
            Store::Plain { values, .. } => values.rows(rows)?,
            Store::Coded {
                view: Some(view), ..
            } => view.rows(rows)?,
            Store::Coded { column, .. } => {
                self.check_rows(rows.clone())?;
                return column.decode(rows);
            }
        };
        match (array.data_type().primitive_width(), self.regions.as_slice()) {
            (Some(width), [region]) if len > 0 => own_slice(array, width, region, start, len),
            _ => Ok(array.slice(start, len)),
        }
    }

    /// Copies the rows `start + position` to the heap; each position is below `len`.
    ///
    /// # Errors
    /// Arrow's, from decoding.
    ///
    /// # Panics
    /// If a row is out of range.
    pub fn take(
        &self,
        start: usize,
        len: usize,
        positions: &[u32],
    ) -> Result<ArrayRef, EngineError> {
        let rows = start..start + len;
        match &self.store {
            Store::Plain { values, .. } => taken(values.rows(rows)?, start, len, positions),
            Store::Coded {
                view: Some(view), ..
            } => taken(view.rows(rows)?, start, len, positions),
            Store::Coded { column, .. } => {
                self.check_rows(rows)?;
                column.decode_at(start, positions)
            }
        }
    }

    /// The words of a column that is not coded; `None` if it is, or its values are none. Of a table
    /// in a pool, the bytes of rows have to be checked before they are used.
    ///
    /// # Errors
    /// [`EngineError::Pool`] for validity bits that are not those that were sealed.
    pub(crate) fn words(&self) -> Result<Option<ColumnWords>, EngineError> {
        match &self.store {
            Store::Plain { values, .. } if ColumnWords::has(values.data_type()) => {
                Ok(ColumnWords::of(values.rows(0..0)?))
            }
            _ => Ok(None),
        }
    }

    /// Whether it has words.
    pub(crate) fn has_words(&self) -> bool {
        matches!(&self.store, Store::Plain { values, .. } if ColumnWords::has(values.data_type()))
    }

    /// All rows of a column that is not coded, as they are stored.
    pub(crate) fn whole(&self) -> Result<&ArrayRef, EngineError> {
        match &self.store {
            Store::Plain { values, .. } => values.rows(0..values.len()),
            Store::Coded { .. } => Err(EngineError::Table {
                table: self.name.clone(),
                problem: "is a column of codes".into(),
            }),
        }
    }
}

/// Copies the rows `start + position` of `array`.
fn taken(
    array: &ArrayRef,
    start: usize,
    len: usize,
    positions: &[u32],
) -> Result<ArrayRef, EngineError> {
    let positions = UInt32Array::from(positions.to_vec());
    Ok(take(array.slice(start, len).as_ref(), &positions, None)?)
}

/// Rows of a fixed-width array stored in `region`, with a buffer of exactly their length.
fn own_slice(
    array: &ArrayRef,
    width: usize,
    region: &Arc<Region>,
    start: usize,
    len: usize,
) -> Result<ArrayRef, EngineError> {
    let part = array.slice(start, len).to_data();
    let Some(buffer) = part.buffers().first() else {
        return Ok(array.slice(start, len));
    };
    // Arrow moves the buffer's start, not the offset, when it slices a fixed-width array.
    let from = buffer.as_ptr() as usize + part.offset() * width - region.address();
    let data = ArrayData::builder(part.data_type().clone())
        .len(len)
        .nulls(part.nulls().cloned())
        .add_buffer(buffer_of(region, from, len * width)?)
        .build()?;
    Ok(make_array(data))
}

/// `len` bytes of `region` from `start` as an Arrow buffer that keeps the region mapped.
pub(crate) fn buffer_of(
    region: &Arc<Region>,
    start: usize,
    len: usize,
) -> Result<Buffer, EngineError> {
    let part = region.slice(start..start + len)?;
    Ok(Buffer::from(bytes::Bytes::from_owner(part)))
}

/// Calls `see` with the address and length of every buffer of `data` and its children.
fn for_buffers(
    data: &ArrayData,
    see: &mut dyn FnMut(usize, usize) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    for buffer in data.buffers() {
        see(buffer.as_ptr() as usize, buffer.len())?;
    }
    if let Some(nulls) = data.nulls() {
        see(
            nulls.buffer().as_ptr() as usize,
            nulls.len().div_ceil(8).min(nulls.buffer().len()),
        )?;
    }
    // The values of a dictionary are few and shared by all batches, so they stay on the heap.
    if matches!(data.data_type(), DataType::Dictionary(..)) {
        return Ok(());
    }
    data.child_data()
        .iter()
        .try_for_each(|child| for_buffers(child, see))
}
