//! Maps the rows of a dimension to the codes of the fact column that refers to them.
//!
//! A join with a unique key on codes needs no hash table: the code of the foreign key is the index
//! of an array. Duplicate keys would multiply fact rows and are refused.

use super::NotFused;
use super::distinct::distinct;
use super::filters::{codes_where, over_values};
use super::integers::{all_integers, bits_of_floats, valid_rows, with_nulls};
use super::lower::columns_of;
use super::universe::FactColumn;
use crate::coded::{Domain, Unit};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::HashMap;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_star::{CodeValues, GroupMap};

/// Values behind the last one that are looked at before all are searched.
const NEAR_VALUES: usize = 8;

/// A dimension whose plan has run.
pub(super) struct LoadedDimension {
    pub rows: RecordBatch,
    /// The fact codes that match a row.
    pub keys: Arc<CodeSet>,
    /// The fact code that matches each row; `None` if no fact row can.
    codes: Vec<Option<u32>>,
}

impl LoadedDimension {
    /// Maps `rows` to the codes of `fact`; with `repeats` a key may be there more than once.
    ///
    /// # Errors
    /// A key that is neither an integer nor a text, differs in type from the fact column, or occurs
    /// in two rows.
    pub fn new(
        name: &str,
        rows: RecordBatch,
        (key, repeats): (&Arc<dyn PhysicalExpr>, bool),
        fact: &FactColumn<'_>,
    ) -> Result<Self, NotFused> {
        let values = key.evaluate(&rows)?.into_array(rows.num_rows())?;
        // Codes are computed from integers, and of another type the same integer could mean another
        // value.
        if values.data_type() != fact.coded.data_type() {
            return NotFused::because(format!(
                "a key of {name} is of type {}, {} is of type {}",
                values.data_type(),
                fact.name,
                fact.coded.data_type()
            ));
        }
        if u32::try_from(rows.num_rows()).is_err() {
            return NotFused::because(format!("{name} has more rows than can be numbered"));
        }
        let mut keys = CodeSet::new(fact.coded.code_count());
        let mut codes = Vec::with_capacity(rows.num_rows());
        let mut add = |code: Option<u32>| {
            codes.push(code);
            // A key outside of the fact column's codes matches no fact row, so it may repeat.
            let Some(code) = code else { return true };
            let new = !keys.contains(code);
            keys.insert(code);
            new || repeats
        };
        let are_new = match text_codes(&values, fact)? {
            Some(codes) => codes.into_iter().all(&mut add),
            None => {
                let mut coder = Coder::new(fact)?;
                all_integers(&values, |value| add(value.and_then(|v| coder.code(v))))?
            }
        };
        if !are_new {
            return NotFused::because(format!("a key of {name} is there twice"));
        }
        Ok(LoadedDimension {
            rows,
            keys: Arc::new(keys),
            codes,
        })
    }

    /// Groups by `exprs` over this dimension's rows.
    ///
    /// Returns the ordinal of each fact code and the values of each ordinal.
    ///
    /// # Errors
    /// Errors of evaluating the expressions.
    pub fn groups(
        &self,
        exprs: &[Arc<dyn PhysicalExpr>],
    ) -> Result<(GroupMap, Vec<ArrayRef>), NotFused> {
        let arrays = exprs.iter().map(|e| self.evaluate(e));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let found = distinct(&arrays)?;
        let pairs = self.by_code(&found.ordinals);
        let map = GroupMap::from_pairs(self.keys.codes() as usize, found.count as u64, pairs);
        Ok((map, found.values))
    }

    /// A number for each value of an expression, by fact code, and the value of each number.
    ///
    /// # Errors
    /// Errors of evaluating the expression.
    pub fn numbers(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<(CodeValues, ArrayRef), NotFused> {
        let mut found = distinct(&[self.evaluate(expr)?])?;
        let pairs = self.by_code(&found.ordinals);
        let pairs = pairs.map(|(code, ordinal)| (code, i64::from(ordinal)));
        let numbers = CodeValues::from_pairs(self.keys.codes() as usize, pairs);
        Ok((numbers, found.values.swap_remove(0)))
    }

    /// What each row has, by its fact code if there is one.
    fn by_code<T: Copy>(&self, of_rows: &[T]) -> impl Iterator<Item = (usize, T)> + Clone {
        let pairs = self.codes.iter().zip(of_rows);
        pairs.filter_map(|(code, of_row)| Some(((*code)? as usize, *of_row)))
    }

    /// The value of an integer expression over this dimension's rows, for each fact code, and the
    /// codes for which it is not NULL if it is for some.
    ///
    /// # Errors
    /// A value that is not a 64-bit integer.
    pub fn values(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<(CodeValues, Option<Arc<CodeSet>>), NotFused> {
        let array = self.evaluate(expr)?;
        let (values, valid) = match array.as_primitive_opt::<Float64Type>() {
            None => with_nulls(&array)?,
            Some(floats) => (bits_of_floats(floats), valid_rows(&array)),
        };
        let by_code = CodeValues::from_pairs(self.keys.codes() as usize, self.by_code(&values));
        let valid = valid.map(|rows| {
            let mut valid = CodeSet::new(self.keys.codes());
            let codes = self.codes.iter().enumerate();
            let codes = codes.filter(|(row, _)| rows.contains(*row as u32));
            codes
                .filter_map(|(_, code)| *code)
                .for_each(|code| valid.insert(code));
            Arc::new(valid)
        });
        Ok((by_code, valid))
    }

    /// The fact codes of the rows for which `condition` is true, or false if it is `wanted` to be.
    ///
    /// # Errors
    /// Errors of evaluating the condition.
    pub fn codes_where(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        wanted: bool,
    ) -> Result<CodeSet, NotFused> {
        let holds = self.evaluate(condition)?;
        let codes = self.codes.iter().copied();
        codes_where(condition, &holds, wanted, self.keys.codes(), codes)
    }

    /// The value of an expression for each row; over a dictionary once for each of its words.
    fn evaluate(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<ArrayRef, NotFused> {
        let rows = self.rows.num_rows();
        if let [column] = columns_of(expr)[..]
            && let Some(words) = self.rows.column(column).as_any_dictionary_opt()
            && words.values().len() < rows / 2
            && words.null_count() == 0
        {
            let each = cast(words.values(), self.rows.column(column).data_type())?;
            return Ok(take(&over_values(expr, column, each)?, words.keys(), None)?);
        }
        Ok(expr.evaluate(&self.rows)?.into_array(rows)?)
    }
}

/// The fact codes of keys that are texts; `None` if these are none.
fn text_codes(
    keys: &ArrayRef,
    fact: &FactColumn<'_>,
) -> Result<Option<Vec<Option<u32>>>, NotFused> {
    let (Domain::Values(values), true) = (fact.coded.domain(), is_text(keys.data_type())) else {
        return Ok(None);
    };
    let [texts, keys] = [values, keys].map(|array| cast(array, &DataType::Utf8View));
    let (texts, keys) = (texts?, keys?);
    let first = u32::from(fact.coded.nullable());
    let texts = texts.as_string_view().iter().zip(first..);
    let codes: HashMap<&str, u32> = texts
        .filter_map(|(text, code)| Some((text?, code)))
        .collect();
    let keys = keys.as_string_view().iter();
    let of_key = |key: Option<&str>| codes.get(key?).copied();
    Ok(Some(keys.map(of_key).collect()))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, of) => of.is_string(),
        other => other.is_string(),
    }
}

/// Maps integers to the codes of a column.
enum Coder {
    Offset {
        /// How many integers of the type a code counts for.
        step: i128,
        base: i128,
        first: i128,
        last: i128,
    },
    Listed {
        values: Vec<i128>,
        first: u32,
        next: usize,
    },
}

impl Coder {
    fn new(fact: &FactColumn<'_>) -> Result<Self, NotFused> {
        let coded = fact.coded;
        let first = i128::from(coded.nullable());
        match (coded.offset(), coded.domain()) {
            (Some((base, Unit::Times(step))), _) => Ok(Coder::Offset {
                step: i128::from(step),
                base: i128::from(base),
                first,
                last: i128::from(coded.code_count()) - 1,
            }),
            (_, Domain::Offset { .. }) => {
                NotFused::because(format!("{} joins by floats", fact.name))
            }
            (_, Domain::Values(values)) => {
                let mut listed = Vec::with_capacity(values.len());
                all_integers(values, |value| {
                    listed.extend(value);
                    true
                })?;
                Ok(Coder::Listed {
                    values: listed,
                    first: first as u32,
                    next: 0,
                })
            }
        }
    }

    fn code(&mut self, value: i128) -> Option<u32> {
        match self {
            Coder::Offset {
                step,
                base,
                first,
                last,
            } => {
                // Integers are by far the most.
                let units = match *step {
                    1 => value,
                    step if value.rem_euclid(step) == 0 => value.div_euclid(step),
                    _ => return None,
                };
                let code = units - *base;
                (*first..=*last).contains(&code).then_some(code as u32)
            }
            Coder::Listed {
                values,
                first,
                next,
            } => found(values, value, next).map(|at| at as u32 + *first),
        }
    }
}

/// The index of `value` in `values`, which ascend.
///
/// `next` is where a value after the last one would be: keys of a dimension mostly ascend too.
fn found(values: &[i128], value: i128, next: &mut usize) -> Option<usize> {
    let is_after = next.checked_sub(1).is_none_or(|last| values[last] < value);
    for _ in 0..if is_after { NEAR_VALUES } else { 0 } {
        let other = *values.get(*next)?;
        if other > value {
            return None;
        }
        *next += 1;
        if other == value {
            return Some(*next - 1);
        }
    }
    match values.binary_search(&value) {
        Ok(at) => {
            *next = at + 1;
            Some(at)
        }
        Err(at) => {
            *next = at;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_any_order() {
        let values: Vec<i128> = (0..100).map(|i| i * i).collect();
        let mut next = 0;
        let asked = [
            0,
            1,
            2,
            9,
            9801,
            9802,
            3,
            4,
            4,
            -1,
            50 * 50,
            2600,
            2601,
            98 * 98,
            9801,
        ];
        for value in asked {
            let expected = values.iter().position(|v| *v == value);
            assert_eq!(found(&values, value, &mut next), expected, "{value}");
        }
        assert_eq!(found(&[], 7, &mut 0), None);
    }
}
