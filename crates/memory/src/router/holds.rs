//! Checks of what the router's accounts rely on, in release builds too.

/// Ends the program if something that must hold does not: memory would be handed out twice, or
/// counted wrongly, from here on.
#[inline]
pub(super) fn ensure(holds: bool, what: &'static str) {
    if !holds {
        broken(what);
    }
}

/// Nothing may unwind out of an allocator, and nothing may allocate in it: the words go to the
/// standard error, and the program ends.
#[cold]
#[inline(never)]
pub(super) fn broken(what: &'static str) -> ! {
    if cfg!(test) {
        panic!("{what}");
    }
    for part in ["tierloom: operator memory: ", what, "\n"] {
        // SAFETY: the text is readable for its length; where it cannot be written there is nothing
        // more to do.
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
