//! Shows progress on stderr and passes Ctrl-C on to the engine.

use crate::stop;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use tierloom_sql::{Unit, Watch};

/// A progress bar on stderr while data is loaded (hidden if stderr is not a terminal); Ctrl-C stops
/// the statement.
#[derive(Default)]
pub struct Terminal {
    bar: Mutex<Option<ProgressBar>>,
}

impl Terminal {
    fn with(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        act(&mut self.bar.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Watch for Terminal {
    fn stop(&self) -> &AtomicBool {
        stop::flag()
    }

    fn begin(&self, what: &str, total: u64, unit: Unit) {
        let bar = ProgressBar::new(total);
        let template = match unit {
            Unit::Bytes => "{prefix} [{bar:30}] {percent:>3}% {binary_bytes_per_sec}, {eta} left",
            Unit::Rows => "{prefix} [{bar:30}] {percent:>3}% {human_pos} rows, {eta} left",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what.to_owned());
        self.with(|slot| *slot = Some(bar));
    }

    fn advance(&self, more: u64) {
        self.with(|slot| {
            if let Some(bar) = slot {
                bar.inc(more);
            }
        });
    }

    fn end(&self) {
        self.with(|slot| {
            if let Some(bar) = slot.take() {
                bar.finish_and_clear();
            }
        });
    }
}
