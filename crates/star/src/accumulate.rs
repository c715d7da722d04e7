//! Adds the rows that are left to their groups, block by block.

use crate::Expr;
use crate::many_groups::{add_row, add_rows};
use crate::one_group;
use crate::plan::{Measure, MeasureKind, WordKey};
use crate::runs::{BLOCK_ROWS, Run, find_runs};
use crate::staged::StagedPart;
use crate::table::AHEAD;
use crate::worker::Worker;
use std::ops::Range;
use tierloom_kernels::prefetch_read;
use tierloom_kernels::sums::products;
use tierloom_kernels::words::{keep_or, not_zero};

/// Counts rows whose accumulators have to come from memory. The measures find them in the caches
/// afterwards.
fn count_far(words: &mut [i64], offsets: &[u32]) {
    for offset in offsets.iter().take(AHEAD) {
        prefetch_read(words, *offset as usize);
    }
    for (row, offset) in offsets.iter().enumerate() {
        if let Some(later) = offsets.get(row + AHEAD) {
            prefetch_read(words, *later as usize);
        }
        words[*offset as usize] += 1;
    }
}

/// Rows whose sums are all added before those of the next ones.
const TOGETHER: usize = 64;

impl Worker {
    /// Counts a block of rows in their groups.
    pub(crate) fn count_rows(&mut self, rows: Range<usize>) {
        if self.plan.has_one_group() {
            self.runs.clear();
            self.runs.push(Run {
                rows: 0..rows.len(),
                is_one_group: true,
            });
        } else {
            find_runs(&self.keys[rows.clone()], &mut self.runs);
        }
        let are_far = self.groups.are_far();
        let words = self.groups.words_mut();
        let offsets = &self.offsets[rows];
        for run in &self.runs {
            let offsets = &offsets[run.rows.clone()];
            match (run.is_one_group, are_far) {
                (true, _) => words[offsets[0] as usize] += offsets.len() as i64,
                (false, true) => count_far(words, offsets),
                (false, false) => offsets
                    .iter()
                    .for_each(|offset| words[*offset as usize] += 1),
            }
        }
    }

    /// Writes the words by which `count` rows are grouped to `keys`.
    pub(crate) fn find_words(&mut self, key: &WordKey, count: usize) {
        for start in (0..count).step_by(BLOCK_ROWS) {
            let rows = start..count.min(start + BLOCK_ROWS);
            self.find_counting(&key.nulls, &key.when, rows.clone());
            let (inputs, values) = (&self.inputs, &mut self.values);
            key.value.evaluate(inputs, rows.clone(), values);
            let values = &mut values[0][..rows.len()];
            keep_or(values, &self.counts[..rows.len()], key.null);
            let keys = self.keys[rows].iter_mut().zip(values);
            keys.for_each(|(key, value)| *key = *value as u64);
        }
    }

    /// Finds in which of `rows` none of the columns `nulls` is NULL and no condition is 0; the
    /// first has the first place in `counts`.
    fn find_counting(&mut self, nulls: &[usize], when: &[Expr], rows: Range<usize>) {
        let counts = &mut self.counts[..rows.len()];
        counts.fill(true);
        for column in nulls {
            let codes = &self.inputs.codes[*column][rows.clone()];
            let codes = counts.iter_mut().zip(codes);
            codes.for_each(|(counts, code)| *counts &= *code != 0);
        }
        for condition in when {
            self.computed = None;
            condition.evaluate(&self.inputs, rows.clone(), &mut self.values);
            not_zero(&self.values[0][..counts.len()], counts, true);
        }
    }

    /// Adds a block of rows to a measure; those of sums that are added together are staged.
    pub(crate) fn accumulate(&mut self, index: usize, measure: &Measure, rows: Range<usize>) {
        let place = self.groups.layout().measures[index];
        let same_rows = Some(self.same_rows[index]);
        if measure.leaves_out_rows() && self.found != same_rows {
            self.find_counting(&measure.nulls, &measure.when, rows.clone());
            self.found = same_rows;
        }
        if let Some(at) = place.counts() {
            self.count_counting(at, rows.clone());
        }
        if measure.kind == MeasureKind::Count {
            return;
        }
        let alike = Some(self.alike[index]);
        if self.computed != alike {
            let (inputs, values) = (&self.inputs, &mut self.values);
            measure.expr.evaluate(inputs, rows.clone(), values);
            self.computed = alike;
        }
        if let Some(factor) = &measure.factor {
            let (inputs, values) = (&self.inputs, &mut self.values[1..]);
            factor.evaluate(inputs, rows.clone(), values);
            let (a, b) = self.values.split_at_mut(1);
            products(&mut a[0][..rows.len()], &mut b[0][..rows.len()]);
            self.computed = None;
            self.add_values(index, measure, rows.clone(), StagedPart::Lost);
        }
        self.add_values(index, measure, rows, StagedPart::Values);
    }

    /// Counts those of `rows` that count, in the words at `at` of their groups.
    fn count_counting(&mut self, at: usize, rows: Range<usize>) {
        let words = self.groups.words_mut();
        let offsets = &self.offsets[rows];
        for run in &self.runs {
            let (offsets, counts) = (&offsets[run.rows.clone()], &self.counts[run.rows.clone()]);
            match run.is_one_group {
                true => {
                    let counted = counts.iter().map(|counts| i64::from(*counts));
                    words[offsets[0] as usize + at] += counted.sum::<i64>();
                }
                false => {
                    for (offset, counts) in offsets.iter().zip(counts) {
                        words[*offset as usize + at] += i64::from(*counts);
                    }
                }
            }
        }
    }

    /// Adds a part of the values of a block of rows, in one of the buffers, to a measure.
    fn add_values(
        &mut self,
        index: usize,
        measure: &Measure,
        rows: Range<usize>,
        part: StagedPart,
    ) {
        let layout = self.groups.layout();
        let place = layout.measures[index];
        let lane = place.set.map(|set| (set, place.at - layout.sets[set].at));
        let kind = measure.kind;
        let leaves_out = measure.leaves_out_rows();
        let words = self.groups.words_mut();
        let offsets = &self.offsets[rows];
        let buffer = match part {
            StagedPart::Values => 0,
            StagedPart::Lost => 1,
        };
        for run in &self.runs {
            let values = &mut self.values[buffer][run.rows.clone()];
            let counts = leaves_out.then_some(&self.counts[run.rows.clone()]);
            let offsets = &offsets[run.rows.clone()];
            match (run.is_one_group, lane, counts) {
                (true, ..) => {
                    if let Some(counts) = counts {
                        // They have to be computed anew for the next measure.
                        self.computed = None;
                        one_group::leave_out(kind, values, counts);
                    }
                    one_group::add(&mut words[offsets[0] as usize..], place, kind, values);
                }
                (false, Some((set, lane)), _) => {
                    self.staged[set].put((part, lane), run.rows.clone(), values, counts);
                }
                (false, None, None) => add_rows(words, place, kind, offsets, values),
                (false, None, Some(counts)) => {
                    let rows = offsets.iter().zip(values).zip(counts);
                    for ((offset, value), _) in rows.filter(|(_, counts)| **counts) {
                        add_row(words, place, kind, *offset as usize, *value);
                    }
                }
            }
        }
    }

    /// Adds what was staged of a block of rows.
    pub(crate) fn add_staged(&mut self, rows: Range<usize>) {
        let words = self.groups.words_mut();
        let offsets = &self.offsets[rows];
        for run in self.runs.iter().filter(|run| !run.is_one_group) {
            // So few that their groups stay in the caches of first level.
            for start in run.rows.clone().step_by(TOGETHER) {
                let rows = start..run.rows.end.min(start + TOGETHER);
                for staged in &self.staged {
                    staged.add(words, rows.clone(), &offsets[rows.clone()]);
                }
            }
        }
    }
}
