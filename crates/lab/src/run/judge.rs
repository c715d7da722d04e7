//! Classifies the end of a boot: success, a failure of what ran in the guest, or a failure of the
//! emulator.
//!
//! The time and manner of the end decide. Nothing that runs in a guest makes QEMU die from a
//! signal, and before the first command nothing of the caller's has run, so these are failures of
//! the emulator and the guest is booted again. Everything else is caused by the commands and is
//! never repeated.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::guest::GuestOptions;
use crate::host::last_lines;
use crate::transcript::{Transcript, WAITED};
use crate::{EmulatorFault, LabError};

/// Number of console lines in an error.
const TAIL_LINES: usize = 40;
/// Number of lines of QEMU's error stream in an error.
const STDERR_LINES: usize = 12;
/// SIGHUP, SIGINT and SIGTERM: requests to end, from the user or the system.
const ASKED_TO_END: [i32; 3] = [1, 2, 15];

/// How QEMU ended. In all cases but the first it was killed here.
#[derive(Debug)]
pub(super) enum Ended {
    Exited(ExitStatus),
    /// Its results were complete but it did not exit.
    Finished,
    /// The commands exceeded their time limit.
    TimedOut,
    /// The first command did not begin in time, for this reason.
    Stalled(String),
    /// The caller cancelled the run.
    GivenUp,
}

/// How QEMU ended, and what it wrote.
pub(super) struct End<'a> {
    pub(super) ended: Ended,
    pub(super) console: &'a str,
    pub(super) stderr: &'a str,
}

/// Decides whether the guest finished, and if not, what kind of failure it was.
pub(super) fn judge(
    end: &End<'_>,
    transcript: &Transcript,
    options: &GuestOptions,
    requested: usize,
) -> Result<(), LabError> {
    // Complete results are a success however QEMU ended after them.
    if transcript.done && transcript.damage.is_none() {
        return Ok(());
    }
    let finished = transcript.finished();
    let tail = || tail(end.console);
    // A guest that was killed on request may also look stalled or damaged, so this comes first.
    if matches!(end.ended, Ended::GivenUp) {
        return Err(LabError::Interrupted {
            finished,
            requested,
        });
    }
    match &transcript.setup {
        None | Some((0, _)) => {}
        Some((WAITED, step)) => {
            let (what, tail) = (step.clone(), tail());
            return Err(emulator(EmulatorFault::Stalled { what, tail }));
        }
        Some((_, step)) => {
            let (step, tail) = (step.clone(), tail());
            return Err(LabError::GuestSetup { step, tail });
        }
    }
    let status = match &end.ended {
        Ended::Stalled(what) => {
            let (what, tail) = (what.clone(), tail());
            return Err(emulator(EmulatorFault::Stalled { what, tail }));
        }
        Ended::Exited(status) => *status,
        Ended::Finished | Ended::TimedOut | Ended::GivenUp => {
            return Err(LabError::Timeout {
                timeout_s: options.timeout.as_secs(),
                finished,
                requested,
                tail: tail(),
            });
        }
    };
    if !status.success() {
        return Err(failed_qemu(status, end.stderr, finished, requested));
    }
    let panicked = end.console.contains("Kernel panic");
    Err(match (transcript.begun(), panicked) {
        (false, true) => emulator(EmulatorFault::Panicked { tail: tail() }),
        (false, false) => emulator(EmulatorFault::Stopped { tail: tail() }),
        (true, true) => LabError::GuestPanic { tail: tail() },
        (true, false) => LabError::GuestStopped {
            reason: match &transcript.damage {
                Some(damage) => format!("its results are damaged ({damage})"),
                None => format!("{finished} of {requested} commands had finished"),
            },
            tail: tail(),
        },
    })
}

/// The error for an unsuccessful exit status: a signal other than a request to end is a fault of
/// the emulator, an exit code means that QEMU refused its options.
fn failed_qemu(status: ExitStatus, stderr: &str, finished: usize, requested: usize) -> LabError {
    let (status, signal) = (status.to_string(), status.signal());
    let detail = last_lines(stderr, STDERR_LINES);
    match signal {
        Some(signal) if !ASKED_TO_END.contains(&signal) => emulator(EmulatorFault::Died {
            status,
            detail,
            finished,
            requested,
        }),
        _ => LabError::Qemu { status, detail },
    }
}

fn emulator(fault: EmulatorFault) -> LabError {
    LabError::Emulator { tries: 1, fault }
}

pub(super) fn tail(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GuestKind;
    use crate::transcript::{REFUSED, parse};

    const BOOTED: &str = "T boot 0 0 0\n\n";
    const BEGUN: &str = "T boot 0 0 0\n\nT setup 0 0 0\n\n";
    const ONE_DONE: &str = "T boot 0 0 0\n\nT setup 0 0 0\n\nT exit 0 0 0\n\n";
    const ABORTED: i32 = 6;

    /// The verdict on a guest that was given two commands.
    fn verdict(ended: Ended, stream: &str, console: &str) -> LabError {
        let end = End {
            ended,
            console,
            stderr: "qemu: Assertion `section_index < sections_nb' failed.\n",
        };
        let options = GuestOptions::new(GuestKind::TwoNodes);
        judge(&end, &parse(stream.as_bytes(), "T", 2), &options, 2).unwrap_err()
    }

    fn exited(raw: i32) -> Ended {
        Ended::Exited(ExitStatus::from_raw(raw))
    }

    #[test]
    fn a_qemu_that_aborts_is_the_emulators_failure_at_any_time() {
        for (stream, done) in [
            ("", 0),
            (BEGUN, 0),
            (ONE_DONE, 1),
            ("T stdout 0 0 9\nab", 0),
        ] {
            for raw in [ABORTED, ABORTED | 0x80, 11, 9] {
                let error = verdict(exited(raw), stream, "");
                let Some(EmulatorFault::Died {
                    finished, detail, ..
                }) = error.emulator_fault()
                else {
                    panic!("{stream:?}: {error}")
                };
                assert_eq!(*finished, done, "{stream:?}");
                assert!(detail.contains("section_index"), "{detail}");
            }
        }
    }

    #[test]
    fn a_qemu_that_was_asked_to_end_or_refused_its_options_is_not() {
        for ended in [exited(15), exited(2), exited(1 << 8)] {
            let error = verdict(ended, "", "");
            assert!(matches!(error, LabError::Qemu { .. }), "{error}");
        }
    }

    #[test]
    fn before_the_first_command_every_end_is_the_emulators() {
        let panic = "Kernel panic - not syncing: IO-APIC + timer doesn't work!";
        let waited = format!("{BOOTED}T setup 0 {WAITED} 4\nstep\n");
        let stall = || Ended::Stalled("no word for 60 s".into());
        for (ended, stream, console) in [
            (stall(), "", ""),
            (stall(), BOOTED, "rcu: INFO: rcu_preempt detected stalls"),
            (exited(0), "", panic),
            (exited(0), BOOTED, panic),
            (exited(0), "", ""),
            (exited(0), BOOTED, ""),
            (exited(0), "T boot 0 0 0", ""),
            (exited(0), waited.as_str(), ""),
        ] {
            let error = verdict(ended, stream, console);
            assert!(error.emulator_fault().is_some(), "{stream:?} {error}");
        }
    }

    #[test]
    fn after_it_only_a_signal_is() {
        for stream in [BEGUN, ONE_DONE, &format!("{ONE_DONE}T stdout 1 0 99\npart")] {
            for (ended, console) in [
                (Ended::TimedOut, "rcu: INFO: rcu_preempt detected stalls"),
                (
                    exited(0),
                    "Kernel panic - not syncing: sysrq triggered crash",
                ),
                (exited(0), ""),
            ] {
                let error = verdict(ended, stream, console);
                assert!(error.emulator_fault().is_none(), "{stream:?} {error}");
            }
        }
        let error = verdict(Ended::TimedOut, ONE_DONE, "");
        assert!(matches!(error, LabError::Timeout { finished: 1, .. }));
    }

    #[test]
    fn a_step_of_the_set_up_that_is_refused_is_not_tried_again() {
        let stream = format!("{BOOTED}T setup 0 {REFUSED} 4\nstep\n");
        let error = verdict(exited(0), &stream, "");
        assert!(matches!(&error, LabError::GuestSetup { step, .. } if step == "step"));
    }

    #[test]
    fn a_guest_that_was_given_up_is_nobodys_failure() {
        for stream in ["", BOOTED, ONE_DONE] {
            let error = verdict(Ended::GivenUp, stream, "");
            assert!(matches!(error, LabError::Interrupted { .. }), "{error}");
        }
    }

    #[test]
    fn errors_show_the_end_of_a_long_console() {
        let console: String = (0..100).map(|i| format!("line {i}\n")).collect();
        let shown = tail(&console);
        assert!(
            shown.starts_with("line 60\n") && shown.ends_with("line 99"),
            "{shown}"
        );
    }
}
