//! Columns that are prepared and placed side by side, and reserved in order.

use crate::EngineError;
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// What a thread says to the one that reserves.
enum Message<P, R> {
    /// A source was prepared; the thread waits for its reservation.
    Prepared(usize, P, Sender<(P, R)>),
    /// The thread has failed, so that no further source will be complete.
    Failed,
}

/// What a thread has placed, or its error, with the numbers of the sources.
type Ended<C> = Result<Vec<(usize, C)>, (usize, EngineError)>;

/// Says that a thread has failed, unless it ends as it should.
struct Watched<P, R> {
    messages: Sender<Message<P, R>>,
    failed: bool,
}

impl<P, R> Drop for Watched<P, R> {
    fn drop(&mut self) {
        if self.failed {
            // Nobody listens if the other side has given up before.
            let _ = self.messages.send(Message::Failed);
        }
    }
}

/// Prepares and places every source on one of `threads` threads, and reserves what each needs on
/// this thread in between, in the order of the sources.
///
/// A thread takes the next source when it has placed the one before, so no more than `threads` of
/// them are in work at a time, and none waits for a longer one that was begun with it.
///
/// # Errors
/// That of `reserve`, or of the first source for which `prepare` or `place` has failed.
pub(super) fn pipelined<S: Send, P: Send, R: Send, C: Send>(
    sources: Vec<S>,
    threads: usize,
    prepare: impl Fn(S) -> Result<P, EngineError> + Sync,
    mut reserve: impl FnMut(&P) -> Result<R, EngineError>,
    place: impl Fn(P, R) -> Result<C, EngineError> + Sync,
) -> Result<Vec<C>, EngineError> {
    let threads = threads.min(sources.len());
    if threads <= 1 {
        let one = |source| {
            let prepared = prepare(source)?;
            let reserved = reserve(&prepared)?;
            place(prepared, reserved)
        };
        return sources.into_iter().map(one).collect();
    }
    let waiting = Mutex::new(sources.into_iter().enumerate());
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.next()
    };
    let work = |messages: Sender<Message<P, R>>| -> Ended<C> {
        let mut watched = Watched {
            messages,
            failed: true,
        };
        let mut placed = Vec::new();
        while let Some((index, source)) = next() {
            let failed = |error| (index, error);
            let prepared = prepare(source).map_err(failed)?;
            let (give, take) = channel();
            let message = Message::Prepared(index, prepared, give);
            // Both ends are gone when the other side has given up, for an error of its own.
            if watched.messages.send(message).is_err() {
                break;
            }
            let Ok((prepared, reserved)) = take.recv() else {
                break;
            };
            placed.push((index, place(prepared, reserved).map_err(failed)?));
        }
        watched.failed = false;
        Ok(placed)
    };
    std::thread::scope(|scope| {
        let (sender, messages) = channel();
        let running: Vec<_> = (0..threads)
            .map(|_| {
                let sender = sender.clone();
                let work = &work;
                scope.spawn(move || work(sender))
            })
            .collect();
        drop(sender);
        let mut early = BTreeMap::new();
        let mut reserved = 0;
        let mut outcome = Ok(());
        'all: for message in messages {
            let Message::Prepared(index, prepared, give) = message else {
                break;
            };
            early.insert(index, (prepared, give));
            while let Some((prepared, give)) = early.remove(&reserved) {
                match reserve(&prepared) {
                    // A thread that is gone has said so.
                    Ok(place) => drop(give.send((prepared, place))),
                    Err(error) => {
                        outcome = Err(error);
                        break 'all;
                    }
                }
                reserved += 1;
            }
        }
        // Wakes the threads that wait for a reservation.
        drop(early);
        let done: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        let done = done
            .into_iter()
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        in_order(done.collect(), outcome)
    })
}

/// What all threads have placed, in the order of the sources, or the first error among them; that
/// of the reservations if the threads have none.
fn in_order<C>(
    done: Vec<Ended<C>>,
    reservations: Result<(), EngineError>,
) -> Result<Vec<C>, EngineError> {
    let (mut placed, mut first) = (BTreeMap::new(), None::<(usize, EngineError)>);
    for ended in done {
        match ended {
            Ok(columns) => placed.extend(columns),
            Err(error) if first.as_ref().is_none_or(|f| error.0 < f.0) => first = Some(error),
            Err(_) => {}
        }
    }
    match first {
        Some((_, error)) => Err(error),
        None => reservations.map(|()| placed.into_values().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn broken(problem: &str) -> EngineError {
        EngineError::Table {
            table: "t".into(),
            problem: problem.into(),
        }
    }

    #[test]
    fn sources_of_any_length_are_reserved_in_order_and_few_are_in_work() {
        for threads in [1, 2, 3, 40] {
            let (in_work, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let mut order = Vec::new();
            let placed = pipelined(
                (0..20_u64).collect(),
                threads,
                |source| {
                    let now = in_work.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    // Later sources are often ready before earlier ones.
                    std::thread::sleep(Duration::from_micros((source * 7919) % 500));
                    Ok(source)
                },
                |prepared| {
                    order.push(*prepared);
                    Ok(prepared * 10)
                },
                |prepared, reserved| {
                    in_work.fetch_sub(1, Ordering::SeqCst);
                    Ok((prepared, reserved))
                },
            );
            let expected: Vec<(u64, u64)> = (0..20).map(|n| (n, n * 10)).collect();
            assert_eq!(placed.unwrap(), expected);
            assert_eq!(order, (0..20).collect::<Vec<u64>>());
            assert!(most.into_inner() <= threads);
        }
    }

    #[test]
    fn an_error_of_any_step_ends_all_threads_and_is_returned() {
        for threads in [1, 2, 4] {
            for step in ["prepare", "reserve", "place"] {
                for at in [0, 1, 7, 19] {
                    let check = |now: &str, source: u64| match now == step && source == at {
                        true => Err(broken(step)),
                        false => Ok(source),
                    };
                    let made = pipelined(
                        (0..20).collect(),
                        threads,
                        |source| check("prepare", source),
                        |prepared| check("reserve", *prepared),
                        |prepared, _| check("place", prepared),
                    );
                    assert!(made.unwrap_err().to_string().contains(step));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a broken column")]
    fn a_panic_of_a_thread_is_passed_on_and_wakes_the_others() {
        let made = pipelined(
            (0..20).collect(),
            3,
            |source| {
                assert!(source != 5, "a broken column");
                Ok(source)
            },
            |_| Ok(()),
            |prepared: u64, ()| Ok(prepared),
        );
        drop(made);
    }
}
