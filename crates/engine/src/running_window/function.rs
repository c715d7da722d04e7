//! Window functions as loops over the rows of a batch.

use super::by_value::ValueFrame;
use super::kinds::{PeerGroups, Wide, WindowKind};
use super::sliding::{FrameSpan, MAX_ROWS, RowFrame, Sliding};
use super::totals::{floats_of, leaves_range, whole_of};
use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray,
    RecordBatch, UInt32Array, UInt64Array,
};
use arrow::compute::{concat, sum, take};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::windows::WindowUDFExpr;
use std::ops::Range;
use std::sync::Arc;

/// A window function, its argument and the value that it has reached.
#[derive(Debug, Clone)]
pub(super) struct Function {
    kind: WindowKind,
    argument: Option<Arc<dyn PhysicalExpr>>,
    /// The type of its values.
    data_type: DataType,
    /// Whether a value is that of the last of its peers.
    pub by_peers: bool,
    reached: Reached,
    /// For [`WindowKind::Lag`], the last arguments before the next batch, for [`WindowKind::First`]
    /// the value that the partition began with.
    before: Option<ArrayRef>,
    /// For a function whose frame does not begin with the partition.
    sliding: Option<Sliding>,
}

/// What a function knows of the rows of the current partition so far.
#[derive(Debug, Clone, Copy, Default)]
struct Reached {
    rows: u64,
    rank: u64,
    dense_rank: u64,
    /// Arguments that are not NULL.
    values: i64,
    /// The sum or extreme of integers and decimals.
    whole: i128,
    float: f64,
}

impl Function {
    /// Whether a value tells how many rows of a partition come before one, or are better.
    pub fn ranks(&self) -> bool {
        matches!(self.kind, WindowKind::RowNumber | WindowKind::Rank)
    }

    /// The function of `window`, whose input has `schema`; `None` if it is none of those above.
    pub fn of(
        window: &Arc<dyn WindowExpr>,
        schema: &arrow::datatypes::Schema,
    ) -> Result<Option<Self>> {
        let data_type = window.field()?.data_type().clone();
        let made = |kind, argument, by_peers| Function {
            kind,
            argument,
            data_type: data_type.clone(),
            by_peers,
            reached: Reached::default(),
            before: None,
            sliding: None,
        };
        if let Some(standard) = window.as_any().downcast_ref::<StandardWindowExpr>() {
            let argument = window.expressions().into_iter().next();
            let sliding = span(window, schema)?.map(Sliding::new);
            let kind = of_rows(standard, &data_type, sliding.as_ref());
            return Ok(kind.map(|(kind, by_peers)| Function {
                sliding: sliding.filter(|_| matches!(kind, WindowKind::First | WindowKind::Last)),
                ..made(kind, argument, by_peers)
            }));
        }
        let Some((aggregate, is_sliding)) = aggregate(window) else {
            return Ok(None);
        };
        let sliding = match (is_sliding, span(window, schema)?) {
            (true, None) => return Ok(None),
            (true, Some(span)) => Some(Sliding::new(span)),
            (false, _) => None,
        };
        let runs = || runs_by_peers(window.get_window_frame());
        let by_peers = sliding.as_ref().map_or_else(runs, |s| Some(s.by_value()));
        let Some(by_peers) = by_peers else {
            return Ok(None);
        };
        if aggregate.is_distinct()
            || aggregate.ignore_nulls()
            || !aggregate.order_bys().is_empty()
            || (by_peers && window.order_by().is_empty())
            || has_filter(window)
        {
            return Ok(None);
        }
        let arguments = aggregate.expressions();
        let [argument] = &arguments[..] else {
            return Ok(None);
        };
        let of = argument.data_type(schema)?;
        let is_whole = matches!(
            of,
            DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..)
        );
        let has_order = is_whole || of.is_integer() || of == DataType::Date32;
        let float = of == DataType::Float64 && data_type == DataType::Float64;
        let slides = sliding.is_some();
        let kind = match aggregate.fun().name() {
            "count" if data_type == DataType::Int64 => WindowKind::Count,
            "sum" if float || is_whole && same_kind(&of, &data_type) => WindowKind::Sum,
            "avg" if float => WindowKind::Average,
            "min" if data_type == of && (has_order || float && slides) => WindowKind::Min,
            "max" if data_type == of && (has_order || float && slides) => WindowKind::Max,
            _ => return Ok(None),
        };
        let argument = Some(Arc::clone(argument));
        Ok(Some(Function {
            sliding,
            ..made(kind, argument, by_peers)
        }))
    }

    /// How many rows have all that their values are made of, if others may follow.
    ///
    /// `places` are those of the keys, and the rows end with those of the `last` partition.
    pub fn complete(&self, places: &[i128], last: &Range<usize>) -> usize {
        match (self.kind, &self.sliding) {
            (WindowKind::Lead(ahead), _) => last.end.saturating_sub(ahead),
            (_, Some(sliding)) => sliding.complete(places, last),
            (_, None) => last.end,
        }
    }

    /// Whether it has frames by value.
    pub fn by_value(&self) -> bool {
        self.sliding.as_ref().is_some_and(Sliding::by_value)
    }

    /// The rows before the next batch that it keeps.
    pub fn kept(&self) -> usize {
        self.sliding.as_ref().map_or(0, Sliding::kept)
    }

    /// The values for the rows of `groups`, of `batch`, which come after those of the batch before.
    ///
    /// # Errors
    /// Of the argument, and sums that leave the range of their type.
    pub fn values(&mut self, batch: &RecordBatch, groups: &PeerGroups<'_>) -> Result<ArrayRef> {
        let looks_around = self.sliding.is_some() || matches!(self.kind, WindowKind::Lead(_));
        let rows = match looks_around {
            true => batch.num_rows(),
            false => groups.done(),
        };
        let batch = batch.slice(0, rows);
        let argument = self.argument.as_ref();
        let argument = argument.map(|argument| argument.evaluate(&batch)?.into_array(rows));
        let Some(argument) = argument.transpose()? else {
            return Ok(self.numbers(groups));
        };
        if let (WindowKind::First | WindowKind::Last, Some(sliding)) =
            (self.kind, &mut self.sliding)
        {
            let frames = sliding.next(&argument, groups)?;
            return frames.ends(self.kind == WindowKind::First);
        }
        match (self.kind, argument.data_type().clone()) {
            (WindowKind::Lag(back), _) => self.lags(back, argument, groups),
            (WindowKind::Lead(further), _) => leads(further, &argument, groups),
            (WindowKind::First, _) => self.firsts(argument, groups),
            (WindowKind::Last, _) if self.by_peers => last_peers(&argument, groups),
            (WindowKind::Last, _) => Ok(argument),
            (WindowKind::Count, _) => self.counts(&argument, groups),
            (_, DataType::Float64) => self.floats(&argument, groups),
            (_, DataType::Int8) => self.whole::<Int8Type>(&argument, groups),
            (_, DataType::Int16) => self.whole::<Int16Type>(&argument, groups),
            (_, DataType::Int32) => self.whole::<Int32Type>(&argument, groups),
            (_, DataType::Date32) => self.whole::<Date32Type>(&argument, groups),
            (_, DataType::Int64) => self.whole::<Int64Type>(&argument, groups),
            (_, DataType::UInt8) => self.whole::<UInt8Type>(&argument, groups),
            (_, DataType::UInt16) => self.whole::<UInt16Type>(&argument, groups),
            (_, DataType::UInt32) => self.whole::<UInt32Type>(&argument, groups),
            (_, DataType::UInt64) => self.whole::<UInt64Type>(&argument, groups),
            (_, DataType::Decimal128(..)) => self.whole::<Decimal128Type>(&argument, groups),
            (_, other) => internal_err!("a running window over {other}"),
        }
    }

    fn numbers(&mut self, groups: &PeerGroups<'_>) -> ArrayRef {
        let mut numbers = Vec::with_capacity(groups.done());
        let reached = &mut self.reached;
        for (at, (peers, begins)) in groups.peers.iter().zip(groups.begins).enumerate() {
            if *begins {
                *reached = Reached::default();
            }
            if at > 0 || !groups.continues {
                reached.rank = reached.rows + 1;
                reached.dense_rank += 1;
            }
            let len = peers.len() as u64;
            match self.kind {
                WindowKind::RowNumber => numbers.extend(reached.rows + 1..=reached.rows + len),
                WindowKind::Rank => numbers.extend(std::iter::repeat_n(reached.rank, peers.len())),
                _ => numbers.extend(std::iter::repeat_n(reached.dense_rank, peers.len())),
            }
            reached.rows += len;
        }
        Arc::new(UInt64Array::from(numbers))
    }

    fn lags(
        &mut self,
        back: usize,
        argument: ArrayRef,
        groups: &PeerGroups<'_>,
    ) -> Result<ArrayRef> {
        let all = match self.before.take() {
            Some(before) => concat(&[before.as_ref(), argument.as_ref()])?,
            None => Arc::clone(&argument),
        };
        let earlier = all.len() - argument.len();
        let mut sources: Vec<Option<u32>> = Vec::with_capacity(argument.len());
        self.each_step(groups, |reached, rows| {
            let has_source = reached.rows >= back as u64;
            sources.push(has_source.then(|| (earlier + rows.start - back) as u32));
            reached.rows += 1;
            Ok(())
        })?;
        let kept = all.len().min(back);
        self.before = Some(all.slice(all.len() - kept, kept));
        Ok(take(&all, &UInt32Array::from(sources), None)?)
    }

    fn firsts(&mut self, argument: ArrayRef, groups: &PeerGroups<'_>) -> Result<ArrayRef> {
        let all = match self.before.take().filter(|_| groups.same_partition) {
            Some(before) => concat(&[before.as_ref(), argument.as_ref()])?,
            None => Arc::clone(&argument),
        };
        let earlier = all.len() - argument.len();
        let mut sources: Vec<u32> = Vec::with_capacity(argument.len());
        for partition in groups.partitions {
            let asked = partition.start..partition.end.min(argument.len());
            let first = match partition.start {
                0 => 0,
                start => earlier + start,
            };
            sources.extend(std::iter::repeat_n(first as u32, asked.len()));
        }
        self.before = sources.last().map(|first| all.slice(*first as usize, 1));
        Ok(take(&all, &UInt32Array::from(sources), None)?)
    }

    /// Calls `each` with what the function has reached and the next rows whose value is the same.
    fn each_step(
        &mut self,
        groups: &PeerGroups<'_>,
        mut each: impl FnMut(&mut Reached, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        for (peers, begins) in groups.peers.iter().zip(groups.begins) {
            if *begins {
                self.reached = Reached::default();
            }
            if self.by_peers {
                each(&mut self.reached, peers.clone())?;
                continue;
            }
            for row in peers.clone() {
                each(&mut self.reached, row..row + 1)?;
            }
        }
        Ok(())
    }

    fn counts(&mut self, argument: &ArrayRef, groups: &PeerGroups<'_>) -> Result<ArrayRef> {
        if let Some(sliding) = &mut self.sliding {
            let counts = sliding.next(argument, groups)?.counts().into_iter();
            let counts = counts.map(|count| count as i64);
            return Ok(Arc::new(Int64Array::from_iter_values(counts)));
        }
        let mut counts = Vec::with_capacity(argument.len());
        let nulls = argument.logical_nulls();
        self.each_step(groups, |reached, rows| {
            let valid = match &nulls {
                Some(nulls) => rows.clone().filter(|row| nulls.is_valid(*row)).count(),
                None => rows.len(),
            };
            reached.values += valid as i64;
            counts.extend(std::iter::repeat_n(reached.values, rows.len()));
            Ok(())
        })?;
        Ok(Arc::new(Int64Array::from(counts)))
    }

    /// Sums and averages of floats, added up as DataFusion's accumulators do.
    fn floats(&mut self, argument: &ArrayRef, groups: &PeerGroups<'_>) -> Result<ArrayRef> {
        if let Some(sliding) = &mut self.sliding {
            return Ok(floats_of(&sliding.next(argument, groups)?, self.kind));
        }
        let argument = argument.as_primitive::<Float64Type>();
        let mut values = PrimitiveArray::<Float64Type>::builder(argument.len());
        let is_average = self.kind == WindowKind::Average;
        self.each_step(groups, |reached, rows| {
            if rows.len() > 1 {
                let part = argument.slice(rows.start, rows.len());
                reached.values += (part.len() - part.null_count()) as i64;
                reached.float += sum(&part).unwrap_or(0.0);
            } else if argument.is_valid(rows.start) {
                reached.values += 1;
                reached.float += argument.value(rows.start);
            }
            let value = match is_average {
                true => reached.float / reached.values as f64,
                false => reached.float,
            };
            match reached.values {
                0 => values.append_nulls(rows.len()),
                _ => values.append_value_n(value, rows.len()),
            }
            Ok(())
        })?;
        Ok(Arc::new(values.finish()))
    }

    /// Sums and extremes of integers, decimals and days.
    fn whole<T: ArrowPrimitiveType>(
        &mut self,
        argument: &ArrayRef,
        groups: &PeerGroups<'_>,
    ) -> Result<ArrayRef>
    where
        T::Native: TryFrom<i128> + Into<Wide>,
    {
        if let Some(sliding) = &mut self.sliding {
            let frames = sliding.next(argument, groups)?;
            return whole_of::<T>(&frames, self.kind, &self.data_type);
        }
        let array = argument.as_primitive::<T>();
        let mut values = PrimitiveArray::<T>::builder(array.len());
        let (kind, data_type) = (self.kind, self.data_type.clone());
        let left = || leaves_range(&data_type);
        self.each_step(groups, |reached, rows| {
            for row in rows.clone().filter(|row| array.is_valid(*row)) {
                let Wide(value) = array.value(row).into();
                reached.values += 1;
                reached.whole = match kind {
                    _ if reached.values == 1 => value,
                    WindowKind::Min => reached.whole.min(value),
                    WindowKind::Max => reached.whole.max(value),
                    _ => reached.whole.add_checked(value).map_err(|_| left())?,
                };
            }
            if reached.values == 0 {
                values.append_nulls(rows.len());
                return Ok(());
            }
            let value = T::Native::try_from(reached.whole).map_err(|_| left())?;
            values.append_value_n(value, rows.len());
            Ok(())
        })?;
        Ok(Arc::new(
            values.finish().with_data_type(self.data_type.clone()),
        ))
    }
}

/// What a function of rows computes, and whether it does so by peers; `None` if it is none of those
/// above.
fn of_rows(
    window: &StandardWindowExpr,
    data_type: &DataType,
    sliding: Option<&Sliding>,
) -> Option<(WindowKind, bool)> {
    let function = window.get_standard_func_expr().as_any();
    let function = function.downcast_ref::<WindowUDFExpr>()?;
    let is_flat = !data_type.is_nested();
    let runs = || runs_by_peers(window.get_window_frame());
    let number = |kind| (*data_type == DataType::UInt64).then_some((kind, false));
    match function.fun().name() {
        name @ ("lag" | "lead") if is_flat => Some((shift(function, name)?, false)),
        name @ ("first_value" | "last_value") if is_flat && is_plain(function) => {
            let kind = match name {
                "first_value" => WindowKind::First,
                _ => WindowKind::Last,
            };
            match sliding {
                Some(sliding) => Some((kind, sliding.by_value())),
                None => Some((kind, runs()? && kind == WindowKind::Last)),
            }
        }
        "row_number" => number(WindowKind::RowNumber),
        "rank" => number(WindowKind::Rank),
        "dense_rank" => number(WindowKind::DenseRank),
        _ => None,
    }
}

fn last_peers(argument: &ArrayRef, groups: &PeerGroups<'_>) -> Result<ArrayRef> {
    let peers = groups.peers.iter();
    let last = |peers: &Range<usize>| std::iter::repeat_n(peers.end as u32 - 1, peers.len());
    let sources: UInt32Array = peers.flat_map(last).collect::<Vec<u32>>().into();
    Ok(take(argument, &sources, None)?)
}

/// The values so many rows further in each partition.
fn leads(further: usize, argument: &ArrayRef, groups: &PeerGroups<'_>) -> Result<ArrayRef> {
    let mut sources: Vec<Option<u32>> = Vec::with_capacity(groups.done());
    for partition in groups.partitions {
        let asked = partition.start..partition.end.min(groups.done());
        let source = |row: usize| (row + further < partition.end).then(|| (row + further) as u32);
        sources.extend(asked.map(source));
    }
    Ok(take(argument, &UInt32Array::from(sources), None)?)
}

/// The aggregate of a window, and whether its frame begins after the first row of a partition.
fn aggregate(window: &Arc<dyn WindowExpr>) -> Option<(&AggregateFunctionExpr, bool)> {
    let window = window.as_any();
    if let Some(plain) = window.downcast_ref::<PlainAggregateWindowExpr>() {
        return Some((plain.get_aggregate_expr(), false));
    }
    let sliding = window.downcast_ref::<SlidingAggregateWindowExpr>()?;
    Some((sliding.get_aggregate_expr(), true))
}

/// The rows of a frame that has limits on both sides; `None` for other frames.
fn span(
    window: &Arc<dyn WindowExpr>,
    schema: &arrow::datatypes::Schema,
) -> Result<Option<FrameSpan>> {
    let frame = window.get_window_frame();
    if let Some(rows) = RowFrame::of(frame) {
        return Ok(Some(FrameSpan::Rows(rows)));
    }
    let values = ValueFrame::of(frame, window.order_by(), schema)?;
    Ok(values.map(FrameSpan::Values))
}

/// Whether a function skips no NULLs and runs forward, which is to be seen in its text only.
fn is_plain(function: &WindowUDFExpr) -> bool {
    format!("{function:?}").ends_with("is_reversed: false, ignore_nulls: false }")
}

/// How far a `lag` goes back or a `lead` forward; `None` if it goes the other way, has a default,
/// or skips NULLs.
fn shift(function: &WindowUDFExpr, name: &str) -> Option<WindowKind> {
    let back = match function.args() {
        [_] => 1,
        [_, back] => {
            let back = back.downcast_ref::<Literal>()?.value();
            match back.cast_to(&DataType::Int64).ok()? {
                ScalarValue::Int64(Some(back)) => back,
                _ => return None,
            }
        }
        _ => return None,
    };
    let rows = usize::try_from(back).ok()?;
    let kind = match name {
        "lag" => WindowKind::Lag(rows),
        _ => WindowKind::Lead(rows),
    };
    (is_plain(function) && (1..=MAX_ROWS).contains(&back)).then_some(kind)
}

/// Whether an aggregate has a FILTER clause, which is to be seen in its text only.
pub(super) fn has_filter(window: &Arc<dyn WindowExpr>) -> bool {
    !format!("{window:?}").ends_with("filter: None }")
}

/// Whether the sum of `of` is kept in the same integers as `total`.
fn same_kind(of: &DataType, total: &DataType) -> bool {
    match (of, total) {
        (DataType::Decimal128(_, a), DataType::Decimal128(_, b)) => a == b,
        (of, total) => of == total,
    }
}

/// Whether a frame goes from the first row of the partition to the last peer of the current row, or
/// to the current row itself; `None` for other frames.
fn runs_by_peers(frame: &WindowFrame) -> Option<bool> {
    let from_first = match &frame.start_bound {
        WindowFrameBound::Preceding(rows) => rows.is_null(),
        _ => false,
    };
    let to_current = frame.end_bound == WindowFrameBound::CurrentRow;
    (from_first && to_current).then_some(frame.units != WindowFrameUnits::Rows)
}
