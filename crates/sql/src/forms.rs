//! Converts values to types that an output format supports.
//!
//! Formats differ in what they can represent: dictionaries per batch, seconds, negative scales,
//! NaN. The conversions keep values; only the type changes.

use super::error::SqlError;
use super::format::{Format, WriteOptions};
use arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::datatypes::{Float16Type, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Largest precision of a decimal that is written.
const MOST_DIGITS: u8 = 76;

/// The schema that rows of `schema` are written with.
pub(super) fn written(schema: &SchemaRef, options: WriteOptions) -> SchemaRef {
    let fields = fields(schema.fields(), options);
    if &fields == schema.fields() {
        return Arc::clone(schema);
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Casts `batch` to `schema`, as returned by [`written`].
pub(super) fn recast(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.schema_ref().fields() == schema.fields() {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        // A value that does not fit is an error and not NULL.
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(column, field.data_type(), &strict)
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)
}

fn fields(fields: &Fields, options: WriteOptions) -> Fields {
    fields.iter().map(|f| field(f, options)).collect()
}

fn field(field: &FieldRef, options: WriteOptions) -> FieldRef {
    let form = form(field.data_type(), options);
    if form == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(field.as_ref().clone().with_data_type(form))
}

fn form(data_type: &DataType, options: WriteOptions) -> DataType {
    use DataType::{
        Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, FixedSizeList, LargeList,
        List, Map, Struct, Time32, Timestamp,
    };
    let parquet = options.format == Format::Parquet;
    // The Arrow file format has one dictionary per column, but batches come with different ones.
    let one_dictionary = options.format == Format::Arrow && options.to_file;
    match data_type {
        Dictionary(_, values) if one_dictionary => form(values, options),
        // Parquet has no unit of seconds; other readers would see plain integers.
        Timestamp(TimeUnit::Second, zone) if parquet => {
            Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        Time32(TimeUnit::Second) if parquet => Time32(TimeUnit::Millisecond),
        // Arrow's writer would keep the days alone; milliseconds keep the time too.
        Date64 if parquet => Timestamp(TimeUnit::Millisecond, None),
        // A negative scale (multiples of 10^n) has no representation in text or Parquet.
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s)
            if *s < 0 && options.format != Format::Arrow =>
        {
            let digits = p.saturating_add(s.unsigned_abs()).min(MOST_DIGITS);
            if digits <= 38 {
                Decimal128(digits, 0)
            } else {
                Decimal256(digits, 0)
            }
        }
        List(f) => List(field(f, options)),
        LargeList(f) => LargeList(field(f, options)),
        FixedSizeList(f, n) => FixedSizeList(field(f, options), *n),
        Map(f, sorted) => Map(field(f, options), *sorted),
        Struct(all) => Struct(fields(all, options)),
        other => other.clone(),
    }
}

/// Refuses duplicate column names, which would become duplicate keys of a JSON object.
pub(super) fn check_keys(fields: &Fields) -> Result<(), SqlError> {
    let mut seen = HashSet::new();
    for field in fields {
        if !seen.insert(field.name()) {
            return Err(SqlError::input(format!(
                "two columns are named {}, and the keys of a JSON object differ; name one of them \
                 otherwise with AS",
                field.name()
            )));
        }
        inner_keys(field.data_type())?;
    }
    Ok(())
}

fn inner_keys(data_type: &DataType) -> Result<(), SqlError> {
    match data_type {
        DataType::Struct(fields) => check_keys(fields),
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) => {
            inner_keys(f.data_type())
        }
        _ => Ok(()),
    }
}

/// Encodes NaN and infinities as "NaN", "Infinity" and "-Infinity".
///
/// JSON numbers cannot express them.
#[derive(Debug)]
pub(super) struct FloatsWithNames;

impl EncoderFactory for FloatsWithNames {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        match array.data_type() {
            DataType::Float16 => named(field, array.as_primitive::<Float16Type>(), f64::from),
            DataType::Float32 => named(field, array.as_primitive::<Float32Type>(), f64::from),
            DataType::Float64 => named(field, array.as_primitive::<Float64Type>(), |v| v),
            _ => Ok(None),
        }
    }
}

fn named<'a, T: ArrowPrimitiveType>(
    field: &'a FieldRef,
    values: &'a PrimitiveArray<T>,
    wide: fn(T::Native) -> f64,
) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
    static NUMBERS: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);
    let encoder = NamedFloats {
        numbers: make_encoder(field, values, &NUMBERS)?,
        values,
        wide,
    };
    let nulls = values.nulls().cloned();
    Ok(Some(NullableEncoder::new(Box::new(encoder), nulls)))
}

struct NamedFloats<'a, T: ArrowPrimitiveType> {
    numbers: NullableEncoder<'a>,
    values: &'a PrimitiveArray<T>,
    wide: fn(T::Native) -> f64,
}

impl<T: ArrowPrimitiveType> Encoder for NamedFloats<'_, T> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        let value = (self.wide)(self.values.value(index));
        let name: &[u8] = match value {
            v if v.is_nan() => b"\"NaN\"",
            f64::INFINITY => b"\"Infinity\"",
            f64::NEG_INFINITY => b"\"-Infinity\"",
            _ => return self.numbers.encode(index, out),
        };
        out.extend_from_slice(name);
    }
}
