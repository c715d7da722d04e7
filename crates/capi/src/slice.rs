//! Parts of regions as arrays of Arrow's C data interface.

use crate::border::{check, guarded, reference, store};
use crate::region::tl_region;
use crate::status::{Fault, tl_status};
use crate::string::tl_str;
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

/// Gives a part of a region as an array without nulls, for any library with Arrow's C data
/// interface. Nothing is copied.
///
/// The array has `length` values and starts `offset` bytes into the region, which has to be a
/// multiple of a value's size. `format` is the type as Arrow's interface writes it, of fixed width:
/// `l` for 64-bit integers, `g` for doubles, `C` for bytes, and so on.
///
/// Array and schema each have a release callback, which their new owner calls. The region's memory
/// stays mapped until the array is released, also after `tl_region_free`. Readers take an array for
/// constant: do not write that part of the region as long as somebody may read it.
///
/// # Safety
/// `region` is a region, the text can be read, and `array` and `schema` can be written. What they
/// hold is overwritten, not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_region_slice(
    region: *const tl_region,
    offset: usize,
    length: usize,
    format: tl_str,
    array: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> tl_status {
    guarded(|| {
        check(array, "array")?;
        check(schema, "schema")?;
        // SAFETY: as for this function.
        let (region, format) = unsafe { (reference(region, "region")?, format.read("format")?) };
        let data_type = fixed_width(format)?;
        let values = values(region, offset, length, &data_type)?;
        let of_type = FFI_ArrowSchema::try_from(&data_type).map_err(Fault::failed)?;
        // SAFETY: as for this function.
        unsafe {
            store(array, FFI_ArrowArray::new(&values), "array")?;
            store(schema, of_type, "schema")
        }
    })
}

/// The type of a format; only those whose values have one width in whole bytes.
fn fixed_width(format: &str) -> Result<DataType, Fault> {
    let wrong = || {
        Fault::input(format!(
            "format {format:?} is no type of a fixed width; expected one such as l (64-bit \
             integer), i (32-bit), C (byte), g (double) or f (float)"
        ))
    };
    // Nested types have children, which nobody gave: the parser would look for them.
    if format.starts_with('+') {
        return Err(wrong());
    }
    let schema = FFI_ArrowSchema::try_new(format, Vec::new(), None).map_err(|_| wrong())?;
    let data_type = DataType::try_from(&schema).map_err(|_| wrong())?;
    data_type.primitive_width().ok_or_else(wrong)?;
    Ok(data_type)
}

fn values(
    region: &tl_region,
    offset: usize,
    length: usize,
    data_type: &DataType,
) -> Result<ArrayData, Fault> {
    let width = data_type.primitive_width().unwrap_or(1);
    if !offset.is_multiple_of(width) {
        return Err(Fault::argument(format!(
            "offset {offset} is not a multiple of the {width} bytes of a value"
        )));
    }
    let end = length
        .checked_mul(width)
        .and_then(|bytes| offset.checked_add(bytes));
    let end = end
        .ok_or_else(|| Fault::argument(format!("{length} values of {width} bytes are too many")))?;
    let slice = Arc::clone(&region.region).slice(offset..end)?;
    let start = slice.region().address() + offset;
    let start = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(start));
    let start = start.ok_or_else(|| Fault::failed("the region has no address"))?;
    // It is only dropped, which no panic leaves half done.
    let keeper = Arc::new(AssertUnwindSafe(slice));
    // SAFETY: the slice is inside the region, which it keeps mapped until the buffer is dropped.
    let buffer = unsafe { Buffer::from_custom_allocation(start, end - offset, keeper) };
    let data = ArrayData::builder(data_type.clone())
        .len(length)
        .add_buffer(buffer);
    data.build().map_err(Fault::failed)
}
