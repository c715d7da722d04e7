//! Runs a star join on one thread, vector by vector.
//!
//! While a vector is filtered, the columns of the previous one that its groups and measures need
//! are prefetched; that vector is aggregated afterwards. So the filters hide the latency of the
//! lookups.

use crate::Expr;
use crate::cost::{MAX_DENSE, Order, best_order};
use crate::groups::Groups;
use crate::inputs::{Inputs, WordColumn, WordValues};
use crate::plan::{GroupMap, Measure, PlanError, StarPlan, Test, WordKey};
use crate::runs::{BLOCK_ROWS, Run};
use crate::staged::Staged;
use std::ops::Range;
use std::sync::Arc;
use tierloom_kernels::codes::{CodeWidth, Codes};
use tierloom_kernels::select::{
    CHUNK_ROWS, CodeTest, DenseTest, Mask, Selection, VECTOR_ROWS, filter_all, prefetch_all,
};
use tierloom_kernels::words::not_zero;

/// Number of rows that a worker takes at a time.
pub const MORSEL_ROWS: usize = 16 * VECTOR_ROWS;

/// Number of morsels after which the order of the filters is chosen again.
const MORSELS_PER_ORDER: u64 = 16;

/// Maps larger than this, in bytes, are prefetched.
const FAR_MAP_BYTES: usize = 512 << 10;

/// Late columns are prefetched if at most one row of this many is left.
const SPARSE_ONE_IN: usize = 8;

/// Counts of one filter: how many rows it tested and passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilterStats {
    /// Number of rows that reached the filter.
    pub rows_in: u64,
    /// Number of rows that passed.
    pub rows_out: u64,
}

/// A filtered vector: its first row, its length, and how many of its rows are left.
#[derive(Debug, Clone, Copy)]
struct Vector {
    start: usize,
    rows: usize,
    count: usize,
}

/// The columns of the rows that a worker reads.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// The codes of each column; anything for a column of words.
    pub codes: &'a [Codes<'a>],
    /// The words of columns that have no codes, by column; may be shorter.
    pub words: &'a [Option<WordColumn<'a>>],
}

impl<'a> Columns<'a> {
    /// Columns that are all coded.
    pub fn of_codes(codes: &'a [Codes<'a>]) -> Self {
        Columns { codes, words: &[] }
    }

    fn words(&self, column: usize) -> Option<&WordColumn<'a>> {
        self.words.get(column)?.as_ref()
    }
}

/// Runs a plan over morsels.
///
/// All memory is allocated when the worker is created, except that hashed groups grow.
pub struct Worker {
    pub(crate) plan: Arc<StarPlan>,
    pub(crate) groups: Groups,
    order: Order,
    stats: Vec<FilterStats>,
    /// Counts of the conditions on several columns.
    conditions: Vec<FilterStats>,
    /// All rows of the morsels, and those of them that passed all filters.
    counted: FilterStats,
    morsels: u64,
    mask: Box<Mask>,
    selection: Box<Selection>,
    /// The selection vector of the previous vector, whose late columns are being prefetched.
    before: Box<Selection>,
    /// The previous vector, if it still has to be aggregated.
    pending: Option<Vector>,
    /// Columns that are read for groups and measures.
    used: Vec<usize>,
    /// Those of `used` that no dense test has brought into the caches.
    late: Vec<usize>,
    /// What is read for the rows that are left; `loaded` says which columns are valid for the
    /// current vector.
    pub(crate) inputs: Inputs,
    loaded: Vec<bool>,
    /// The columns that each measure reads.
    read: Vec<Vec<usize>>,
    /// The columns that a group key of words reads.
    keyed: Vec<usize>,
    /// The first measure with the same expression as each.
    pub(crate) alike: Vec<usize>,
    /// The first measure that counts the same rows as each.
    pub(crate) same_rows: Vec<usize>,
    /// The measure in `same_rows` whose rows have been found last for the current block.
    pub(crate) found: Option<usize>,
    /// The measure in `alike` whose expression has been computed last for the current block.
    pub(crate) computed: Option<usize>,
    /// The columns that each condition reads.
    asked: Vec<Vec<usize>>,
    /// The columns that are read after each condition, or have been for it and are used again.
    needed: Vec<Vec<bool>>,
    pub(crate) keys: Vec<u64>,
    pub(crate) offsets: Vec<u32>,
    /// The current block, by the groups of its rows.
    pub(crate) runs: Vec<Run>,
    pub(crate) values: Vec<Vec<i64>>,
    /// The values of the current block for sums that are added together.
    pub(crate) staged: Vec<Staged>,
    /// Rows that count for a measure that leaves out some.
    pub(crate) counts: Vec<bool>,
}

impl Worker {
    /// A worker for `plan`, whose columns have these widths.
    ///
    /// # Errors
    /// [`PlanError`] if the plan uses a column that does not exist or has too many combinations of
    /// groups.
    pub fn new(plan: Arc<StarPlan>, widths: &[CodeWidth]) -> Result<Self, PlanError> {
        let combinations = plan.combinations()?;
        let shares: Vec<f64> = plan.filters.iter().map(|f| f.expected_share).collect();
        let depth = plan.depth();
        let mut used = vec![false; plan.columns + plan.spans.len()];
        for column in plan.groups.iter().map(|g| g.column) {
            used[column] = true;
        }
        let read: Vec<Vec<usize>> = plan.measures.iter().map(Measure::columns).collect();
        let asked: Vec<Vec<usize>> = plan.conditions.iter().map(Expr::columns).collect();
        let with_spans = |used: &mut Vec<bool>| {
            for (at, spans) in plan.spans.iter().enumerate() {
                used[spans.column] |= used[plan.columns + at];
            }
        };
        let keyed: Vec<usize> = plan.key.iter().flat_map(WordKey::columns).collect();
        for column in read.iter().flatten().chain(&keyed) {
            used[*column] = true;
        }
        let mut needed = Vec::new();
        for condition in asked.iter().rev() {
            with_spans(&mut used);
            needed.push(used.clone());
            condition.iter().for_each(|column| used[*column] = true);
        }
        needed.reverse();
        with_spans(&mut used);
        let groups = Groups::new(&plan, combinations);
        let mut worker = Worker {
            staged: groups.layout().sets.iter().map(Staged::new).collect(),
            groups,
            order: best_order(&plan.filters, widths, &shares),
            stats: vec![FilterStats::default(); plan.filters.len()],
            conditions: vec![FilterStats::default(); plan.conditions.len()],
            counted: FilterStats::default(),
            morsels: 0,
            mask: Box::new([0; VECTOR_ROWS / 64]),
            selection: Box::default(),
            before: Box::default(),
            pending: None,
            used: (0..plan.columns).filter(|c| used[*c]).collect(),
            late: Vec::with_capacity(plan.columns),
            inputs: Inputs::new(&used),
            loaded: vec![false; used.len()],
            read,
            keyed,
            alike: (0..plan.measures.len())
                .map(|index| alike(&plan.measures, index))
                .collect(),
            same_rows: (0..plan.measures.len())
                .map(|index| same_rows(&plan.measures, index))
                .collect(),
            found: None,
            computed: None,
            asked,
            needed,
            keys: vec![0; VECTOR_ROWS],
            offsets: vec![0; VECTOR_ROWS],
            runs: Vec::new(),
            values: vec![vec![0; BLOCK_ROWS]; depth],
            counts: vec![false; VECTOR_ROWS],
            plan,
        };
        worker.find_late();
        Ok(worker)
    }

    /// Runs the plan on the given rows of `columns`.
    ///
    /// # Errors
    /// [`PlanError::TooManyAccumulators`]; the worker's groups must not be used after it.
    ///
    /// # Panics
    /// If a column that the plan uses does not have these rows.
    pub fn morsel(&mut self, columns: Columns<'_>, rows: Range<usize>) -> Result<(), PlanError> {
        let columns = &columns;
        // The first choice uses estimates, so it is corrected after the first morsel.
        if self.morsels % MORSELS_PER_ORDER == 1 && self.plan.filters.len() > 1 {
            self.reorder(columns.codes);
        }
        self.morsels += 1;
        let plan = Arc::clone(&self.plan);
        let mut tests = [DenseTest::passing_all(); MAX_DENSE];
        for (slot, index) in tests.iter_mut().zip(self.order.dense()) {
            let filter = &plan.filters[*index];
            let test = match &filter.test {
                Test::Range { low, high } => CodeTest::Range {
                    low: *low,
                    high: *high,
                },
                Test::Set(set) => CodeTest::Set(set),
            };
            let codes = columns.codes[filter.column];
            *slot = DenseTest { codes, test };
        }
        let tests = &tests[..self.order.dense().len()];
        let mut start = rows.start;
        while start < rows.end {
            let len = VECTOR_ROWS.min(rows.end - start);
            let found = self.survivors(columns, tests, start, len);
            if let Some(vector) = self.pending.take() {
                self.aggregate(columns, vector)?;
            }
            self.counted.rows_in += len as u64;
            self.pending = found;
            // The vector just filtered becomes the previous one; `aggregate` reads its selection
            // from `before`.
            std::mem::swap(&mut self.selection, &mut self.before);
            start += len;
        }
        match self.pending.take() {
            Some(vector) => self.aggregate(columns, vector),
            None => Ok(()),
        }
    }

    /// Counts rows of which none passes the filters, as somebody else has found out.
    pub fn skip(&mut self, rows: usize) {
        self.counted.rows_in += rows as u64;
    }

    /// All rows of the morsels so far, and those of them that passed all filters and conditions,
    /// which is the number of rows in the groups.
    pub fn counted(&self) -> FilterStats {
        self.counted
    }

    /// Size of the group table, in bytes.
    pub fn group_bytes(&self) -> usize {
        self.groups.size_bytes()
    }

    /// Counts of the filters, in the plan's order.
    pub fn filter_stats(&self) -> &[FilterStats] {
        &self.stats
    }

    /// Counts of the conditions on several columns, in the plan's order.
    pub fn condition_stats(&self) -> &[FilterStats] {
        &self.conditions
    }

    /// The current order of the filters.
    pub fn order(&self) -> &[usize] {
        self.order.all()
    }

    /// The group table, for merging with those of other workers.
    pub fn into_groups(self) -> Groups {
        self.groups
    }

    fn reorder(&mut self, columns: &[Codes<'_>]) {
        let widths: Vec<CodeWidth> = columns.iter().map(Codes::width).collect();
        let seen = self.stats.iter().zip(&self.plan.filters);
        let shares: Vec<f64> = seen
            .map(|(s, f)| {
                // The estimate counts as much as one vector of measurements.
                let weight = VECTOR_ROWS as f64;
                (s.rows_out as f64 + f.expected_share * weight) / (s.rows_in as f64 + weight)
            })
            .collect();
        self.order = best_order(&self.plan.filters, &widths, &shares);
        self.find_late();
    }

    fn find_late(&mut self) {
        let dense = self.order.dense();
        let near = |column: &usize| {
            dense
                .iter()
                .any(|i| self.plan.filters[*i].column == *column)
        };
        self.late.clear();
        self.late.extend(self.used.iter().filter(|c| !near(c)));
    }

    /// Filters a vector; `None` if no row is left.
    ///
    /// At the same time it prefetches the late columns of the previous vector.
    fn survivors(
        &mut self,
        columns: &Columns<'_>,
        tests: &[DenseTest<'_>],
        start: usize,
        rows: usize,
    ) -> Option<Vector> {
        let mut passed = [0; MAX_DENSE];
        let (before, late) = (&self.before, &self.late);
        // If most lines are read anyway, the processor's own prefetcher recognises the stream.
        let pending = self
            .pending
            .filter(|v| v.count * SPARSE_ONE_IN <= v.rows && !late.is_empty());
        let ask = |chunk| {
            let Some(vector) = pending else { return };
            for column in late {
                let parts = VECTOR_ROWS / CHUNK_ROWS;
                match columns.words(*column).map(|of| of.values) {
                    Some(WordValues::Words(words)) => {
                        before.prefetch_words(words, vector.start, chunk, parts);
                    }
                    // 16 or 512 rows are in a line.
                    Some(WordValues::Floats(_) | WordValues::Bits(_)) => {}
                    None => before.prefetch(&columns.codes[*column], vector.start, chunk, parts),
                }
            }
        };
        filter_all(tests, start, rows, &mut self.mask, &mut passed, ask);
        let mut count = rows as u64;
        for (index, rows_out) in self.order.dense().iter().zip(passed) {
            self.stats[*index].rows_in += count;
            self.stats[*index].rows_out += rows_out;
            count = rows_out;
        }
        if count == 0 {
            return None;
        }
        self.selection.from_mask(&self.mask, rows);
        let plan = &self.plan;
        for &index in self.order.sparse() {
            let filter = &plan.filters[index];
            let codes = &columns.codes[filter.column];
            match &filter.test {
                Test::Range { low, high } => self.selection.keep_range(codes, start, (*low, *high)),
                Test::Set(set) => self.selection.keep_set(codes, start, set),
            }
            let rows_out = self.selection.count() as u64;
            self.stats[index].rows_in += count;
            self.stats[index].rows_out += rows_out;
            count = rows_out;
            if count == 0 {
                return None;
            }
        }
        let count = self.selection.count();
        Some(Vector { start, rows, count })
    }

    /// Adds the selected rows of a vector to their groups. Its selection vector is in `before`.
    fn aggregate(&mut self, columns: &Columns<'_>, vector: Vector) -> Result<(), PlanError> {
        self.loaded.fill(false);
        let plan = Arc::clone(&self.plan);
        let vector = self.fulfilling(columns, &plan.conditions, vector);
        let count = vector.count;
        self.counted.rows_out += count as u64;
        if count == 0 {
            return Ok(());
        }
        for part in &plan.groups {
            self.load(columns, vector, part.column);
        }
        if let Some(key) = &plan.key {
            for at in 0..self.keyed.len() {
                self.load(columns, vector, self.keyed[at]);
            }
            self.find_words(key, count);
        }
        // Without groups, all rows use the one slot at the initial value of `offsets`.
        if !plan.has_one_group() {
            self.find_slots(count)?;
        }
        for index in 0..plan.measures.len() {
            for at in 0..self.read[index].len() {
                self.load(columns, vector, self.read[index][at]);
            }
        }
        for start in (0..count).step_by(BLOCK_ROWS) {
            (self.computed, self.found) = (None, None);
            let rows = start..count.min(start + BLOCK_ROWS);
            self.count_rows(rows.clone());
            for (index, measure) in plan.measures.iter().enumerate() {
                if !self.groups.layout().measures[index].is_rows() {
                    self.accumulate(index, measure, rows.clone());
                }
            }
            self.add_staged(rows);
        }
        Ok(())
    }

    /// Leaves out rows of the vector in `before` for which a condition is 0.
    fn fulfilling(
        &mut self,
        columns: &Columns<'_>,
        conditions: &[Expr],
        mut vector: Vector,
    ) -> Vector {
        for (index, condition) in conditions.iter().enumerate() {
            let count = vector.count;
            for at in 0..self.asked[index].len() {
                self.load(columns, vector, self.asked[index][at]);
            }
            for start in (0..count).step_by(BLOCK_ROWS) {
                let rows = start..count.min(start + BLOCK_ROWS);
                condition.evaluate(&self.inputs, rows.clone(), &mut self.values);
                not_zero(&self.values[0][..rows.len()], &mut self.counts[rows], false);
            }
            let holds = &self.counts[..count];
            vector.count = holds.iter().map(|holds| usize::from(*holds)).sum();
            self.conditions[index].rows_in += count as u64;
            self.conditions[index].rows_out += vector.count as u64;
            if (1..count).contains(&vector.count) && self.needed[index].contains(&true) {
                self.before.keep_where(|row| holds[row]);
                for (column, needed) in self.needed[index].iter().enumerate() {
                    if *needed && self.loaded[column] {
                        self.inputs.keep(column, holds);
                    }
                }
            }
            if vector.count == 0 {
                break;
            }
        }
        vector
    }

    /// Reads a column of the rows of `vector` that are left, unless that has been done.
    fn load(&mut self, columns: &Columns<'_>, vector: Vector, column: usize) {
        if self.loaded[column] {
            return;
        }
        self.loaded[column] = true;
        let count = vector.count;
        if let Some(at) = column.checked_sub(self.plan.columns) {
            let plan = Arc::clone(&self.plan);
            let spans = &plan.spans[at];
            self.load(columns, vector, spans.column);
            // Those that are computed come after those that are read.
            let (read, computed) = self.inputs.codes.split_at_mut(column);
            let words = &self.inputs.words[spans.column];
            let words = &words[..count.min(words.len())];
            let codes = &read[spans.column][..count];
            spans.divide(codes, words, &mut computed[0][..count]);
            return;
        }
        let selected = (count < vector.rows).then_some(&*self.before);
        let at = (vector.start, count);
        match columns.words(column) {
            Some(words) => self.inputs.load_words(column, words, at, selected),
            None => {
                let codes = &columns.codes[column];
                self.inputs.load_codes(column, codes, at, selected);
            }
        }
    }

    fn find_slots(&mut self, count: usize) -> Result<(), PlanError> {
        let keys = &mut self.keys[..count];
        if self.plan.key.is_none() {
            keys.fill(0);
        }
        for part in &self.plan.groups {
            let codes = &self.inputs.codes[part.column][..count];
            let radix = part.count.max(1);
            match &part.map {
                GroupMap::Code => add(keys, radix, codes.iter().map(|c| u64::from(*c))),
                GroupMap::Bytes(map) => add_mapped(keys, radix, codes, map),
                GroupMap::Halves(map) => add_mapped(keys, radix, codes, map),
                GroupMap::Words(map) => add_mapped(keys, radix, codes, map),
            }
        }
        self.groups
            .offsets(&self.keys[..count], &mut self.offsets[..count])
    }
}

/// The first measure with the same expression as the one at `index`.
fn alike(measures: &[Measure], index: usize) -> usize {
    let same = |m: &Measure| m.expr == measures[index].expr;
    measures.iter().position(same).unwrap_or(index)
}

/// The first measure that counts the same rows as the one at `index`.
fn same_rows(measures: &[Measure], index: usize) -> usize {
    let same = |m: &Measure| m.counts_rows_of(&measures[index]);
    measures.iter().position(same).unwrap_or(index)
}

fn add(keys: &mut [u64], radix: u64, ordinals: impl Iterator<Item = u64>) {
    for (key, ordinal) in keys.iter_mut().zip(ordinals) {
        *key = *key * radix + ordinal;
    }
}

fn add_mapped<T: Copy + Default + Into<u64>>(
    keys: &mut [u64],
    radix: u64,
    codes: &[u32],
    map: &[T],
) {
    if size_of_val(map) > FAR_MAP_BYTES {
        prefetch_all(map, codes);
    }
    let ordinal = |c: &u32| map.get(*c as usize).copied().unwrap_or_default().into();
    add(keys, radix, codes.iter().map(ordinal));
}
