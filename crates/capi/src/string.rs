//! Texts across the border: a pointer and a number of bytes, in UTF-8.

use crate::status::Fault;
use std::ffi::c_char;

/// The version of this interface; see `tl_abi_version`.
pub const TL_ABI_VERSION: u32 = 0;

/// The longest text that functions take, in bytes.
pub const TL_MAX_TEXT: usize = 16 << 20;

/// A text: UTF-8, `len` bytes long. A zero byte at its end is not needed.
///
/// `tl_string` makes one of a string of C. An empty text may have a null pointer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tl_str {
    /// The first byte.
    pub data: *const c_char,
    /// Number of bytes.
    pub len: usize,
}

impl tl_str {
    pub(crate) const EMPTY: tl_str = tl_str {
        data: c"".as_ptr(),
        len: 0,
    };

    /// A view of `text`, which does not end with a zero byte.
    pub(crate) fn of(text: &str) -> tl_str {
        tl_str {
            data: text.as_ptr().cast(),
            len: text.len(),
        }
    }

    /// The text; `what` names it in the error.
    ///
    /// # Safety
    /// If the pointer is not null, `len` bytes can be read there, and nobody changes them during
    /// `'a`.
    pub(crate) unsafe fn read<'a>(self, what: &str) -> Result<&'a str, Fault> {
        if self.len == 0 {
            return Ok("");
        }
        if self.data.is_null() {
            return Err(Fault::argument(format!("{what} is null")));
        }
        if self.len > TL_MAX_TEXT {
            return Err(Fault::argument(format!(
                "{what} has {} bytes; a text has at most {TL_MAX_TEXT}",
                self.len
            )));
        }
        // SAFETY: not null and of a size that an allocation can have; the rest is the caller's
        // promise.
        let bytes = unsafe { std::slice::from_raw_parts(self.data.cast::<u8>(), self.len) };
        std::str::from_utf8(bytes).map_err(|e| Fault::argument(format!("{what} is no UTF-8: {e}")))
    }
}
