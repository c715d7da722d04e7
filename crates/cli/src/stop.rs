//! Ctrl-C: the first asks the command to stop, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static STOP: AtomicBool = AtomicBool::new(false);

/// Installs the handler. Without one (a handler exists already) Ctrl-C ends the process at once, which is worth a word but no failure.
pub fn install() {
    let handler = || {
        if STOP.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!("stopping; press Ctrl-C again to end at once");
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("note: Ctrl-C will end the program at once: {error}");
    }
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Passes the wish to stop on to `to`, for calls that wait for other hosts. Ends when `to` is set, by whomever.
pub fn pass_on(to: tierloom_agent::Stop) {
    std::thread::spawn(move || {
        while !to.requested() {
            if requested() {
                to.request();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

/// The flag itself, for libraries that watch one.
#[cfg(feature = "sql")]
pub fn flag() -> &'static AtomicBool {
    &STOP
}

/// Takes the wish to stop back, for a command that goes on with something else.
#[cfg(feature = "sql")]
pub fn reset() {
    STOP.store(false, Ordering::SeqCst);
}
