//! Zone maps: the smallest and the largest code of every few thousand rows.
//!
//! Facts are often loaded in the order of a date, so a filter on it finds nothing in most zones,
//! and their rows need not be read. Loading knows the ranges of all zones; a column in a pool
//! learns each when a query first asks for it. NULL is in no range.

use super::CodedColumn;
use crate::EngineError;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use tierloom_kernels::codes::Codes;

/// Rows of a zone; the last one of a column may have fewer.
pub(crate) const ZONE_ROWS: usize = 4096;

/// A range that no zone has: nobody has looked at its codes yet.
const UNKNOWN: u64 = packed(1, 0);

/// The range of a zone whose rows are all NULL.
const NONE: (u32, u32) = (u32::MAX, 0);

/// The parts of `rows` that are in one zone each, in their order.
pub(crate) fn zones_of(rows: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let rows = rows.clone();
    let zones = match rows.is_empty() {
        true => 0..0,
        false => rows.start / ZONE_ROWS..rows.end.div_ceil(ZONE_ROWS),
    };
    zones.map(move |zone| {
        let start = zone * ZONE_ROWS;
        rows.start.max(start)..rows.end.min(start + ZONE_ROWS)
    })
}

/// The ranges of a column's zones, each in one word.
#[derive(Debug)]
pub(super) struct Zones {
    ranges: Box<[AtomicU64]>,
}

const fn packed(low: u32, high: u32) -> u64 {
    (low as u64) << 32 | high as u64
}

impl Zones {
    /// Zones of `rows` rows whose ranges are not known.
    pub fn new(rows: usize) -> Self {
        let unknown = || AtomicU64::new(UNKNOWN);
        Zones {
            ranges: std::iter::repeat_with(unknown)
                .take(rows.div_ceil(ZONE_ROWS))
                .collect(),
        }
    }

    /// Looks at the codes of a zone; its range, and how many of its codes are below `first`.
    fn look(&self, zone: usize, codes: &Codes<'_>, first: u32) -> (Option<(u32, u32)>, usize) {
        let start = zone * ZONE_ROWS;
        let rows = start..codes.rows().min(start + ZONE_ROWS);
        let (range, below) = codes.slice(rows).range(first);
        let (low, high) = range.unwrap_or(NONE);
        // Relaxed is enough: the word is all that is published.
        self.ranges[zone].store(packed(low, high), Ordering::Relaxed);
        (range, below)
    }
}

impl CodedColumn {
    /// Looks at all codes: the smallest and the largest that is not NULL, and the number of NULLs.
    pub(crate) fn range(&self) -> (Option<(u32, u32)>, usize) {
        let (codes, first) = (self.codes(), u32::from(self.nullable));
        let (mut whole, mut nulls) = (None, 0);
        for zone in 0..self.zones.ranges.len() {
            let (range, below) = self.zones.look(zone, &codes, first);
            nulls += below;
            whole = match (whole, range) {
                (Some((a, b)), Some((low, high))) => Some((low.min(a), high.max(b))),
                (known, None) | (None, known) => known,
            };
        }
        (whole, nulls)
    }

    /// Whether `may_pass` holds for the range of codes of a zone with any of `rows`.
    ///
    /// `check` is called before codes are looked at.
    ///
    /// # Errors
    /// Those of `check`.
    pub(crate) fn any_zone(
        &self,
        rows: Range<usize>,
        check: impl Fn(Range<usize>) -> Result<(), EngineError>,
        mut may_pass: impl FnMut(u32, u32) -> bool,
    ) -> Result<bool, EngineError> {
        for zone in rows.start / ZONE_ROWS..rows.end.div_ceil(ZONE_ROWS) {
            let mut range = self.zones.ranges[zone].load(Ordering::Relaxed);
            if range == UNKNOWN {
                let start = zone * ZONE_ROWS;
                check(start..self.rows.min(start + ZONE_ROWS))?;
                self.zones
                    .look(zone, &self.codes(), u32::from(self.nullable));
                range = self.zones.ranges[zone].load(Ordering::Relaxed);
            }
            let (low, high) = ((range >> 32) as u32, range as u32);
            if low <= high && may_pass(low, high) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::{Domain, Unit};
    use arrow::datatypes::DataType;
    use proptest::prelude::*;
    use std::sync::Arc;
    use tierloom_kernels::codes::{CodeWidth, pack};
    use tierloom_memory::{AnonymousNuma, PageSize, Placement, Region, RegionOptions};
    use tierloom_topology::{NodeId, SysRoot, Topology};

    fn column(codes: &[u32], nullable: bool) -> CodedColumn {
        let width = CodeWidth::for_max(1000);
        let options = RegionOptions {
            name: "codes".into(),
            size_bytes: PageSize::Base.round_up(width.size_bytes(codes.len())),
            page_size: PageSize::Base,
            placement: Placement::bind(NodeId(0)),
            start_page: 0,
            threads: 1,
        };
        let topology = Topology::read(&SysRoot::host()).unwrap();
        let mut region =
            Region::create(Arc::new(AnonymousNuma::new()), &topology, options).unwrap();
        pack(region.as_mut_slice(), width, 0, codes);
        let last = 1000 - i64::from(nullable);
        let domain = Domain::Offset {
            base: 0,
            last,
            unit: Unit::ONE,
        };
        let region = Arc::new(region);
        CodedColumn::new("c", DataType::Int64, region, codes.len(), nullable, domain).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_zone_with_a_row_that_passes_is_left_out(
            zones in prop::collection::vec((0_u32..900, 0_u32..100, any::<bool>()), 1..5),
            short in 0..ZONE_ROWS - 1,
            bounds in (0_u32..1000, 0_u32..1000),
            rows in any::<(prop::sample::Index, prop::sample::Index)>(),
            nullable in any::<bool>(),
            known in any::<bool>(),
        ) {
            let mut codes: Vec<u32> = Vec::new();
            for (low, span, empty) in zones {
                let code = |at: u32| match (empty || at.is_multiple_of(7), nullable) {
                    (true, true) => 0,
                    _ => low + at % (span + 1),
                };
                codes.extend((0..ZONE_ROWS as u32).map(code));
            }
            codes.truncate(codes.len() - short);
            let column = column(&codes, nullable);
            let values = codes.iter().filter(|code| **code >= u32::from(nullable));
            let range = values.clone().min().zip(values.clone().max()).map(|(l, h)| (*l, *h));
            if known {
                prop_assert_eq!(column.range(), (range, codes.len() - values.count()));
            }
            let (a, b) = (rows.0.index(codes.len()), rows.1.index(codes.len()));
            let rows = a.min(b)..a.max(b) + 1;
            let (low, high) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
            let passes = |code: &u32| {
                (*code >= u32::from(nullable)) && (low..=high).contains(code)
            };
            let found = column.any_zone(rows.clone(), |_| Ok(()), |from, to| from <= high && to >= low);
            let found = found.unwrap();
            prop_assert!(found || !codes[rows.clone()].iter().any(passes));
            // Not all zones: those beside the rows do not count, and a range is of one zone.
            let around = rows.start / ZONE_ROWS * ZONE_ROWS
                ..codes.len().min(rows.end.div_ceil(ZONE_ROWS) * ZONE_ROWS);
            let reached = codes[around].chunks(ZONE_ROWS).any(|zone| {
                let values = zone.iter().filter(|code| **code >= u32::from(nullable));
                let range = values.clone().min().zip(values.max());
                range.is_some_and(|(from, to)| *from <= high && *to >= low)
            });
            prop_assert_eq!(found, reached);
        }
    }
}
