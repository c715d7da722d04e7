//! Invariant checks of the router's accounts, active in release builds too.

/// Aborts the program if an invariant does not hold.
///
/// Going on would hand out memory twice or count it wrongly.
#[inline]
pub(super) fn ensure(holds: bool, what: &'static str) {
    if !holds {
        broken(what);
    }
}

/// Writes the message to standard error and aborts.
///
/// A panic would format, allocate and unwind, and none of these is allowed inside a global
/// allocator.
#[cold]
#[inline(never)]
pub(super) fn broken(what: &'static str) -> ! {
    if cfg!(test) {
        panic!("{what}");
    }
    for part in ["tierloom: operator memory: ", what, "\n"] {
        // SAFETY: `part` is a string slice, so its pointer is readable for its length. A failed
        // write is ignored, since the next step aborts anyway.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a sum is wrong")]
    fn what_does_not_hold_is_told() {
        ensure(true, "never told");
        ensure(false, "a sum is wrong");
    }
}
