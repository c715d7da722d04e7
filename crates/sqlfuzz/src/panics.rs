//! Records panics of all threads instead of printing them, so that those inside an engine are
//! noticed. The fuzzer's own are printed.

use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
static ONCE: Once = Once::new();

/// Number of the case that runs, for messages.
pub(crate) static CASE: AtomicU64 = AtomicU64::new(0);

/// Records panics from now on.
pub fn watch() {
    ONCE.call_once(|| std::panic::set_hook(Box::new(note)));
}

fn note(info: &PanicHookInfo<'_>) {
    let place = info.location();
    let text = info.payload();
    let said = text
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| text.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    let at = place.map(|l| format!("{}:{}", l.file(), l.line()));
    let message = format!("{}: {said}", at.unwrap_or_default());
    let thread = std::thread::current();
    let in_fuzzer = place.is_some_and(|l| l.file().starts_with("crates/sqlfuzz/"));
    if in_fuzzer || thread.name() == Some("main") {
        let trace = std::backtrace::Backtrace::force_capture();
        let case = CASE.load(Ordering::Relaxed);
        eprintln!("the fuzzer panicked in case {case} at {message}\n{trace}");
    }
    // No engine is at fault for what the fuzzer or a test of it asserts.
    if !in_fuzzer {
        SEEN.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message);
    }
}

/// Removes the recorded panics and returns those whose location is in this repository.
pub fn ours() -> Vec<String> {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.drain(..)
        .filter(|p| p.starts_with("crates/"))
        .collect()
}
