//! Statements with a time limit.

use crate::engines::{Answer, StopFlag, TOO_LONG, Tierloom};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Time limit of a statement.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Time that a statement may take to stop after its limit.
const GRACE: Duration = Duration::from_secs(30);

/// Runs a statement in a thread with a large stack.
///
/// If it cannot be stopped after its time limit, the program exits, since the thread would block
/// everything else.
pub fn timed(tierloom: &mut Tierloom, sql: &str) -> (Answer, Duration) {
    let stop = StopFlag::default();
    let start = Instant::now();
    let answer = std::thread::scope(|scope| {
        let (send, answers) = channel();
        let stop = &stop;
        let run = move || {
            let answer =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tierloom.run(sql, stop)));
            let answer = answer.unwrap_or_else(|_| Err("panicked in the session".into()));
            let _ = send.send(answer);
        };
        let thread = std::thread::Builder::new()
            .name("session".into())
            .stack_size(16 << 20);
        if let Err(error) = thread.spawn_scoped(scope, run) {
            return Err(format!("no thread: {error}"));
        }
        if let Ok(answer) = answers.recv_timeout(LIMIT) {
            return answer;
        }
        stop.now();
        match answers.recv_timeout(GRACE) {
            Ok(_) => Err(TOO_LONG.into()),
            Err(_) => {
                eprintln!("this statement neither ends nor can be stopped:\n{sql}");
                std::process::exit(1);
            }
        }
    });
    (answer, start.elapsed())
}
