//! Progress of a run on the terminal, and Ctrl-C.

use crate::commands::generate::RowProgress;
use crate::stop;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use tierloom_suite::{Event, Observer, Stage};

/// Shows a bar per stage on stderr, if that is a terminal, and remarks.
#[derive(Debug, Default)]
pub struct Progress {
    bar: Mutex<Option<ProgressBar>>,
}

impl Observer for Progress {
    fn stop(&self) -> &AtomicBool {
        stop::flag()
    }

    fn event(&self, event: Event<'_>) {
        // A panic elsewhere leaves a bar that still works.
        let mut shown = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        match (event, &*shown) {
            (Event::Note(text), _) => note!("{text}"),
            (Event::Begin(stage, length), _) => *shown = Some(bar(stage, length)),
            (Event::At(text), Some(bar)) => bar.set_message(text.to_owned()),
            (Event::Advanced(by), Some(bar)) => bar.inc(by),
            (Event::Reached(position), Some(bar)) => bar.set_position(position),
            (Event::End, Some(bar)) => {
                bar.finish_and_clear();
                *shown = None;
            }
            (_, None) => {}
        }
    }
}

fn bar(stage: Stage, length: u64) -> ProgressBar {
    let template = match stage {
        Stage::Generating => return RowProgress::bar("generating", length),
        Stage::Measuring => "measuring [{bar:30}] {pos}/{len} {msg}, {eta} left",
        Stage::Streaming => "streams [{bar:30}] {pos}/{len} s {msg}, {eta} left",
    };
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
