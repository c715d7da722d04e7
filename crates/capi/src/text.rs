//! Texts that the library made.

use crate::border::{free, guarded_or, hand_out, reference};
use crate::status::Fault;
use crate::string::tl_str;

/// A text that the library made; freed with `tl_text_free`.
///
/// Several threads may read one at once.
pub struct tl_text {
    /// With a zero byte behind it.
    text: String,
}

/// Hands `text` out as a handle.
///
/// # Safety
/// If `out` is neither null nor misaligned, a pointer can be written there.
pub(crate) unsafe fn text_out(out: *mut *mut tl_text, mut text: String) -> Result<(), Fault> {
    text.push('\0');
    // SAFETY: as for this function.
    unsafe { hand_out(out, tl_text { text }, "the place for the text") }
}

/// The bytes of a text. They end with a zero byte, which `len` does not count, and stay valid until
/// the text is freed.
///
/// # Safety
/// `text` is null or a text that is not freed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_text_get(text: *const tl_text) -> tl_str {
    guarded_or(tl_str::EMPTY, || {
        // SAFETY: as for this function.
        let text = unsafe { reference(text, "text") }?;
        Ok(tl_str {
            data: text.text.as_ptr().cast(),
            len: text.text.len() - 1,
        })
    })
}

/// Frees a text; null is fine.
///
/// # Safety
/// `text` is null or a text that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_text_free(text: *mut tl_text) {
    // SAFETY: as for this function.
    unsafe { free(text) }
}
