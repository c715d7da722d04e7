//! Groups by several values, at least one of which is computed from each row: the branch of a CASE,
//! whether a condition holds, an integer.
//!
//! Each value is numbered from 0, and the numbers are the digits of one word, which is hashed if it
//! may have many values.

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::dimension::LoadedDimension;
use super::distinct::distinct;
use super::filters::over_values;
use super::lower::{columns_of, not_volatile};
use super::typed::Typed;
use super::universe::{fact_column, over_dimension, placed_column};
use super::word_key::MOST_GROUPS;
use arrow::array::{ArrayRef, BooleanArray, new_empty_array};
use arrow::datatypes::DataType;
use datafusion::physical_expr::expressions::{CaseExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use tierloom_star::{CodeValues, Expr, WordKey};

/// Most words of all parts together.
const MOST_WORDS: u64 = 1 << 62;

/// A digit of a key.
#[derive(Debug)]
pub(super) struct KeyPart {
    /// The digit is the word divided by this, ...
    unit: u64,
    /// ... modulo this.
    count: u64,
    pub values: PartValues,
}

/// What the digits of a part stand for.
#[derive(Debug)]
pub(super) enum PartValues {
    /// The value of each digit.
    Listed(ArrayRef),
    /// Codes of this column of the universe.
    Codes(usize),
    /// Integers, or the floats that they are, from this one on, after NULL if there is one.
    Integers {
        low: i64,
        nullable: bool,
        data_type: DataType,
    },
}

impl PartValues {
    pub fn size_bytes(&self) -> usize {
        match self {
            PartValues::Listed(values) => values.get_array_memory_size(),
            PartValues::Codes(_) | PartValues::Integers { .. } => 0,
        }
    }
}

impl KeyPart {
    /// The digits of the words of groups.
    pub fn digits(&self, keys: &[u64]) -> Vec<u64> {
        let digit = |key: &u64| key / self.unit % self.count;
        keys.iter().map(digit).collect()
    }
}

/// A value of a group, numbered.
struct Numbered {
    number: Expr,
    count: u64,
    values: PartValues,
}

/// The key of all `groups` in one word, and its parts.
///
/// # Errors
/// The first group that cannot be numbered, and if there are too many together.
pub(super) fn key_of_parts(
    arithmetic: &Arithmetic<'_>,
    groups: &[Arc<dyn PhysicalExpr>],
    dimensions: &[LoadedDimension],
) -> Result<(WordKey, Vec<KeyPart>), NotFused> {
    let (mut word, mut unit) = (Expr::Constant(0), 1_u64);
    let mut parts = Vec::new();
    for group in groups {
        let expr = arithmetic.lowered.over_universe(group)?;
        not_volatile(&expr)?;
        let numbered = numbered(arithmetic, &expr, dimensions)?;
        word = word + numbered.number * Expr::Constant(unit as i64);
        parts.push(KeyPart {
            unit,
            count: numbered.count,
            values: numbered.values,
        });
        let words = unit.checked_mul(numbered.count);
        let Some(words) = words.filter(|words| *words <= MOST_WORDS) else {
            return NotFused::because("the groups have too many values together");
        };
        unit = words;
    }
    arithmetic.interval(&word)?;
    let key = WordKey {
        value: word,
        null: -1,
        nulls: Vec::new(),
        when: Vec::new(),
        below: Some(unit),
    };
    Ok((key, parts))
}

fn numbered(
    arithmetic: &Arithmetic<'_>,
    expr: &Arc<dyn PhysicalExpr>,
    dimensions: &[LoadedDimension],
) -> Result<Numbered, NotFused> {
    let lowered = arithmetic.lowered;
    let columns = columns_of(expr);
    let owners: Vec<Option<usize>> = columns.iter().map(|c| lowered.owner(*c)).collect();
    if let [Some(first), rest @ ..] = &owners[..]
        && rest.iter().all(|owner| *owner == Some(*first))
    {
        let column = lowered.dimensions[*first].fact_key;
        let Some(loaded) = dimensions.get(*first) else {
            // A dry run.
            let nothing = new_empty_array(&expr.data_type(&lowered.universe)?);
            return Ok(by_code(column, CodeValues::from_iter([]), nothing));
        };
        let (numbers, values) = loaded.numbers(&over_dimension(lowered, *first, expr)?)?;
        return Ok(by_code(column, numbers, values));
    }
    if let [column] = columns[..] {
        let has_codes = !placed_column(lowered, column).has_words();
        if has_codes && expr.is::<Column>() {
            return codes(arithmetic, column);
        }
        if let Ok(listing) = arithmetic.listing(expr, column) {
            let results = over_values(expr, column, listing.values)?;
            let mut found = distinct(std::slice::from_ref(&results))?;
            let numbers = found.ordinals.iter().map(|number| i64::from(*number));
            let values = found.values.swap_remove(0);
            return Ok(by_code(listing.column, numbers.collect(), values));
        }
    }
    if expr.data_type(&lowered.universe)? == DataType::Boolean {
        return flags(arithmetic, expr);
    }
    if let Some(of_branches) = constants_of_branches(arithmetic, expr)? {
        return Ok(of_branches);
    }
    match arithmetic.as_computed(expr)? {
        typed if typed.float.is_some() => numbers(arithmetic, arithmetic.whole_floats(expr)?),
        typed => integers(arithmetic, typed),
    }
}

/// The numbers of values that depend on the code of one column.
fn by_code(column: usize, values: CodeValues, listed: ArrayRef) -> Numbered {
    Numbered {
        number: Expr::Mapped { column, values },
        count: listed.len().max(1) as u64,
        values: PartValues::Listed(listed),
    }
}

/// The codes of a column.
fn codes(arithmetic: &Arithmetic<'_>, column: usize) -> Result<Numbered, NotFused> {
    let fact = fact_column(arithmetic.lowered, column)?;
    let count = fact.coded.code_count();
    if count > MOST_GROUPS {
        return NotFused::because(format!("{} has too many values", fact.name));
    }
    Ok(Numbered {
        number: Expr::Code { column, base: 0 },
        count: count.max(1),
        values: match fact.coded.listed()? {
            Some(values) => PartValues::Listed(values),
            None => PartValues::Codes(column),
        },
    })
}

/// 1 where a condition holds, 2 where it does not, and 0 where it is NULL.
fn flags(
    arithmetic: &Arithmetic<'_>,
    condition: &Arc<dyn PhysicalExpr>,
) -> Result<Numbered, NotFused> {
    let holds = arithmetic.flag(condition, true)?;
    let fails = arithmetic.flag(condition, false)?;
    let values = BooleanArray::from(vec![None, Some(true), Some(false)]);
    Ok(Numbered {
        number: holds + fails * Expr::Constant(2),
        count: 3,
        values: PartValues::Listed(Arc::new(values)),
    })
}

/// The branches of a CASE all of which are constants; `None` for other expressions.
fn constants_of_branches(
    arithmetic: &Arithmetic<'_>,
    expr: &Arc<dyn PhysicalExpr>,
) -> Result<Option<Numbered>, NotFused> {
    let Some(case) = expr.downcast_ref::<CaseExpr>() else {
        return Ok(None);
    };
    let mut constants: Vec<ScalarValue> = Vec::new();
    let mut number_of = |branch: &Arc<dyn PhysicalExpr>| -> Option<Arc<dyn PhysicalExpr>> {
        let value = branch.downcast_ref::<Literal>()?.value();
        if value.is_null() {
            return Some(Arc::new(Literal::new(ScalarValue::Int64(None))));
        }
        let known = constants.iter().position(|known| known == value);
        let number = known.unwrap_or_else(|| {
            constants.push(value.clone());
            constants.len() - 1
        });
        let number = ScalarValue::Int64(Some(number as i64));
        Some(Arc::new(Literal::new(number)))
    };
    let branches = case.when_then_expr().iter();
    let branches = branches.map(|(when, then)| Some((Arc::clone(when), number_of(then)?)));
    let Some(branches) = branches.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let other = match case.else_expr().map(&mut number_of) {
        Some(None) => return Ok(None),
        other => other.flatten(),
    };
    // Zeros of both signs are one group.
    let data_type = constants.first().map(ScalarValue::data_type);
    let Some(data_type) = data_type.filter(|data_type| !data_type.is_floating()) else {
        return Ok(None);
    };
    let numbers = CaseExpr::try_new(case.expr().cloned(), branches, other)?;
    let typed = arithmetic.typed(&(Arc::new(numbers) as _))?;
    let mut numbered = integers(arithmetic, typed)?;
    if let PartValues::Integers { low, nullable, .. } = numbered.values {
        let Ok(unused) = usize::try_from(low) else {
            return NotFused::because("a branch below the first one");
        };
        let null = nullable.then(|| ScalarValue::try_from(&data_type));
        let null = null.transpose()?;
        let constants = constants.into_iter().skip(unused);
        let listed = ScalarValue::iter_to_array(null.into_iter().chain(constants))?;
        numbered.count = numbered.count.max(listed.len() as u64);
        numbered.values = PartValues::Listed(listed);
    }
    Ok(Some(numbered))
}

/// Integers and times.
fn integers(arithmetic: &Arithmetic<'_>, typed: Typed) -> Result<Numbered, NotFused> {
    let is_integer = typed.data_type.is_signed_integer()
        || matches!(typed.data_type, DataType::Date32 | DataType::Timestamp(..));
    if !is_integer || typed.float.is_some() {
        return NotFused::because(format!("one of several groups is a {}", typed.data_type));
    }
    numbers(arithmetic, typed)
}

/// The numbers of values whose expression gives integers.
fn numbers(arithmetic: &Arithmetic<'_>, typed: Typed) -> Result<Numbered, NotFused> {
    let interval = arithmetic.interval(&typed.expr)?;
    let valid = typed.valid();
    let nullable = valid.is_some();
    let count = interval.high - interval.low + 1 + i128::from(nullable);
    let (Ok(low), Ok(count)) = (i64::try_from(interval.low), u64::try_from(count)) else {
        return NotFused::because("a group spans 64 bits");
    };
    let from_one = typed.expr - Expr::Constant(low) + Expr::Constant(i64::from(nullable));
    Ok(Numbered {
        number: match valid {
            Some(valid) => valid.choose(from_one, Expr::Constant(0)),
            None => from_one,
        },
        count,
        values: PartValues::Integers {
            low,
            nullable,
            data_type: typed.data_type,
        },
    })
}
