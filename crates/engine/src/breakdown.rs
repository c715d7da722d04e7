//! Converts panics of our own operators to errors of their statement.
//!
//! A panic is a bug of ours. While planning it is a reason to leave the work to DataFusion's
//! operators; while running it becomes one error that names the operator. Other statements are not
//! affected.

use datafusion::common::{DataFusionError, Result};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether a panic on this thread becomes an error, and where the last such panic occurred.
    static TOLD: Cell<bool> = const { Cell::new(false) };
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Runs `work` of `operator`; a panic becomes an error.
///
/// State that `work` modifies must not be used after an error, because it may be inconsistent.
///
/// # Errors
/// Errors of `work`, and its panic.
pub(crate) fn guarded<T>(operator: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(work).unwrap_or_else(|said| Err(broke_down(operator, &said)))
}

/// What `work` finds; `None` also after an error or a panic of it, for work that only saves time.
pub(crate) fn found<T>(work: impl FnOnce() -> Result<Option<T>>) -> Option<T> {
    caught(work).ok().and_then(Result::ok).flatten()
}

/// The error for a panic of `operator` with message `said`.
pub(crate) fn broke_down(operator: &str, said: &str) -> DataFusionError {
    DataFusionError::Execution(format!(
        "{operator} broke down ({said}); other statements are not affected, but please report \
         this one"
    ))
}

/// Runs `work`; a panic is returned as its message and location.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    keep_reports_quiet();
    // Restored afterwards: a nested call must not turn off the outer one.
    let before = TOLD.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    TOLD.set(before);
    outcome.map_err(|panic| match PLACE.take() {
        Some(place) => format!("{} at {place}", said(panic.as_ref())),
        None => said(panic.as_ref()).to_owned(),
    })
}

/// The message of a panic.
pub(crate) fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it did not say why")
}

/// Installs a panic hook that is silent for panics that become errors.
///
/// They would be reported twice otherwise.
fn keep_reports_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if TOLD.get() {
                let place = panic.location().map(ToString::to_string);
                // A thread that is exiting has already dropped its thread-local storage.
                let _ = PLACE.try_with(|noted| noted.set(place));
            } else {
                report(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_error_that_names_operator_message_and_place() {
        let error = guarded::<()>("SomeExec", || panic!("index {} of 3", 7)).unwrap_err();
        let text = error.strip_backtrace();
        assert!(
            text.contains("SomeExec broke down (index 7 of 3 at "),
            "{text}"
        );
        assert!(text.contains("breakdown.rs"), "{text}");
        assert_eq!(guarded("SomeExec", || Ok(5)).unwrap(), 5);
    }
}
