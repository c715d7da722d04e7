//! The progress bar of a session.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use tierloom_bench::run::Event;

/// A bar over `runs` runs.
pub fn bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{pos}/{len} runs, {eta} left  {msg}  {prefix}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(runs).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Shows the progress of a run in the bar.
pub fn tell(bar: &ProgressBar, event: Event) {
    bar.set_prefix(match event {
        Event::Preparing => "preparing".into(),
        Event::Repetition { done, most, figure } => {
            let figure = figure.map(|f| format!(", {f:.1}")).unwrap_or_default();
            format!("{done}/{most}{figure}")
        }
    });
}
