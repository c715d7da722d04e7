//! Zone maps of columns that are not coded: the smallest and the largest rank of every few thousand
//! rows.
//!
//! Timestamps of microseconds and random floats need their 64 bits, but are often in some order
//! too. Each zone is looked at when a query first asks for it, which then reads the zone or leaves
//! it out.

use crate::coded::ZONE_ROWS;
use crate::ranks::{ascending, has_ranks};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use std::sync::OnceLock;

/// The smallest and the largest rank of a zone; `None` if all of its rows are NULL.
pub(super) type ZoneRanks = Option<(u64, u64)>;

/// The ranks of a column's zones, as [`crate::ranks`] gives them to an ascending order.
#[derive(Debug)]
pub(super) struct RankZones {
    ranges: Box<[OnceLock<ZoneRanks>]>,
}

impl RankZones {
    /// Zones of a column of `rows` rows; `None` for types without a width.
    pub fn new(data_type: &DataType, rows: usize) -> Option<Self> {
        let fits = data_type.primitive_width().is_some() && has_ranks(data_type);
        fits.then(|| RankZones {
            ranges: std::iter::repeat_with(OnceLock::new)
                .take(rows.div_ceil(ZONE_ROWS))
                .collect(),
        })
    }

    /// The ranks in the zone that has row `row`; `None` if its values cannot be read. `values`
    /// gives those of a start and a number of rows.
    pub fn range(
        &self,
        row: usize,
        values: impl FnOnce(usize, usize) -> Option<ArrayRef>,
    ) -> Option<ZoneRanks> {
        let zone = row / ZONE_ROWS;
        let known = self.ranges.get(zone)?;
        if let Some(range) = known.get() {
            return Some(*range);
        }
        let values = values(zone * ZONE_ROWS, ZONE_ROWS)?;
        let ranks = ascending(&values).ok()?;
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let bounds = |(low, high): (u64, u64), rank: u64| (low.min(rank), high.max(rank));
        let none = (u64::MAX, 0);
        let (low, high) = match nulls {
            None => ranks.into_iter().fold(none, bounds),
            Some(nulls) => nulls.valid_indices().map(|at| ranks[at]).fold(none, bounds),
        };
        let range = (low <= high).then_some((low, high));
        Some(*known.get_or_init(|| range))
    }
}
