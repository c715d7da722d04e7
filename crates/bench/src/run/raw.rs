//! The raw values of a repetition, thread by thread, for records with `--samples`.

use tierloom_record::{RepetitionSamples, ThreadSamples};

use super::worker::ThreadResult;

/// What the threads of a main task did in a repetition of `seconds`; an operator has `phases`.
pub(super) fn of_threads(done: &[ThreadResult], seconds: f64, phases: usize) -> RepetitionSamples {
    let first = done.iter().map(|thread| thread.begun).min();
    let thread = |thread: &ThreadResult| {
        let after = first.map(|first| thread.begun.duration_since(first));
        let mut phase_seconds = vec![0.0; phases];
        // Pass after pass: every span belongs to the phase at its position in a pass.
        for (at, span) in thread.phases.iter().enumerate().filter(|_| phases > 0) {
            phase_seconds[at % phases] += span.ended.duration_since(span.begun).as_secs_f64();
        }
        let timed = thread
            .samples
            .as_ref()
            .filter(|samples| samples.count() > 0);
        ThreadSamples {
            begun_s: after.unwrap_or_default().as_secs_f64(),
            seconds: thread.seconds(),
            operations: thread.operations,
            bytes: thread.bytes,
            phase_seconds,
            latency_median_ns: timed.map(|samples| samples.median_ns()),
        }
    };
    RepetitionSamples {
        seconds,
        operations: done.iter().map(|thread| thread.operations).sum(),
        bytes: done.iter().map(|thread| thread.bytes).sum(),
        threads: done.iter().map(thread).collect(),
    }
}
