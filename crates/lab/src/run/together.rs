//! Runs several guests at the same time: one thread per guest, and a channel to the thread that
//! waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use super::{Attempt, Begun, BootLimits, GuestOutcome, Slots, Tries, check};
use crate::guest::{GuestCommand, GuestLink, GuestOptions};
use crate::host::last_lines;
use crate::{Kit, LabError};

/// Number of lines of a failed command's standard error in the error of another guest.
const STDERR_LINES: usize = 6;

/// Messages from a guest's thread to the waiting one.
enum News {
    Line(String),
    End(Result<GuestOutcome, LabError>),
}

/// Boots `guests` at the same time, each with its commands, waits until all have ended and returns
/// their results in the same order.
///
/// `on_line` is called for each console line with the index of its guest.
///
/// As in [`run`](crate::run), a command that fails stops nothing: a guest that waits for a failed
/// one must have its own timeout, or the time limit kills both. Guests communicate through a
/// [`GuestLink`](crate::GuestLink) or through the bytes of a shared
/// [`cxl_backing`](GuestOptions::cxl_backing). If the emulator fails in one of them, all are booted
/// again, as in [`run`](crate::run).
///
/// On a shared device, plain stores of one guest become visible to the others, and aligned stores
/// of at most 8 bytes are never torn. Locked operations are **not** atomic between guests.
///
/// # Errors
/// [`LabError::BadGuest`] before any boot, if a guest's options are invalid or the two ends of a
/// link do not fit together; [`LabError::Together`] with the first guest that failed, for any of
/// the reasons of [`run`](crate::run), and the state of the others, which are killed.
pub fn run_together(
    kit: &Kit,
    guests: &[(GuestOptions, Vec<GuestCommand>)],
    on_line: &mut dyn FnMut(usize, &str),
) -> Result<Vec<GuestOutcome>, LabError> {
    run_within(kit, guests, on_line, BootLimits::default())
}

pub(super) fn run_within(
    kit: &Kit,
    guests: &[(GuestOptions, Vec<GuestCommand>)],
    on_line: &mut dyn FnMut(usize, &str),
    limits: BootLimits,
) -> Result<Vec<GuestOutcome>, LabError> {
    check_links(guests)?;
    for (options, commands) in guests {
        check(options, commands)?;
    }
    let mut say = |line: &str| (0..guests.len()).for_each(|index| on_line(index, line));
    let threads = guests.iter().map(|(options, _)| options.threads()).sum();
    let _slots = Slots::take(kit, threads, &|| false, &mut say)?;
    let mut tries = Tries::new(kit, guests.iter().map(|(options, _)| options), limits.tries)?;
    loop {
        match boot_all(kit, guests, on_line, limits) {
            Ok(mut outcomes) => {
                let faults = tries.faults();
                for outcome in &mut outcomes {
                    outcome.faults.clone_from(&faults);
                }
                return Ok(outcomes);
            }
            Err(error) => {
                let line = tries.again(error)?;
                (0..guests.len()).for_each(|index| on_line(index, &line));
            }
        }
    }
}

fn boot_all(
    kit: &Kit,
    guests: &[(GuestOptions, Vec<GuestCommand>)],
    on_line: &mut dyn FnMut(usize, &str),
    limits: BootLimits,
) -> Result<Vec<GuestOutcome>, LabError> {
    let give_up = AtomicBool::new(false);
    let begun = Begun::of(guests.len());
    let (send, news) = mpsc::channel();
    thread::scope(|scope| {
        for (index, (options, commands)) in guests.iter().enumerate() {
            let (send, give_up, begun) = (send.clone(), &give_up, &begun);
            scope.spawn(move || {
                // The send fails only if `on_line` panicked, and then nobody needs the guests any
                // more.
                let tell = |what| {
                    if send.send((index, what)).is_err() {
                        give_up.store(true, Ordering::Relaxed);
                    }
                };
                let stop = || give_up.load(Ordering::Relaxed);
                let mut say = |line: &str| tell(News::Line(line.to_owned()));
                let boot = Attempt {
                    kit,
                    options,
                    commands,
                    patience: limits.patience,
                    begun,
                };
                tell(News::End(boot.make(&stop, &mut say)));
            });
        }
        // The loop below ends only when the last sender is gone.
        drop(send);
        let mut ends = Vec::with_capacity(guests.len());
        for (index, what) in news {
            match what {
                News::Line(line) => on_line(index, &line),
                News::End(end) => {
                    // The other guests may wait for the failed one, so none can be left running.
                    if end.is_err() {
                        give_up.store(true, Ordering::Relaxed);
                    }
                    ends.push((index, end));
                }
            }
        }
        collect(guests, ends)
    })
}

/// Checks that the ends of every link fit together; else its guests would wait until their time
/// limit.
fn check_links(guests: &[(GuestOptions, Vec<GuestCommand>)]) -> Result<(), LabError> {
    let links: Vec<&GuestLink> = guests
        .iter()
        .filter_map(|(options, _)| options.link.as_ref())
        .collect();
    for link in &links {
        let ends: Vec<&&GuestLink> = links
            .iter()
            .filter(|end| end.socket == link.socket)
            .collect();
        let fit = match ends[..] {
            [a, b] => a.listen != b.listen && a.mac() != b.mac(),
            _ => ends.len() == 1,
        };
        if !fit {
            return Err(LabError::BadGuest {
                what: format!(
                    "{} links use the socket {}; it needs two ends with different addresses, one that listens and one that does not",
                    ends.len(),
                    link.socket.display()
                ),
            });
        }
    }
    Ok(())
}

/// The outcomes in the guests' order, or the first error in the order in which guests ended.
fn collect(
    guests: &[(GuestOptions, Vec<GuestCommand>)],
    mut ends: Vec<(usize, Result<GuestOutcome, LabError>)>,
) -> Result<Vec<GuestOutcome>, LabError> {
    if let Some(position) = ends.iter().position(|(_, end)| end.is_err()) {
        let (index, end) = ends.remove(position);
        ends.sort_by_key(|(index, _)| *index);
        let others = ends
            .iter()
            .map(|(index, end)| format!("\nguests[{index}] {}", fate(end)))
            .collect();
        end.map_err(|source| LabError::Together {
            index,
            kind: guests[index].0.kind,
            source: Box::new(source),
            others,
        })?;
    }
    ends.sort_by_key(|(index, _)| *index);
    ends.into_iter().map(|(_, end)| end).collect()
}

/// A description of a guest other than the first one to fail.
///
/// It may still be the cause, so it is part of the error.
fn fate(end: &Result<GuestOutcome, LabError>) -> String {
    let outcome = match end {
        Err(LabError::Interrupted {
            finished,
            requested,
        }) => {
            return format!("was killed; {finished} of {requested} commands had finished");
        }
        Err(error) => return format!("failed too: {error}"),
        Ok(outcome) => outcome,
    };
    let failed = outcome
        .commands
        .iter()
        .find(|command| command.exit_code != 0);
    match failed {
        None => "had ended; all its commands returned 0".to_owned(),
        Some(command) => format!(
            "had ended; {:?} returned {}: {}",
            command.argv,
            command.exit_code,
            last_lines(&command.stderr_text(), STDERR_LINES)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandOutcome, GuestKind};

    fn outcome(name: &str, exit_code: i32) -> GuestOutcome {
        GuestOutcome {
            exit_code,
            console: String::new(),
            seconds: 1.0,
            commands: vec![CommandOutcome {
                argv: vec![name.to_owned()],
                exit_code,
                stdout: Vec::new(),
                stderr: b"no route".to_vec(),
            }],
            collected: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn guests(count: usize) -> Vec<(GuestOptions, Vec<GuestCommand>)> {
        vec![(GuestOptions::new(GuestKind::CxlDevdax), Vec::new()); count]
    }

    #[test]
    fn links_that_can_never_meet_are_refused_before_the_boot() {
        let a = GuestLink::listen("/s", "10.7.0.1/24");
        let b = GuestLink::connect("/s", "10.7.0.2/24");
        let other = GuestLink::connect("/other", "10.7.0.2/24");
        let same_address = GuestLink::connect("/s", "10.7.0.1/24");
        let check = |links: &[&GuestLink]| {
            let mut guests = guests(links.len() + 1);
            for ((options, _), link) in guests.iter_mut().zip(links) {
                options.link = Some((*link).clone());
            }
            check_links(&guests)
        };
        for good in [&[&a, &b] as &[&GuestLink], &[&b], &[&a, &other], &[]] {
            check(good).unwrap();
        }
        for bad in [
            &[&a, &a] as &[&GuestLink],
            &[&b, &b],
            &[&a, &b, &b],
            &[&a, &same_address],
        ] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains("one that listens"), "{error}");
        }
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_guests_not_of_their_ends() {
        let ends = vec![(1, Ok(outcome("b", 0))), (0, Ok(outcome("a", 3)))];
        let outcomes = collect(&guests(2), ends).unwrap();
        let names: Vec<&str> = outcomes
            .iter()
            .map(|outcome| outcome.commands[0].argv[0].as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn the_first_failure_is_the_error_and_the_others_are_told() {
        let stopped = || LabError::Interrupted {
            finished: 1,
            requested: 2,
        };
        let late = LabError::Timeout {
            timeout_s: 9,
            finished: 0,
            requested: 1,
            tail: String::new(),
        };
        let ends = vec![
            (2, Ok(outcome("dial", 7))),
            (1, Err(late)),
            (0, Err(stopped())),
        ];
        let error = collect(&guests(3), ends).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(&error, LabError::Together { index: 1, source, .. } if matches!(**source, LabError::Timeout { timeout_s: 9, .. })),
            "{text}"
        );
        for part in [
            "guests[1] (cxl-devdax)",
            "guests[0] was killed; 1 of 2",
            "guests[2] had ended",
            "dial",
            "returned 7: no route",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
