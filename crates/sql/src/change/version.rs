//! New versions of a table.
//!
//! A version is made complete before anybody can find it. It shares the columns that stay as they
//! are with the version before, which lives as long as somebody reads it. Rows are in groups of
//! contiguous columns: what is appended becomes a group, and a change makes the groups anew that it
//! concerns.

use super::super::catalog::is_temp;
use super::super::error::SqlError;
use super::super::load::Cancellation;
use super::super::run::Watch;
use super::super::session::SqlSession;
use super::super::storage::Home;
use super::rules::Rules;
use super::target::Target;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{CastOptions, cast_with_options, interleave};
use arrow::datatypes::DataType;
use std::ops::Range;
use std::sync::Arc;
use tierloom_engine::load::{Chunks, MadeColumn, NextColumn, load_columns};
use tierloom_engine::{EngineError, PlacedColumn, PlacedTable, Staging};
use tierloom_memory::Placement;

/// Rows that are looked at together; ranges of them without a change are not copied row by row.
const MORSEL_ROWS: usize = 1 << 16;

/// A group of fewer rows is joined with rows that are appended, however few those are.
const FEW_ROWS: usize = 8 * 1024;

/// New values of some rows in one column.
pub(super) struct NewValues {
    pub column: usize,
    /// One for each row that changes, in the order of [`Replaced::rows`].
    pub values: ArrayRef,
}

/// Rows that get new values.
pub(super) struct Replaced {
    /// Their positions in ascending order, each with the index of its value.
    pub rows: Vec<(u64, usize)>,
    pub columns: Vec<NewValues>,
}

impl Replaced {
    /// The rows of a range, by their positions in it.
    fn rows_in(&self, range: &Range<u64>) -> Vec<(u64, usize)> {
        let from = self.rows.partition_point(|(row, _)| *row < range.start);
        let inside = self.rows[from..].iter();
        let inside = inside.take_while(|(row, _)| *row < range.end);
        inside
            .map(|(row, value)| (row - range.start, *value))
            .collect()
    }
}

impl SqlSession {
    /// The version with more rows; `new` has an array for each column.
    ///
    /// They become a group of their own, into which the groups at the end go that are not much
    /// larger: so there are few groups, and a row is copied a few times whatever is appended.
    pub(super) fn with_rows(
        &self,
        target: &Target,
        new: Vec<ArrayRef>,
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        let mut groups = groups_of(&target.table)?;
        let count = new.first().map_or(0, |values| values.len());
        let mut from = first_to_join(&groups, count);
        let mut types = joined_types(&groups[from..], &new, target);
        if types != types_of(&target.table) {
            // All groups of a table have the same types.
            from = 0;
            types = joined_types(&groups, &new, target);
        }
        let joined = groups.split_off(from);
        let columns = new.into_iter().zip(types).enumerate();
        let columns = columns.map(|(index, (values, data_type))| {
            let (joined, wanted) = (&joined, data_type.clone());
            let chunks: Chunks<'_> = Box::new(move || {
                let mut chunks = Vec::new();
                for column in joined.iter().map(|group| &group.columns()[index]) {
                    if column.rows() > 0 {
                        chunks.push(as_type(&column.slice(0, column.rows())?, &wanted)?);
                    }
                }
                chunks.push(as_type(&values, &wanted)?);
                Ok(chunks)
            });
            let column = &target.table.columns()[index];
            NextColumn::Made(made_like(column, data_type, chunks))
        });
        groups.push(self.group(target, columns.collect(), watch)?);
        assembled(groups)
    }

    /// The version without the rows that `gone` marks.
    pub(super) fn without_rows(
        &self,
        target: &Target,
        gone: &BooleanBuffer,
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        let mut next = Vec::new();
        let mut start = 0;
        for group in groups_of(&target.table)? {
            let part = gone.slice(start, group.rows());
            start += group.rows();
            match part.count_set_bits() {
                0 => next.push(group),
                all if all == group.rows() => {}
                _ => next.push(self.without(target, &group, &part, watch)?),
            }
        }
        if next.is_empty() {
            let part = gone.slice(0, target.table.rows());
            next.push(self.without(target, &target.table, &part, watch)?);
        }
        assembled(next)
    }

    fn without(
        &self,
        target: &Target,
        group: &PlacedTable,
        gone: &BooleanBuffer,
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        let columns = group.columns().iter().map(|column| {
            let chunks: Chunks<'_> = Box::new(move || kept_rows(column, gone));
            NextColumn::Made(made_like(column, column.data_type().clone(), chunks))
        });
        self.group(target, columns.collect(), watch)
    }

    /// The version with other values in some rows; columns without new values are shared.
    pub(super) fn with_changed(
        &self,
        target: &Target,
        replaced: &Replaced,
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        let mut groups = groups_of(&target.table)?;
        let same_type = |group: &Arc<PlacedTable>| {
            replaced.columns.iter().all(|new| {
                let column = &group.columns()[new.column];
                common_type([column], &new.values) == *column.data_type()
            })
        };
        if groups.len() > 1 && !groups.iter().all(same_type) {
            groups = groups_of(&self.in_one_group(target, watch)?)?;
        }
        let mut start = 0;
        for group in &mut groups {
            let rows = start..start + group.rows() as u64;
            start = rows.end;
            let inside = replaced.rows_in(&rows);
            if !inside.is_empty() {
                *group = self.replaced(target, group, &inside, &replaced.columns, watch)?;
            }
        }
        assembled(groups)
    }

    fn replaced(
        &self,
        target: &Target,
        group: &PlacedTable,
        rows: &[(u64, usize)],
        new: &[NewValues],
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        let columns = group.columns().iter().enumerate();
        let columns = columns.map(|(index, column)| {
            let Some(new) = new.iter().find(|new| new.column == index) else {
                return NextColumn::Kept(Box::new(column.clone()));
            };
            let data_type = common_type([column], &new.values);
            let wanted = data_type.clone();
            let chunks: Chunks<'_> =
                Box::new(move || replaced_rows(column, rows, &new.values, &wanted));
            NextColumn::Made(made_like(column, data_type, chunks))
        });
        self.group(target, columns.collect(), watch)
    }

    /// The same rows in one group, whose columns are contiguous.
    pub(super) fn in_one_group(
        &self,
        target: &Target,
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        if target.table.later().is_empty() {
            return Ok(Arc::clone(&target.table));
        }
        let columns = (0..target.table.columns().len()).map(|index| {
            let groups = target.table.groups();
            let parts: Vec<&PlacedColumn> = groups.map(|group| &group.columns()[index]).collect();
            let first = parts[0];
            let chunks: Chunks<'_> = Box::new(move || {
                let parts = parts.into_iter().filter(|part| part.rows() > 0);
                parts.map(|part| part.slice(0, part.rows())).collect()
            });
            NextColumn::Made(made_like(first, first.data_type().clone(), chunks))
        });
        self.group(target, columns.collect(), watch)
    }

    /// Makes a group of these columns; columns of the same name are staged as before.
    pub(super) fn group(
        &self,
        target: &Target,
        columns: Vec<NextColumn<'_>>,
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        let (mut placer, _) = self.storage.placer_for(home(target), &self.settings)?;
        let check = |bytes| self.storage.check_room(&target.name, bytes);
        let progress = Cancellation(watch);
        let next = load_columns(&target.name, columns, &mut placer, &progress, &check)?;
        for (index, column) in next.columns().iter().enumerate() {
            let before = target.schema().index_of(column.name());
            if before.is_ok_and(|before| target.table.is_staged(before)) {
                next.set_staging(index, Staging::WorkingBuffer);
            }
        }
        Ok(Arc::new(next))
    }

    /// Where a column that a table gets is placed.
    pub(super) fn placement_of_new(
        &self,
        target: &Target,
        column: &str,
    ) -> Result<Placement, SqlError> {
        if is_temp(&target.table) {
            return Ok(Placement::kernel_default());
        }
        let placements = &self.settings.placements;
        let own = placements.get(&format!("{}.{column}", target.name));
        match own.or_else(|| placements.get(&target.name)) {
            Some(spec) => spec
                .resolve(&self.storage.topology)
                .map_err(SqlError::input),
            None => self.settings.first_placement(&self.storage.topology),
        }
    }

    /// Makes `next` the table that everybody finds from now on. What runs keeps the version that
    /// it began with.
    pub(super) fn swap(
        &mut self,
        name: &str,
        next: Arc<PlacedTable>,
        rules: Arc<Rules>,
    ) -> Result<(), SqlError> {
        self.catalog.swap(name, next, rules)?;
        self.bind(name);
        self.drive_tables()
    }
}

/// A table stays at the places of class `temp`, or away from them.
pub(super) fn home(target: &Target) -> Home {
    match is_temp(&target.table) {
        true => Home::Temp,
        false => Home::Placed,
    }
}

/// Where a column lies now: its successor goes there.
fn placement_of(column: &PlacedColumn) -> Placement {
    let region = column.regions().first().filter(|_| column.is_movable());
    region.map_or_else(Placement::kernel_default, |region| region.placement())
}

fn made_like<'a>(column: &PlacedColumn, data_type: DataType, chunks: Chunks<'a>) -> MadeColumn<'a> {
    MadeColumn {
        name: column.name().to_owned(),
        data_type,
        placement: placement_of(column),
        chunks,
    }
}

/// The groups of a table, each alone.
fn groups_of(table: &Arc<PlacedTable>) -> Result<Vec<Arc<PlacedTable>>, SqlError> {
    let first = match table.later() {
        [] => Arc::clone(table),
        _ => Arc::new(table.with_later(Vec::new())?),
    };
    let later = table.later().iter().cloned();
    Ok(std::iter::once(first).chain(later).collect())
}

/// A table of these groups.
fn assembled(groups: Vec<Arc<PlacedTable>>) -> Result<Arc<PlacedTable>, SqlError> {
    // What became empty is kept only if nothing else is there.
    let (mut groups, mut empty): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.rows() > 0);
    if groups.is_empty() {
        groups.extend(empty.pop());
    }
    let mut groups = groups.into_iter();
    let first = groups.next();
    let first = first.ok_or_else(|| SqlError::failed("a table without a group"))?;
    match groups.len() {
        0 => Ok(first),
        _ => Ok(Arc::new(first.with_later(groups.collect())?)),
    }
}

/// The first of the groups that `count` new rows are joined with.
fn first_to_join(groups: &[Arc<PlacedTable>], count: usize) -> usize {
    let (mut from, mut rows) = (groups.len(), count);
    while from > 0 && groups[from - 1].rows() < (2 * rows).max(FEW_ROWS) {
        from -= 1;
        rows += groups[from].rows();
    }
    from
}

fn types_of(table: &PlacedTable) -> Vec<DataType> {
    let columns = table.columns().iter();
    columns.map(|column| column.data_type().clone()).collect()
}

/// The types of the columns of `groups` together with `new` values.
fn joined_types(groups: &[Arc<PlacedTable>], new: &[ArrayRef], target: &Target) -> Vec<DataType> {
    let columns = target.table.columns().iter().zip(new).enumerate();
    columns
        .map(|(index, (column, new))| match groups {
            [] => common_type([column], new),
            groups => common_type(groups.iter().map(|group| &group.columns()[index]), new),
        })
        .collect()
}

/// The type of columns together with `new` values: their own, except that the keys of a dictionary
/// may have to be wider.
fn common_type<'a>(
    columns: impl IntoIterator<Item = &'a PlacedColumn>,
    new: &ArrayRef,
) -> DataType {
    let mut known = match new.as_any_dictionary_opt() {
        Some(dictionary) => dictionary.values().len() as u64,
        None => new.len() as u64,
    };
    let mut of_columns = new.data_type().clone();
    for column in columns {
        of_columns = column.data_type().clone();
        let words = column
            .coded()
            .map_or(column.rows() as u64, |c| c.code_count());
        known = known.saturating_add(words);
    }
    let DataType::Dictionary(keys, words) = &of_columns else {
        return of_columns;
    };
    let most: u64 = match **keys {
        DataType::Int8 => 1 << 7,
        DataType::UInt8 => 1 << 8,
        DataType::Int16 => 1 << 15,
        DataType::UInt16 => 1 << 16,
        _ => return of_columns,
    };
    match known <= most {
        true => of_columns,
        false => DataType::Dictionary(Box::new(DataType::Int32), words.clone()),
    }
}

fn as_type(chunk: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, EngineError> {
    if chunk.data_type() == data_type {
        return Ok(Arc::clone(chunk));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    Ok(cast_with_options(chunk, data_type, &options)?)
}

fn morsels(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let starts = (0..rows).step_by(MORSEL_ROWS);
    starts.map(move |start| (start, MORSEL_ROWS.min(rows - start)))
}

fn kept_rows(column: &PlacedColumn, gone: &BooleanBuffer) -> Result<Vec<ArrayRef>, EngineError> {
    let mut chunks = Vec::new();
    for (start, len) in morsels(column.rows()) {
        let part = gone.slice(start, len);
        match part.count_set_bits() {
            0 => chunks.push(column.slice(start, len)?),
            all if all == len => {}
            _ => {
                let kept = (0..len as u32).filter(|row| !part.value(*row as usize));
                let kept: Vec<u32> = kept.collect();
                chunks.push(column.take(start, len, &kept)?);
            }
        }
    }
    Ok(chunks)
}

fn replaced_rows(
    column: &PlacedColumn,
    rows: &[(u64, usize)],
    values: &ArrayRef,
    data_type: &DataType,
) -> Result<Vec<ArrayRef>, EngineError> {
    let values = as_type(values, data_type)?;
    let mut waiting = rows.iter().peekable();
    let mut chunks = Vec::new();
    for (start, len) in morsels(column.rows()) {
        let old = as_type(&column.slice(start, len)?, data_type)?;
        let mut sources: Vec<(usize, usize)> = Vec::new();
        while let Some((row, value)) = waiting.next_if(|(row, _)| *row < (start + len) as u64) {
            if sources.is_empty() {
                sources.extend((0..len).map(|at| (0, at)));
            }
            sources[*row as usize - start] = (1, *value);
        }
        chunks.push(match sources.is_empty() {
            true => old,
            false => interleave(&[old.as_ref(), values.as_ref()], &sources)?,
        });
    }
    Ok(chunks)
}
