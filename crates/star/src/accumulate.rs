//! Adds the rows that are left to their groups, block by block.

use crate::Expr;
use crate::many_groups::{add_counting_row, add_rows};
use crate::one_group;
use crate::plan::{Measure, MeasureKind, WordKey};
use crate::runs::{Run, find_runs};
use crate::worker::{BLOCK_ROWS, Worker};
use std::ops::Range;
use tierloom_kernels::sums::products;
use tierloom_kernels::words::{keep_or, not_zero};

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
        let words = self.groups.words_mut();
        let offsets = &self.offsets[rows];
        for run in &self.runs {
            let offsets = &offsets[run.rows.clone()];
            if run.is_one_group {
                words[offsets[0] as usize] += offsets.len() as i64;
                continue;
            }
            for offset in offsets {
                words[*offset as usize] += 1;
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

    /// Adds a block of rows to a measure.
    pub(crate) fn accumulate(&mut self, index: usize, measure: &Measure, rows: Range<usize>) {
        let same_rows = Some(self.same_rows[index]);
        if measure.leaves_out_rows() && self.found != same_rows {
            self.find_counting(&measure.nulls, &measure.when, rows.clone());
            self.found = same_rows;
        }
        // Counts ignore their expression.
        let alike = Some(self.alike[index]);
        if measure.kind != MeasureKind::Count && self.computed != alike {
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
            self.add_values(index, measure, rows.clone(), 1, false);
        }
        self.add_values(index, measure, rows, 0, true);
    }

    /// Adds the values of a block of rows, in one of the buffers, to a measure. Those that count
    /// are counted if `counting` says so.
    fn add_values(
        &mut self,
        index: usize,
        measure: &Measure,
        rows: Range<usize>,
        buffer: usize,
        counting: bool,
    ) {
        let mut place = self.groups.layout().measures[index];
        place.valid_at = place.valid_at.filter(|_| counting);
        let kind = measure.kind;
        let leaves_out = measure.leaves_out_rows();
        let words = self.groups.words_mut();
        let offsets = &self.offsets[rows];
        for run in &self.runs {
            let values = &mut self.values[buffer][run.rows.clone()];
            let counts = &self.counts[run.rows.clone()];
            let offsets = &offsets[run.rows.clone()];
            match (run.is_one_group, leaves_out) {
                (true, false) => {
                    one_group::add(&mut words[offsets[0] as usize..], place, kind, values);
                }
                (true, true) => {
                    // They have to be computed anew for the next measure.
                    self.computed = None;
                    let words = &mut words[offsets[0] as usize..];
                    one_group::add_counting(words, place, kind, values, counts);
                }
                (false, false) => add_rows(words, place, kind, offsets, values),
                (false, true) => {
                    let rows = offsets.iter().zip(values).zip(counts);
                    for ((offset, value), _) in rows.filter(|(_, counts)| **counts) {
                        add_counting_row(words, place, kind, *offset as usize, *value);
                    }
                }
            }
        }
    }
}
