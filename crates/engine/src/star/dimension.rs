//! Maps the rows of a dimension to the codes of the fact column that refers to them.
//!
//! A join with a unique key on codes needs no hash table: the code of the foreign key is the index
//! of an array. Duplicate keys would multiply fact rows and are refused.

use super::NotFused;
use super::distinct::distinct;
use super::universe::FactColumn;
use crate::coded::Domain;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use datafusion::physical_plan::PhysicalExpr;
use std::collections::HashMap;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_star::GroupMap;

/// A dimension whose plan has run.
pub(super) struct LoadedDimension {
    pub rows: RecordBatch,
    /// The fact codes that match a row.
    pub keys: Arc<CodeSet>,
    /// The fact code that matches each row; `None` if no fact row can.
    codes: Vec<Option<u32>>,
}

impl LoadedDimension {
    /// Maps `rows` to the codes of `fact`.
    ///
    /// # Errors
    /// A key that is not an integer, differs in type from the fact column, or occurs in two rows.
    pub fn new(
        name: &str,
        rows: RecordBatch,
        key: &Arc<dyn PhysicalExpr>,
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
        let coder = Coder::new(fact)?;
        let mut keys = CodeSet::new(fact.coded.code_count());
        let mut codes = Vec::with_capacity(rows.num_rows());
        let mut add = |value: Option<i128>| {
            let code = value.and_then(|v| coder.code(v));
            codes.push(code);
            // A key outside of the fact column's codes matches no fact row, so it may repeat.
            let Some(code) = code else { return true };
            let new = !keys.contains(code);
            keys.insert(code);
            new
        };
        // Most keys are 32-bit integers without NULLs, which need not be widened to an array first.
        let unique = match values.as_primitive_opt::<Int32Type>() {
            Some(plain) if plain.null_count() == 0 => {
                plain.values().iter().all(|v| add(Some(i128::from(*v))))
            }
            _ => integers(&values)?.into_iter().all(add),
        };
        if !unique {
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
        let arrays = exprs
            .iter()
            .map(|e| e.evaluate(&self.rows)?.into_array(self.rows.num_rows()))
            .collect::<Result<Vec<_>, _>>()?;
        let found = distinct(&arrays)?;
        let pairs = self.codes.iter().zip(&found.ordinals);
        let pairs = pairs.filter_map(|(code, ordinal)| Some(((*code)? as usize, *ordinal)));
        let map = GroupMap::from_pairs(self.keys.codes() as usize, found.count as u64, pairs);
        Ok((map, found.values))
    }

    /// The value of an integer expression over this dimension's rows, for each fact code.
    ///
    /// # Errors
    /// A value that is NULL or not a 64-bit integer.
    pub fn values(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<[i64]>, NotFused> {
        let array = expr
            .evaluate(&self.rows)?
            .into_array(self.rows.num_rows())?;
        let mut by_code = vec![0; self.keys.codes() as usize];
        for (code, value) in self.codes.iter().zip(integers(&array)?) {
            let Some(code) = code else { continue };
            let Some(value) = value.and_then(|v| i64::try_from(v).ok()) else {
                return NotFused::because(format!("{expr} is NULL or too large in some row"));
            };
            by_code[*code as usize] = value;
        }
        Ok(by_code.into())
    }
}

/// Maps values to the codes of a column.
enum Coder {
    Offset { base: i128, first: i128, last: i128 },
    Listed(HashMap<i128, u32>),
}

impl Coder {
    fn new(fact: &FactColumn<'_>) -> Result<Self, NotFused> {
        let coded = fact.coded;
        let first = i128::from(coded.nullable());
        match coded.domain() {
            Domain::Offset { .. } => Ok(Coder::Offset {
                base: i128::from(coded.integer_base().unwrap_or(0)),
                first,
                last: i128::from(coded.code_count()) - 1,
            }),
            Domain::Values(values) => {
                let codes = integers(values)?.into_iter().enumerate();
                let listed = codes.filter_map(|(i, v)| Some((v?, i as u32 + first as u32)));
                Ok(Coder::Listed(listed.collect()))
            }
        }
    }

    fn code(&self, value: i128) -> Option<u32> {
        match self {
            Coder::Offset { base, first, last } => {
                let code = value - base;
                (*first..=*last).contains(&code).then_some(code as u32)
            }
            Coder::Listed(codes) => codes.get(&value).copied(),
        }
    }
}

/// The integers that represent an array's values: integers, days, unscaled decimals.
///
/// # Errors
/// An array of another type.
pub(super) fn integers(array: &ArrayRef) -> Result<Vec<Option<i128>>, NotFused> {
    match array.data_type() {
        DataType::Decimal128(_, _) => Ok(array.as_primitive::<Decimal128Type>().iter().collect()),
        DataType::Date32 | DataType::Time32(_) => integers(&cast(array, &DataType::Int32)?),
        DataType::Dictionary(_, value) if value.is_integer() => integers(&cast(array, value)?),
        DataType::UInt64 => Ok(array
            .as_primitive::<arrow::datatypes::UInt64Type>()
            .iter()
            .map(|v| v.map(i128::from))
            .collect()),
        t if t.is_integer()
            || matches!(
                t,
                DataType::Timestamp(..) | DataType::Date64 | DataType::Boolean
            ) =>
        {
            let wide = cast(array, &DataType::Int64)?;
            let wide = wide.as_primitive::<Int64Type>();
            Ok(wide.iter().map(|v| v.map(i128::from)).collect())
        }
        other => NotFused::because(format!("{other} is not an integer type")),
    }
}
