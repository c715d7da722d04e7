//! The log of this crate and of Ballista, on stderr.

use log::{LevelFilter, Log, Metadata, Record};

struct ToStderr;

static LOG: ToStderr = ToStderr;

impl Log for ToStderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let ballista = target.starts_with("ballista") && metadata.level() <= LevelFilter::Info;
        ballista || target.starts_with("tierloom_cluster")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("{}: {}", record.level(), record.args());
        }
    }

    fn flush(&self) {}
}

/// Prints from now on what happens to jobs, tasks, executors and node plans, on stderr.
pub fn print_log() {
    // Fails if there is a logger already, which then gets the messages.
    if log::set_logger(&LOG).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}
