//! The log of an agent.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of lines about rejected callers in each [`WINDOW`], so that they cannot fill a
/// disk.
const MOST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// Receives an agent's messages, one line at a time.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// Passes each line to `sink`, which is called from several threads.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// A log that discards all lines, which is the default.
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    pub(crate) fn say(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Log(..)")
    }
}

/// A rate-limited log for events that strangers cause. Says how many lines were dropped.
#[derive(Clone)]
pub(crate) struct Refusals {
    log: Log,
    window: Arc<Mutex<RefusalWindow>>,
}

struct RefusalWindow {
    begun: Instant,
    lines: u32,
}

impl Refusals {
    pub fn new(log: Log) -> Self {
        let window = RefusalWindow {
            begun: Instant::now(),
            lines: 0,
        };
        Self {
            log,
            window: Arc::new(Mutex::new(window)),
        }
    }

    pub fn say(&self, line: &str) {
        self.say_at(line, Instant::now());
    }

    fn say_at(&self, line: &str, now: Instant) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(window.begun) >= WINDOW {
            let more = window.lines.saturating_sub(MOST);
            *window = RefusalWindow {
                begun: now,
                lines: 0,
            };
            if more > 0 {
                self.log.say(&format!("{more} more were refused"));
            }
        }
        window.lines = window.lines.saturating_add(1);
        if window.lines <= MOST {
            self.log.say(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_fill_the_log_and_are_counted() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let refusals = Refusals::new(Log::new(move |line| {
            sink.lock().unwrap().push(line.to_owned())
        }));
        let now = Instant::now();
        for _ in 0..MOST + 7 {
            refusals.say_at("refused", now);
        }
        assert_eq!(lines.lock().unwrap().len(), MOST as usize);
        refusals.say_at("refused again", now + WINDOW);
        assert_eq!(
            lines.lock().unwrap()[MOST as usize..],
            ["7 more were refused", "refused again"]
        );
    }
}
