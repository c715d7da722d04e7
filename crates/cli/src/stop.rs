//! Ctrl-C: the first asks the command to stop, the second ends the process.
//!
//! The first Ctrl-C only sets a flag, which commands poll where they can keep finished work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tierloom_bench::run::Control;

static STOP: AtomicBool = AtomicBool::new(false);

/// Installs the handler.
///
/// If that fails (a handler exists already), Ctrl-C ends the process at once; this is reported but
/// not an error.
pub fn install() {
    let handler = || {
        // A second Ctrl-C means that the first did not end the command soon enough.
        if STOP.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        note!("stopping; press Ctrl-C again to end at once");
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        note!("note: Ctrl-C will end the program at once: {error}");
    }
    // With a handler, whatever it does, a write beyond `ulimit -f` fails and is reported; without
    // one the signal ends the process and leaves unfinished files.
    let ignored = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored);
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Stops a measurement when the user asks to.
pub struct UntilStopped;

impl Control for UntilStopped {
    fn stopped(&self) -> bool {
        requested()
    }
}

/// Forwards a stop request to `to`, for calls that wait for other hosts.
///
/// The forwarding thread ends once `to` is set, whoever set it.
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

/// The flag itself, for libraries that poll one and for commands that continue after a stop.
pub fn flag() -> &'static AtomicBool {
    &STOP
}
