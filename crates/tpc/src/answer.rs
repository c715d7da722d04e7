//! Stored answers of DuckDB, and the comparison of results with them.
//!
//! A stored answer is a text of lines: the column names, each with `~` appended if DuckDB returns
//! the column as a floating-point number; the numbers of the columns that the statement orders by
//! (from 1, possibly none); then the rows, with `|` between cells and an empty cell for NULL.
//! `scripts/golden_tpc.py` creates them.

use crate::{Benchmark, Query, TpcError};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::cmp::Ordering;

/// The scale factor of the data that the stored answers belong to.
pub const STORED_SCALE_FACTOR: f64 = 0.01;

/// Relative tolerance for floating-point results.
const RELATIVE: f64 = 1e-6;

/// Absolute tolerance for decimal averages and quotients: DataFusion gives them four more digits
/// than their input and no more.
const ABSOLUTE: f64 = 1e-5;

macro_rules! stored {
    ($folder:literal: $($id:literal)+) => {
        [$(($id, include_str!(concat!("../../../queries/", $folder, "/answers/sf0.01/", $id, ".csv")))),+]
    };
}

static TPC_H: [(&str, &str); 22] = stored!("tpch":
    "q01" "q02" "q03" "q04" "q05" "q06" "q07" "q08" "q09" "q10" "q11" "q12" "q13" "q14" "q15" "q16" "q17" "q18" "q19" "q20"
    "q21" "q22");

static TPC_DS: [(&str, &str); 103] = stored!("tpcds":
    "q01" "q02" "q03" "q04" "q05" "q06" "q07" "q08" "q09" "q10" "q11" "q12" "q13" "q14a" "q14b" "q15" "q16" "q17" "q18"
    "q19" "q20" "q21" "q22" "q23a" "q23b" "q24a" "q24b" "q25" "q26" "q27" "q28" "q29" "q30" "q31" "q32" "q33" "q34" "q35"
    "q36" "q37" "q38" "q39a" "q39b" "q40" "q41" "q42" "q43" "q44" "q45" "q46" "q47" "q48" "q49" "q50" "q51" "q52" "q53"
    "q54" "q55" "q56" "q57" "q58" "q59" "q60" "q61" "q62" "q63" "q64" "q65" "q66" "q67" "q68" "q69" "q70" "q71" "q72" "q73"
    "q74" "q75" "q76" "q77" "q78" "q79" "q80" "q81" "q82" "q83" "q84" "q85" "q86" "q87" "q88" "q89" "q90" "q91" "q92" "q93"
    "q94" "q95" "q96" "q97" "q98" "q99");

/// DuckDB's answer to `query` on data of `scale_factor`; `None` if none is stored.
pub fn stored_answer(query: &Query, scale_factor: f64) -> Option<&'static str> {
    if scale_factor != STORED_SCALE_FACTOR {
        return None;
    }
    let answers: &[(&str, &str)] = match query.benchmark {
        Benchmark::TpcH => &TPC_H,
        Benchmark::TpcDs => &TPC_DS,
    };
    answers
        .iter()
        .find(|(id, _)| *id == query.id)
        .map(|(_, text)| *text)
}

/// Compares the rows of `batches` with a stored answer.
///
/// Rows may be in any order that the statement allows: the columns that it orders by must have the
/// same values in the same order. Integers and decimals must be equal, apart from trailing zeros;
/// floating-point numbers must be equal within the tolerances.
///
/// # Errors
/// [`TpcError::Answer`] with the first difference found.
pub fn compare(query: &str, stored: &str, batches: &[RecordBatch]) -> Result<(), TpcError> {
    let different = |difference: String| TpcError::Answer {
        query: query.into(),
        difference,
    };
    let mut stored = Stored::parse(stored);
    let mut rows = rows_of(batches).map_err(|e| different(e.to_string()))?;
    if let Some(batch) = batches.first()
        && batch.num_columns() != stored.approximate.len()
    {
        return Err(different(format!(
            "{} columns where DuckDB has {}",
            batch.num_columns(),
            stored.approximate.len()
        )));
    }
    // A column that either engine returns as floating point is compared with tolerances.
    if let Some(batch) = batches.first() {
        for (approximate, field) in stored.approximate.iter_mut().zip(batch.schema().fields()) {
            *approximate |= matches!(field.data_type(), DataType::Float32 | DataType::Float64);
        }
    }
    if rows.len() != stored.rows.len() {
        return Err(different(format!(
            "{} rows where DuckDB has {}",
            rows.len(),
            stored.rows.len()
        )));
    }
    stored.check_order(&rows).map_err(&different)?;
    stored.sort(&mut rows);
    let expected = std::mem::take(&mut stored.rows);
    let odd = rows
        .iter()
        .zip(&expected)
        .find(|(got, expected)| !stored.same_row(got, expected));
    match odd {
        Some((got, expected)) => Err(different(format!(
            "expected {}, got {}",
            expected.join("|"),
            got.join("|")
        ))),
        None => Ok(()),
    }
}

type Row = Vec<String>;

struct Stored {
    /// For each column, whether it is compared as floating point.
    approximate: Vec<bool>,
    /// The columns that the statement orders by, from 0.
    ordered_by: Vec<usize>,
    rows: Vec<Row>,
}

impl Stored {
    fn parse(text: &str) -> Stored {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        let order = lines.next().unwrap_or_default();
        Stored {
            approximate: header.split('|').map(|name| name.ends_with('~')).collect(),
            ordered_by: order
                .split('|')
                .filter_map(|n| n.parse::<usize>().ok()?.checked_sub(1))
                .collect(),
            rows: lines
                .map(|line| line.split('|').map(str::to_owned).collect())
                .collect(),
        }
    }

    /// Checks that the columns that the statement orders by have the expected value in every row.
    fn check_order(&self, rows: &[Row]) -> Result<(), String> {
        for (number, (got, expected)) in rows.iter().zip(&self.rows).enumerate() {
            for &column in &self.ordered_by {
                if !same_cell(&got[column], &expected[column], self.approximate[column]) {
                    return Err(format!(
                        "row {} is ordered otherwise: expected {}, got {}",
                        number + 1,
                        expected.join("|"),
                        got.join("|")
                    ));
                }
            }
        }
        Ok(())
    }

    /// Sorts both sides alike, by exact columns first: nearly equal numbers may sort differently on
    /// the two sides.
    fn sort(&mut self, rows: &mut [Row]) {
        let mut columns: Vec<usize> = (0..self.approximate.len()).collect();
        columns.sort_by_key(|&c| self.approximate[c]);
        let order = |a: &Row, b: &Row| {
            columns
                .iter()
                .map(|&c| order_of(&a[c], &b[c], self.approximate[c]))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        rows.sort_by(order);
        self.rows.sort_by(order);
    }

    fn same_row(&self, got: &[String], expected: &[String]) -> bool {
        let cells = got.iter().zip(expected).zip(&self.approximate);
        got.len() == expected.len() && cells.into_iter().all(|((g, e), a)| same_cell(g, e, *a))
    }
}

fn order_of(a: &str, b: &str, approximate: bool) -> Ordering {
    match (approximate, a.parse::<f64>(), b.parse::<f64>()) {
        (true, Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => plain(a).cmp(plain(b)),
    }
}

fn same_cell(got: &str, expected: &str, approximate: bool) -> bool {
    if plain(got) == plain(expected) {
        return true;
    }
    match (got.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(g), Ok(e)) if approximate => {
            g == e
                || (g.is_nan() && e.is_nan())
                || (g - e).abs() <= ABSOLUTE + RELATIVE * g.abs().max(e.abs())
        }
        _ => false,
    }
}

/// A number without trailing zeros of its fraction; other text unchanged.
fn plain(cell: &str) -> &str {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    let number = digits.contains('.') && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if !number {
        return cell;
    }
    let short = cell.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0" } else { short }
}

fn rows_of(batches: &[RecordBatch]) -> Result<Vec<Row>, arrow::error::ArrowError> {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|c| c.value(row).to_string()).collect());
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Decimal128Array, Float64Array, StringArray};
    use std::sync::Arc;

    fn batch(names: &[&str], cents: &[i128], means: &[f64]) -> RecordBatch {
        let cents = Decimal128Array::from(cents.to_vec()).with_precision_and_scale(15, 2);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("name", Arc::new(StringArray::from(names.to_vec()))),
            ("sum", Arc::new(cents.unwrap())),
            ("mean", Arc::new(Float64Array::from(means.to_vec()))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    const STORED: &str = "name|sum|mean~\n1\na|1.5|0.333333333\nb|200|2\nb|-3.25|1e3\n";

    #[test]
    fn equal_answers_pass_whatever_the_form_of_numbers_and_the_order_of_ties() {
        let names = ["a", "b", "b"];
        let same = batch(&names, &[150, 20_000, -325], &[0.333_333, 2.0, 1000.0]);
        compare("q", STORED, &[same]).unwrap();
        let ties = batch(&names, &[150, -325, 20_000], &[0.333_333, 1000.0, 2.0]);
        compare("q", STORED, &[ties]).unwrap();
    }

    #[test]
    fn what_is_wrong_is_found() {
        let names = ["a", "b", "b"];
        let (cents, means) = ([150, 20_000, -325], [0.333_333, 2.0, 1000.0]);
        let wrong = [
            // Differs by a cent.
            batch(&names, &[151, 20_000, -325], &means),
            // Differs in a mean.
            batch(&names, &cents, &[0.334, 2.0, 1000.0]),
            // Differs in the order.
            batch(
                &["b", "a", "b"],
                &[20_000, 150, -325],
                &[2.0, 0.333_333, 1000.0],
            ),
            // Lacks a row.
            batch(&names[..2], &cents[..2], &means[..2]),
            // Lacks a column.
            batch(&names, &cents, &means).project(&[0, 1]).unwrap(),
        ];
        for (case, batch) in wrong.into_iter().enumerate() {
            assert!(compare("q", STORED, &[batch]).is_err(), "case {case}");
        }
        assert!(compare("q", STORED, &[]).is_err());
    }

    #[test]
    fn nothing_is_nearly_equal_to_null() {
        assert!(!same_cell("", "0", true) && !same_cell("0", "nan", true));
        assert!(same_cell("NaN", "nan", true) && same_cell("-inf", "-Infinity", true));
        assert!(!same_cell("0.000001", "", true));
        assert!(same_cell("-0.00", "0", false));
        assert!(!same_cell("100", "1", false));
        assert!(!same_cell("1.000001", "1", false));
    }

    #[test]
    fn every_statement_has_a_stored_answer_for_the_stored_scale_factor_alone() {
        for benchmark in [Benchmark::TpcH, Benchmark::TpcDs] {
            for query in crate::queries(benchmark) {
                assert!(
                    stored_answer(query, STORED_SCALE_FACTOR).is_some(),
                    "{}",
                    query.id
                );
                assert!(stored_answer(query, 1.0).is_none());
            }
        }
    }
}
