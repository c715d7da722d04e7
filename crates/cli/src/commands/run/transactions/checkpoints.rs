//! Checkpoints that are taken beside a run.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tierloom_oltp::{CheckpointTaken, Checkpoints, OltpError, RedoLog, Store};

/// What the checkpoints of a run took.
pub struct CheckpointsRun {
    pub taken: u64,
    /// All of them together.
    pub duration: Duration,
    /// Bytes of the last one.
    pub size_bytes: u64,
    /// Logged transactions per second while one was taken, and in the rest of the run.
    pub beside_per_s: f64,
    pub otherwise_per_s: f64,
}

/// Does `work` and takes a checkpoint whenever so long a time has gone by since the last one.
///
/// # Errors
/// The first checkpoint that fails ends them; `work` goes on to its end.
pub fn beside<T>(
    checkpoints: &mut Checkpoints,
    (store, log): (&Store, &RedoLog),
    every: Duration,
    work: impl FnOnce() -> T,
) -> (T, Result<CheckpointsRun, OltpError>) {
    let (over, is_over) = mpsc::channel::<()>();
    let (begin, before) = (Instant::now(), log.transactions());
    std::thread::scope(|scope| {
        let taking = scope.spawn(move || {
            let mut taken = Vec::new();
            while is_over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let begin = Instant::now();
                match checkpoints.take(store) {
                    Ok(one) => taken.push((begin, one)),
                    Err(error) => {
                        note!("no more checkpoints: {error}");
                        return Err(error);
                    }
                }
            }
            Ok(taken)
        });
        let done = work();
        let (elapsed, end) = (begin.elapsed(), Instant::now());
        let transactions = log.transactions() - before;
        drop(over);
        let taken = taking.join();
        let taken = taken.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let run = taken.map(|taken| summary(&taken, (elapsed, end), transactions));
        (done, run)
    })
}

fn summary(
    taken: &[(Instant, CheckpointTaken)],
    (elapsed, end): (Duration, Instant),
    transactions: u64,
) -> CheckpointsRun {
    // The last one may go on when the clients have ended.
    let beside = taken.iter().map(|(begin, one)| {
        let until_end = end.saturating_duration_since(*begin);
        one.duration.min(until_end)
    });
    let beside: Duration = beside.sum();
    let during: u64 = taken.iter().map(|(_, one)| one.transactions).sum();
    let per_s = |count: u64, time: Duration| match time.is_zero() {
        true => 0.0,
        false => count as f64 / time.as_secs_f64(),
    };
    let rest = transactions.saturating_sub(during);
    CheckpointsRun {
        taken: taken.len() as u64,
        duration: taken.iter().map(|(_, one)| one.duration).sum(),
        size_bytes: taken.last().map_or(0, |(_, one)| one.size_bytes),
        beside_per_s: per_s(during, beside),
        otherwise_per_s: per_s(rest, elapsed.saturating_sub(beside)),
    }
}
