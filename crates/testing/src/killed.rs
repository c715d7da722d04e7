//! Processes that are killed at a chosen moment.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Starts `child`, kills it (SIGKILL) so long after it has printed the line `started`, and returns
/// the whole lines that it printed.
///
/// # Panics
/// If it cannot be started, or does not print that line within a minute.
pub fn killed_after(child: &mut Command, delay: Duration) -> Vec<String> {
    let child = child.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = child.spawn().expect("started");
    let output = child.stdout.take().expect("piped");
    let (started, starts) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let lines = lines.inspect(|line| {
            if line == "started" {
                started.send(()).expect("waited for");
            }
        });
        lines.collect::<Vec<String>>()
    });
    let begun = starts.recv_timeout(Duration::from_secs(60));
    begun.expect("it starts");
    std::thread::sleep(delay);
    // The Rust library kills with SIGKILL.
    child.kill().expect("killed");
    child.wait().expect("ended");
    reader.join().expect("read")
}
