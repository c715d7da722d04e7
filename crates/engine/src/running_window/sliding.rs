//! Aggregates over frames that go from row to row with the current one.
//!
//! Frames of so many rows: the rows of a partition are cut into blocks as long as a frame. For each
//! row, the total from the begin of its block and the one to its end are computed. A frame ends in
//! the block in which it begins or in the next one, so its total is made of these two: three steps
//! for a row, however long the frame is, and no value is ever subtracted, as it would be for floats
//! with an error that stays (van Herk, "A Fast Algorithm for Local Minimum and Maximum Filters on
//! Rectangular and Octagonal Kernels", Pattern Recognition Letters 13(7), 1992).
//!
//! Frames by value ([`by_value`](super::by_value)) have any number of rows, but none begins or ends
//! before the one of the row before. They are queues of two stacks: one with the totals from each
//! of the oldest rows to the end of these, and the total of the newer ones. When the first is
//! empty, all others move there, so that each row is added twice, and nothing is subtracted here
//! either.

use super::by_value::ValueFrame;
use super::kinds::PeerGroups;
use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat, take};
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

/// Which rows a frame has.
#[derive(Debug, Clone, Copy)]
pub(super) enum FrameSpan {
    Rows(RowFrame),
    Values(ValueFrame),
}

/// A function over frames, and the rows before the next batch that its frames may have.
#[derive(Debug, Clone)]
pub(super) struct Sliding {
    pub span: FrameSpan,
    before: Option<ArrayRef>,
    /// The places of the keys of those rows, for frames by value.
    places_before: Vec<i128>,
    /// Rows of the partition before the next batch.
    reached: usize,
}

/// The values of a batch with those before it, and the partitions among them.
pub(super) struct Frames {
    pub values: ArrayRef,
    span: FrameSpan,
    /// The places of keys, for frames by value.
    places: Vec<i128>,
    partitions: Vec<Range<usize>>,
    /// The rows whose totals are asked for.
    rows: Range<usize>,
}

impl Sliding {
    pub fn new(span: FrameSpan) -> Self {
        Sliding {
            span,
            before: None,
            places_before: Vec::new(),
            reached: 0,
        }
    }

    /// The rows that are kept for the next batch.
    pub fn kept(&self) -> usize {
        self.before.as_ref().map_or(0, |before| before.len())
    }

    /// How many rows up to the end of the `last` partition have complete frames if others may
    /// follow.
    pub fn complete(&self, places: &[i128], last: &Range<usize>) -> usize {
        match self.span {
            FrameSpan::Rows(span) => last.end.saturating_sub(span.ahead()),
            FrameSpan::Values(span) if span.ends_with_peers() => last.end,
            FrameSpan::Values(span) => span.first_open(places, last),
        }
    }

    /// Whether frames are by value, for which rows have to come with all their peers.
    pub fn by_value(&self) -> bool {
        matches!(self.span, FrameSpan::Values(_))
    }

    /// The frames of the rows of a batch, of which `argument` has the values.
    ///
    /// # Errors
    /// Of arrays that are too large.
    pub fn next(&mut self, argument: &ArrayRef, groups: &PeerGroups<'_>) -> Result<Frames> {
        if !groups.same_partition {
            (self.before, self.reached) = (None, 0);
            self.places_before.clear();
        }
        let values = match self.before.take() {
            Some(before) => concat(&[before.as_ref(), argument.as_ref()])?,
            None => Arc::clone(argument),
        };
        let mut places = std::mem::take(&mut self.places_before);
        if self.by_value() {
            places.extend(groups.places);
        }
        let earlier = values.len() - argument.len();
        let shifted = groups.partitions.iter().enumerate();
        let shifted = shifted.map(|(at, rows)| match at {
            0 => 0..rows.end + earlier,
            _ => rows.start + earlier..rows.end + earlier,
        });
        let partitions: Vec<Range<usize>> = shifted.collect();
        let next = earlier + groups.done();
        let frames = Frames {
            values,
            span: self.span,
            places,
            partitions,
            rows: earlier..next,
        };
        let at = frames.partitions.partition_point(|rows| rows.end <= next);
        let open = frames.partitions.get(at).or(frames.partitions.last());
        let open = open.filter(|rows| rows.start < next).cloned();
        // Blocks are counted from the begin of the partition, where `before` has been cut too.
        let first = self.reached - earlier;
        self.reached = 0;
        if let Some(open) = open {
            let start = if open.start == 0 { first } else { 0 };
            self.reached = start + next - open.start;
            let from = match self.span {
                FrameSpan::Rows(span) => {
                    let needed = self.reached as i64 + span.from.min(0);
                    let kept = needed.max(0) as usize / span.rows() * span.rows();
                    open.start + kept.max(start) - start
                }
                FrameSpan::Values(span) => {
                    let mut from = open.start;
                    // The next row is no further in the order than the last one.
                    span.frames(&frames.places, &open, next - 1..next, |frame| {
                        from = frame.start.min(next);
                    });
                    from
                }
            };
            self.before = Some(frames.values.slice(from, next - from));
            if self.by_value() {
                self.places_before = frames.places[from..next].to_vec();
            }
        }
        Ok(frames)
    }
}

impl Frames {
    /// Calls `each` with the frame of each row whose total is asked for, and its partition.
    fn each(&self, mut each: impl FnMut(Range<usize>, &Range<usize>)) {
        for partition in &self.partitions {
            let asked = self.asked(partition);
            match self.span {
                FrameSpan::Rows(span) => asked.for_each(|row| {
                    let frame = span.frame(row, partition.len());
                    each(
                        frame.start + partition.start..frame.end + partition.start,
                        partition,
                    );
                }),
                FrameSpan::Values(span) => {
                    let asked = asked.start + partition.start..asked.end + partition.start;
                    span.frames(&self.places, partition, asked, |frame| {
                        each(frame, partition);
                    });
                }
            }
        }
    }

    /// How many values that are not NULL the frame of each row has.
    pub fn counts(&self) -> Vec<usize> {
        let valid = self.valid();
        let mut counts = Vec::with_capacity(self.rows.len());
        self.each(|frame, _| counts.push(valid(frame)));
        counts
    }

    /// The first or last value of the frame of each row, NULL if that has no rows.
    ///
    /// # Errors
    /// Arrow's, of arrays that are too large.
    pub fn ends(&self, first: bool) -> Result<ArrayRef> {
        let mut sources: Vec<u32> = Vec::with_capacity(self.rows.len());
        let mut exist = BooleanBufferBuilder::new(self.rows.len());
        self.each(|frame, _| {
            exist.append(!frame.is_empty());
            sources.push(match frame.is_empty() {
                true => 0,
                false if first => frame.start as u32,
                false => frame.end as u32 - 1,
            });
        });
        let exist = NullBuffer::from(exist.finish());
        let exist = (exist.null_count() > 0).then_some(exist);
        let sources = UInt32Array::new(sources.into(), exist);
        Ok(take(&self.values, &sources, None)?)
    }

    /// Calls `each` with the total of the frame of each row, `None` if that has no rows.
    ///
    /// `all` are the values, or what stands for them.
    pub fn totals<T: Copy>(
        &self,
        all: &[T],
        combine: impl Fn(T, T) -> T,
        each: impl FnMut(Option<T>),
    ) {
        match self.span {
            FrameSpan::Rows(span) => self.totals_of_rows(span, all, combine, each),
            FrameSpan::Values(_) => self.totals_of_queues(all, combine, each),
        }
    }

    fn totals_of_queues<T: Copy>(
        &self,
        all: &[T],
        combine: impl Fn(T, T) -> T,
        mut each: impl FnMut(Option<T>),
    ) {
        // The totals from each row of the older ones to their end, the oldest last.
        let mut older: Vec<T> = Vec::new();
        let mut newer: Option<T> = None;
        // The rows that both have.
        let (mut start, mut middle, mut end) = (0, 0, 0);
        self.each(|frame, partition| {
            if frame.is_empty() {
                each(None);
                return;
            }
            if start < partition.start || frame.start >= end {
                older.clear();
                newer = None;
                (start, middle, end) = (frame.start, frame.start, frame.start);
            }
            while end < frame.end {
                newer = Some(newer.map_or(all[end], |total| combine(total, all[end])));
                end += 1;
            }
            if frame.start >= middle {
                let mut total = None;
                older.clear();
                older.extend(all[frame.start..end].iter().rev().map(|value| {
                    let sum = total.map_or(*value, |total| combine(*value, total));
                    total = Some(sum);
                    sum
                }));
                newer = None;
                middle = end;
            } else {
                older.truncate(older.len() - (frame.start - start));
            }
            start = frame.start;
            each(match (older.last(), newer) {
                (Some(older), Some(newer)) => Some(combine(*older, newer)),
                (older, newer) => older.copied().or(newer),
            });
        });
    }

    fn totals_of_rows<T: Copy>(
        &self,
        span: RowFrame,
        all: &[T],
        combine: impl Fn(T, T) -> T,
        mut each: impl FnMut(Option<T>),
    ) {
        let len = span.rows();
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
                let frame = span.frame(row, partition.len());
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
