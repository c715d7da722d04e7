//! Keys of a join's build side, collected while its rows pass.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::HashSet;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use std::sync::Arc;

/// Texts after which a key of text is not collected any further.
const MOST_TEXTS: usize = 1 << 16;

/// The keys of a build side: what a row of the probe side must have to find a match.
#[derive(Debug)]
pub(crate) enum Keys {
    Integers(Vec<i64>),
    Texts(HashSet<Box<str>>),
}

impl Keys {
    /// Whether keys of a type can be collected.
    pub fn can_have(data_type: &DataType) -> bool {
        is_integer(data_type) || is_text(data_type)
    }
}

fn is_integer(data_type: &DataType) -> bool {
    // Not UInt64, which has values that Int64 lacks.
    data_type.is_signed_integer()
        || matches!(
            data_type,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::Date32
        )
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

/// Values of an integer or date type as 64-bit integers.
pub(super) fn as_integers(values: &ArrayRef) -> Result<ArrayRef> {
    let days = match values.data_type() {
        DataType::Date32 => cast(values, &DataType::Int32)?,
        _ => Arc::clone(values),
    };
    Ok(cast(&days, &DataType::Int64)?)
}

/// Collects the keys of a build side while its rows pass.
#[derive(Debug)]
pub(crate) struct KeyCollector {
    pub(super) keys: Keys,
    /// Rows after which the keys are not worth their memory.
    most: usize,
    reservation: MemoryReservation,
}

impl KeyCollector {
    /// A collector of keys of `data_type` that gives up after `most` rows.
    pub fn new(data_type: &DataType, most: usize, reservation: MemoryReservation) -> Self {
        let keys = match is_text(data_type) {
            true => Keys::Texts(HashSet::default()),
            false => Keys::Integers(Vec::new()),
        };
        KeyCollector {
            keys,
            most,
            reservation,
        }
    }

    /// Adds the keys of a batch; false if there are too many, and the collector is of no use.
    ///
    /// NULL finds no match, so it is no key.
    ///
    /// # Errors
    /// Arrow's, from a cast.
    pub fn add(&mut self, values: &ArrayRef) -> Result<bool> {
        let before = self.size_bytes();
        let within = match &mut self.keys {
            Keys::Integers(keys) => {
                let values = as_integers(values)?;
                let values = values.as_primitive::<Int64Type>();
                match values.null_count() {
                    0 => keys.extend_from_slice(values.values()),
                    _ => keys.extend(values.iter().flatten()),
                }
                keys.len() <= self.most
            }
            Keys::Texts(keys) => {
                let values = cast(values, &DataType::Utf8)?;
                for value in values.as_string::<i32>().iter().flatten() {
                    if !keys.contains(value) {
                        keys.insert(value.into());
                    }
                }
                keys.len() <= self.most.min(MOST_TEXTS)
            }
        };
        let added = self.size_bytes().saturating_sub(before);
        Ok(within && self.reservation.try_grow(added).is_ok())
    }

    /// The bytes of the keys, roughly.
    fn size_bytes(&self) -> usize {
        match &self.keys {
            Keys::Integers(keys) => keys.capacity() * size_of::<i64>(),
            Keys::Texts(keys) => keys.capacity() * 64,
        }
    }
}
