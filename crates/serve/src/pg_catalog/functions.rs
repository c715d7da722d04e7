//! Functions that say what constraints, indexes and defaults are.

use super::format;
use super::numbers::Numbers;
use super::types;
use crate::function;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, ListBuilder, StringArray,
    StructArray,
};
use arrow::array::{Int32Builder, StringBuilder, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::cast::{as_int16_array, as_int32_array, as_list_array};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;
use tierloom_sql::Declarations;

/// The name of the function that gives the default of a column by table and position. Subqueries
/// for it are replaced by calls of it.
pub(crate) const DEFAULT_OF_COLUMN: &str = "tierloom_default_of_column";

/// The name of the function that gives the names of columns by table and positions.
pub(crate) const NAMES_OF_COLUMNS: &str = "tierloom_names_of_columns";

/// The name of the function that gives the positions in a list, from 1.
pub(crate) const PLACES: &str = "tierloom_places";

/// All of them.
pub(super) fn all(numbers: &Arc<Numbers>, declarations: &Declarations) -> Vec<ScalarUDF> {
    let text = |name, give: fn(&Numbers, &[ArrayRef]) -> Result<ArrayRef>| {
        let numbers = Arc::clone(numbers);
        function(name, DataType::Utf8, move |given| give(&numbers, given))
    };
    vec![
        text("pg_get_constraintdef", |numbers, given| {
            let asked = integers(given, 0)?;
            let texts = asked.iter().map(|number| numbers.constraint(number?));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }),
        text("pg_get_indexdef", |numbers, given| {
            let asked = integers(given, 0)?;
            let columns = match given.len() {
                1 => Int32Array::from(vec![0; asked.len()]),
                _ => integers(given, 1)?,
            };
            let pairs = asked.iter().zip(columns.iter());
            let texts = pairs.map(|(number, column)| numbers.index(number?, column?));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }),
        // Expressions are kept as texts.
        text("pg_get_expr", |_, given| {
            Ok(cast(&given[0], &DataType::Utf8)?)
        }),
        text(DEFAULT_OF_COLUMN, |numbers, given| {
            let (tables, columns) = (integers(given, 0)?, integers(given, 1)?);
            let pairs = tables.iter().zip(columns.iter());
            let texts = pairs
                .map(|(table, column)| numbers.default_of(table?, i16::try_from(column?).ok()?));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }),
        function("format", DataType::Utf8, format::formatted),
        function("pg_typeof", DataType::Utf8, types::type_of),
        function("pg_size_pretty", DataType::Utf8, format::sizes),
        size("pg_relation_size", numbers),
        size("pg_total_relation_size", numbers),
        size("pg_table_size", numbers),
        // Keys are checked without indexes.
        function("pg_indexes_size", DataType::Int64, |given| {
            Ok(Arc::new(Int64Array::from(vec![0; given[0].len()])))
        }),
        all_sizes("pg_database_size", declarations),
        all_sizes("pg_tablespace_size", declarations),
        text("pg_get_viewdef", |numbers, given| {
            let asked = integers(given, 0)?;
            let texts = asked.iter().map(|number| numbers.view(number?));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }),
        // Nothing has a comment.
        text("obj_description", |_, given| Ok(nothing(given))),
        text("col_description", |_, given| Ok(nothing(given))),
        text("shobj_description", |_, given| Ok(nothing(given))),
        function("generate_subscripts", list_of(DataType::Int32), |given| {
            subscripts(&given[0])
        }),
        function(PLACES, list_of(DataType::Int32), |given| {
            subscripts(&given[0])
        }),
        names_of_columns(numbers),
        function("_pg_expandarray", expanded_type(), |given| {
            expanded(&given[0])
        }),
    ]
    .into_iter()
    .chain(SEEN.map(seen))
    .chain(ABSENT.map(|name| function(name, DataType::Utf8, |given| Ok(nothing(given)))))
    .collect()
}

/// Functions that say whether an object can be used by its name alone; all can.
const SEEN: [&str; 11] = [
    "pg_function_is_visible",
    "pg_type_is_visible",
    "pg_operator_is_visible",
    "pg_opclass_is_visible",
    "pg_opfamily_is_visible",
    "pg_conversion_is_visible",
    "pg_ts_config_is_visible",
    "pg_ts_dict_is_visible",
    "pg_ts_parser_is_visible",
    "pg_ts_template_is_visible",
    "pg_statistics_obj_is_visible",
];

/// Functions that describe what is not there or not known.
const ABSENT: [&str; 8] = [
    "pg_tablespace_location",
    "pg_get_functiondef",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_sqlbody",
    "pg_get_triggerdef",
    "pg_get_ruledef",
];

fn seen(name: &'static str) -> ScalarUDF {
    function(name, DataType::Boolean, |given| {
        Ok(Arc::new(BooleanArray::from(vec![true; given[0].len()])))
    })
}

fn list_of(item: DataType) -> DataType {
    DataType::new_list(item, true)
}

/// The names of columns by table and positions.
fn names_of_columns(numbers: &Arc<Numbers>) -> ScalarUDF {
    let numbers = Arc::clone(numbers);
    function(NAMES_OF_COLUMNS, list_of(DataType::Utf8), move |given| {
        let tables = integers(given, 0)?;
        let Some(lists) = given.get(1) else {
            return exec_err!("argument 2 is missing");
        };
        let lists = cast(lists, &list_of(DataType::Int16))?;
        let mut names = ListBuilder::new(StringBuilder::new());
        for (table, list) in tables.iter().zip(as_list_array(&lists)?.iter()) {
            match (table, list) {
                (Some(table), Some(list)) => {
                    let positions = as_int16_array(&list)?.iter().flatten();
                    names.append_value(numbers.names(table, positions).into_iter().map(Some));
                }
                _ => names.append_null(),
            }
        }
        Ok(Arc::new(names.finish()))
    })
}

/// Bytes of tables.
fn size(name: &'static str, numbers: &Arc<Numbers>) -> ScalarUDF {
    let numbers = Arc::clone(numbers);
    function(name, DataType::Int64, move |given| {
        let tables = integers(given, 0)?;
        let bytes = tables.iter().map(|table| {
            let bytes = numbers.bytes(table?);
            Some(i64::try_from(bytes).unwrap_or(i64::MAX))
        });
        Ok(Arc::new(bytes.collect::<Int64Array>()))
    })
}

/// Bytes of all tables, for whatever holds them.
fn all_sizes(name: &'static str, declarations: &Declarations) -> ScalarUDF {
    let declarations = declarations.clone();
    function(name, DataType::Int64, move |given| {
        let bytes = i64::try_from(declarations.all_bytes()).unwrap_or(i64::MAX);
        Ok(Arc::new(Int64Array::from(vec![bytes; given[0].len()])))
    })
}

fn nothing(given: &[ArrayRef]) -> ArrayRef {
    new_null_array(&DataType::Utf8, given[0].len())
}

/// A column of numbers, which clients also send as texts.
fn integers(given: &[ArrayRef], at: usize) -> Result<Int32Array> {
    match given.get(at) {
        Some(column) => Ok(as_int32_array(&cast(column, &DataType::Int32)?)?.clone()),
        None => exec_err!("argument {} is missing", at + 1),
    }
}

/// The positions in lists, from 1.
fn subscripts(lists: &ArrayRef) -> Result<ArrayRef> {
    let mut positions = ListBuilder::new(Int32Builder::new());
    if !matches!(lists.data_type(), DataType::List(_)) {
        // Texts in the form of lists, in tables of the catalog that describe the system.
        return Ok(new_null_array(
            &DataType::new_list(DataType::Int32, true),
            lists.len(),
        ));
    }
    for list in as_list_array(lists)?.iter() {
        match list {
            Some(list) => positions.append_value((1..).take(list.len()).map(Some)),
            None => positions.append_null(),
        }
    }
    Ok(Arc::new(positions.finish()))
}

fn expanded_fields() -> Fields {
    let number = |name: &str| Field::new(name, DataType::Int32, true);
    vec![number("x"), number("n")].into()
}

fn expanded_type() -> DataType {
    DataType::new_list(DataType::Struct(expanded_fields()), true)
}

/// Lists of elements with their positions.
fn expanded(lists: &ArrayRef) -> Result<ArrayRef> {
    let lists = cast(lists, &DataType::new_list(DataType::Int32, true))?;
    let lists = as_list_array(&lists)?;
    let (mut elements, mut positions) = (Vec::new(), Vec::new());
    let mut lengths = Vec::with_capacity(lists.len());
    for list in lists.iter() {
        let length = match &list {
            Some(list) => {
                elements.extend(as_int32_array(list)?.iter());
                positions.extend((1..).take(list.len()));
                list.len()
            }
            None => 0,
        };
        lengths.push(length);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(elements)),
        Arc::new(Int32Array::from(positions)),
    ];
    let pairs = StructArray::try_new(expanded_fields(), columns, None)?;
    let item = Field::new_list_field(DataType::Struct(expanded_fields()), true);
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = lists.nulls().cloned();
    let expanded = ListArray::try_new(Arc::new(item), offsets, Arc::new(pairs), nulls)?;
    Ok(Arc::new(expanded))
}

/// A function of any arguments.
fn function(
    name: &'static str,
    gives: DataType,
    give: impl Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync + 'static,
) -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Stable);
    function::of_rows(name, signature, gives, move |given, _| give(given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::{Int16Type, Int32Type};

    fn lists() -> ArrayRef {
        let lists = vec![Some(vec![Some(3), Some(1)]), None, Some(vec![])];
        Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>(lists))
    }

    #[test]
    fn lists_have_positions_with_and_without_their_elements() {
        let positions = subscripts(&lists()).unwrap();
        let positions = positions.as_list::<i32>();
        assert_eq!(
            positions.value(0).as_primitive::<Int32Type>().values(),
            &[1, 2]
        );
        assert!(positions.is_null(1) && positions.value(2).is_empty());
        let pairs = expanded(&lists()).unwrap();
        let pairs = pairs.as_list::<i32>();
        let first = pairs.value(0);
        let column = |at: usize| {
            first
                .as_struct()
                .column(at)
                .as_primitive::<Int32Type>()
                .clone()
        };
        assert_eq!(
            (&column(0).values()[..], &column(1).values()[..]),
            (&[3, 1][..], &[1, 2][..])
        );
        assert!(pairs.is_null(1) && pairs.value(2).is_empty());
    }
}
