//! Aggregates over frames of so many rows before and after the current one.
//!
//! The rows of a partition are cut into blocks as long as a frame. For each row, the total from the
//! begin of its block and the one to its end are computed. A frame ends in the block in which it
//! begins or in the next one, so its total is made of these two: three steps for a row, however
//! long the frame is, and no value is ever subtracted, as it would be for floats with an error that
//! stays (van Herk, "A Fast Algorithm for Local Minimum and Maximum Filters on Rectangular and
//! Octagonal Kernels", Pattern Recognition Letters 13(7), 1992).

use super::kinds::PeerGroups;
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use std::ops::Range;
use std::sync::Arc;

/// Most rows before or after the current one.
pub(super) const MAX_ROWS: i64 = 4096;

/// The rows of a frame, counted from the current one.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowFrame {
    from: i64,
    to: i64,
}

impl RowFrame {
    /// `None` for frames that are not of rows, or have no limit on both sides.
    pub fn of(frame: &WindowFrame) -> Option<RowFrame> {
        let span = RowFrame {
            from: offset(&frame.start_bound)?,
            to: offset(&frame.end_bound)?,
        };
        (frame.units == WindowFrameUnits::Rows && span.from <= span.to).then_some(span)
    }

    /// How many rows after the current one a frame has at most.
    pub fn ahead(&self) -> usize {
        self.to.max(0) as usize
    }

    fn rows(&self) -> usize {
        (self.to - self.from) as usize + 1
    }

    /// The frame of row `row` of the first `rows` rows of a partition.
    fn frame(&self, row: usize, rows: usize) -> Range<usize> {
        let place = |offset: i64| (row as i64 + offset).clamp(0, rows as i64) as usize;
        place(self.from)..place(self.to + 1)
    }
}

fn offset(bound: &WindowFrameBound) -> Option<i64> {
    let rows = |rows: &ScalarValue| match rows.cast_to(&arrow::datatypes::DataType::Int64) {
        Ok(ScalarValue::Int64(Some(rows))) => (0..=MAX_ROWS).contains(&rows).then_some(rows),
        _ => None,
    };
    match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(before) => rows(before).map(|rows| -rows),
        WindowFrameBound::Following(after) => rows(after),
    }
}

/// A function over frames, and the rows before the next batch that its frames may have.
#[derive(Debug, Clone)]
pub(super) struct Sliding {
    pub span: RowFrame,
    before: Option<ArrayRef>,
    /// Rows of the partition before the next batch.
    reached: usize,
}

/// The values of a batch with those before it, and the partitions among them.
pub(super) struct Frames {
    pub values: ArrayRef,
    span: RowFrame,
    partitions: Vec<Range<usize>>,
    /// The rows whose totals are asked for.
    rows: Range<usize>,
}

impl Sliding {
    pub fn new(span: RowFrame) -> Self {
        Sliding {
            span,
            before: None,
            reached: 0,
        }
    }

    /// The frames of the rows of a batch, of which `argument` has the values.
    ///
    /// # Errors
    /// Of arrays that are too large.
    pub fn next(&mut self, argument: &ArrayRef, groups: &PeerGroups<'_>) -> Result<Frames> {
        if !groups.same_partition {
            (self.before, self.reached) = (None, 0);
        }
        let values = match self.before.take() {
            Some(before) => concat(&[before.as_ref(), argument.as_ref()])?,
            None => Arc::clone(argument),
        };
        let earlier = values.len() - argument.len();
        // Blocks are counted from the begin of the partition, where `before` has been cut too.
        let first = self.reached - earlier;
        let shifted = groups.partitions.iter().enumerate();
        let shifted = shifted.map(|(at, rows)| match at {
            0 => 0..rows.end + earlier,
            _ => rows.start + earlier..rows.end + earlier,
        });
        let partitions: Vec<Range<usize>> = shifted.collect();
        let next = earlier + groups.done();
        let at = partitions.partition_point(|rows| rows.end <= next);
        let open = partitions.get(at).or(partitions.last());
        let open = open.filter(|rows| rows.start < next).cloned();
        self.reached = 0;
        if let Some(open) = open {
            let start = if open.start == 0 { first } else { 0 };
            self.reached = start + next - open.start;
            let needed = self.reached as i64 + self.span.from.min(0);
            let kept = needed.max(0) as usize / self.span.rows() * self.span.rows();
            let kept = kept.max(start);
            let from = open.start + kept - start;
            self.before = Some(values.slice(from, next - from));
        }
        Ok(Frames {
            values,
            span: self.span,
            partitions,
            rows: earlier..next,
        })
    }
}

impl Frames {
    /// How many values that are not NULL the frame of each row has.
    pub fn counts(&self) -> Vec<usize> {
        let valid = self.valid();
        let mut counts = Vec::with_capacity(self.rows.len());
        for partition in &self.partitions {
            for row in self.asked(partition) {
                let frame = self.span.frame(row, partition.len());
                counts.push(valid(
                    frame.start + partition.start..frame.end + partition.start,
                ));
            }
        }
        counts
    }

    /// Calls `each` with the total of the frame of each row, `None` if that has no rows.
    ///
    /// `all` are the values, or what stands for them.
    pub fn totals<T: Copy>(
        &self,
        all: &[T],
        combine: impl Fn(T, T) -> T,
        mut each: impl FnMut(Option<T>),
    ) {
        let len = self.span.rows();
        let (mut from_begin, mut to_end) = (all.to_vec(), all.to_vec());
        for partition in &self.partitions {
            let begins = from_begin[partition.clone()].chunks_mut(len);
            let ends = to_end[partition.clone()].chunks_mut(len);
            for (begin, end) in begins.zip(ends) {
                for at in 1..begin.len() {
                    begin[at] = combine(begin[at - 1], begin[at]);
                }
                for at in (1..end.len()).rev() {
                    end[at - 1] = combine(end[at - 1], end[at]);
                }
            }
            let (begins, ends) = (&from_begin[partition.clone()], &to_end[partition.clone()]);
            for row in self.asked(partition) {
                let frame = self.span.frame(row, partition.len());
                if frame.is_empty() {
                    each(None);
                    continue;
                }
                let (first, last) = (frame.start, frame.end - 1);
                let in_block = first % len;
                each(Some(match last - first < len - in_block {
                    true if in_block == 0 => begins[last],
                    // It ends where its block does, or the partition.
                    true => ends[first],
                    false => combine(ends[first], begins[last]),
                }));
            }
        }
    }

    /// The rows of a partition whose totals are asked for, counted from its first one.
    fn asked(&self, partition: &Range<usize>) -> Range<usize> {
        let from = self.rows.start.clamp(partition.start, partition.end);
        let to = self.rows.end.clamp(partition.start, partition.end);
        from - partition.start..to - partition.start
    }

    /// How many values that are not NULL a range of rows has.
    fn valid(&self) -> impl Fn(Range<usize>) -> usize {
        let before = self.values.logical_nulls().map(|nulls| {
            let mut count = 0_usize;
            let counts = nulls.iter().map(|valid| {
                count += usize::from(valid);
                count
            });
            std::iter::once(0).chain(counts).collect::<Vec<_>>()
        });
        move |rows| match &before {
            Some(before) => before[rows.end] - before[rows.start],
            None => rows.len(),
        }
    }
}
