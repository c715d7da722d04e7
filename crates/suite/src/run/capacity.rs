//! Capacity of a pool that changes while streams run.

use super::clock::Clock;
use crate::Resize;
use std::fs;
use std::time::Duration;
use tierloom_pool::{Pool, PoolError};
use tierloom_record::{CapacityChange, RateWindow};
use tierloom_text::Bytes;

/// How long the thread that changes the capacity sleeps before it looks whether to stop.
const STEP: Duration = Duration::from_millis(20);

/// Streams need about this long to show what a change does to them; most changes take less.
const LEAST_WINDOW_S: f64 = 1.0;

/// Changes the first member of the pool at the given times. What the pool refuses is on record with
/// its reason; the streams go on.
pub fn change(pool: &Pool, resizes: &[Resize], clock: &Clock<'_>) -> Vec<CapacityChange> {
    let mut done = Vec::new();
    for resize in resizes {
        while let Some(left) = resize.at.checked_sub(clock.elapsed()) {
            if clock.stopped() {
                return done;
            }
            std::thread::sleep(left.min(STEP));
        }
        done.push(change_once(pool, resize.bytes, clock));
    }
    done
}

fn change_once(pool: &Pool, wanted_bytes: u64, clock: &Clock<'_>) -> CapacityChange {
    let size = || fs::metadata(pool.path()).map_or(0, |file| file.len());
    let from_bytes = size();
    let start_s = clock.elapsed().as_secs_f64();
    let mut moved_bytes = 0;
    let result: Result<(), PoolError> = match wanted_bytes >= from_bytes {
        true => pool.grow_member(0, wanted_bytes),
        false => pool.shrink_plan(0, wanted_bytes).and_then(|plan| {
            moved_bytes = plan.moves.iter().map(|(_, bytes)| bytes).sum();
            pool.shrink_member(0, wanted_bytes)
        }),
    };
    CapacityChange {
        start_s,
        end_s: clock.elapsed().as_secs_f64(),
        from_bytes,
        wanted_bytes,
        to_bytes: size(),
        moved_bytes: if result.is_ok() { moved_bytes } else { 0 },
        refused: result.err().map(|error| error.to_string()),
    }
}

/// The rate before, during and after each change; `ends_s` are when queries ended.
pub fn windows(changes: &[CapacityChange], ends_s: &[f64], duration_s: f64) -> Vec<RateWindow> {
    let mut edges: Vec<(f64, f64, Option<u32>)> = Vec::new();
    let mut from_s = 0.0;
    for (index, change) in changes.iter().enumerate() {
        let start_s = change.start_s.max(from_s);
        let end_s = change.end_s.max(start_s + LEAST_WINDOW_S);
        edges.push((from_s, start_s, None));
        edges.push((start_s, end_s, Some(index as u32)));
        from_s = end_s;
    }
    edges.push((from_s, f64::INFINITY, None));
    let ended = |from_s: f64, to_s: f64| {
        let inside = ends_s.iter().filter(|end| (from_s..to_s).contains(*end));
        inside.count() as u64
    };
    edges
        .into_iter()
        .map(|(from_s, to_s, change)| (from_s, to_s.min(duration_s), change))
        .filter(|(from_s, to_s, _)| to_s > from_s)
        .map(|(from_s, to_s, change)| {
            let queries = ended(from_s, to_s);
            RateWindow {
                from_s,
                to_s,
                change,
                queries,
                queries_per_hour: queries as f64 / (to_s - from_s) * 3600.0,
            }
        })
        .collect()
}

/// What happened, a line per change and one with the rates.
pub fn notes(changes: &[CapacityChange], rates: &[RateWindow]) -> Vec<String> {
    let change = |c: &CapacityChange| {
        let (from, to) = (Bytes(c.from_bytes), Bytes(c.to_bytes));
        let at = format!(
            "at {:.1} s, in {:.1} ms",
            c.start_s,
            (c.end_s - c.start_s) * 1e3
        );
        match &c.refused {
            None => format!("the pool's file: {from} to {to} {at}"),
            Some(why) => {
                let wanted = Bytes(c.wanted_bytes);
                format!("the pool's file stays at {to}; {wanted} was refused {at}: {why}")
            }
        }
    };
    let rate = |r: &RateWindow| {
        let what = r.change.map_or("", |_| " (capacity changes)");
        let (from, to) = (r.from_s, r.to_s);
        format!(
            "{:.0} from {from:.1} to {to:.1} s{what}",
            r.queries_per_hour
        )
    };
    let mut notes: Vec<String> = changes.iter().map(change).collect();
    if !changes.is_empty() {
        let rates: Vec<String> = rates.iter().map(rate).collect();
        notes.push(format!("queries per hour: {}", rates.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(start_s: f64, end_s: f64) -> CapacityChange {
        CapacityChange {
            start_s,
            end_s,
            from_bytes: 1 << 30,
            wanted_bytes: 2 << 30,
            to_bytes: 2 << 30,
            moved_bytes: 0,
            refused: None,
        }
    }

    #[test]
    fn every_query_is_in_one_window_and_windows_are_long_enough() {
        let changes = [changed(2.0, 2.001), changed(2.5, 5.0), changed(9.5, 9.6)];
        let ends: Vec<f64> = (0..100).map(|i| f64::from(i) / 10.0).collect();
        let windows = windows(&changes, &ends, 10.0);
        let edges: Vec<_> = windows
            .iter()
            .map(|w| (w.from_s, w.to_s, w.change))
            .collect();
        let expected = [
            (0.0, 2.0, None),
            (2.0, 3.0, Some(0)),
            (3.0, 5.0, Some(1)),
            (5.0, 9.5, None),
            (9.5, 10.0, Some(2)),
        ];
        assert_eq!(edges, expected);
        assert_eq!(windows.iter().map(|w| w.queries).sum::<u64>(), 100);
        assert_eq!(windows[0].queries_per_hour, 36_000.0);
    }
}
