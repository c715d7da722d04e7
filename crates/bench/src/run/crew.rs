//! The threads of an operator: phases with a barrier between them, and whole passes.
//!
//! ```text
//!   member 0:  phase | phase | ... | result of the pass ┐
//!   member 1:  phase | phase | ... |                    ├ next pass, unless any member stops
//! ```
//! Whether to go on is decided at a barrier for all members at once: those that ask a clock would
//! not all get the same answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use tierloom_kernels::access::Timer;
use tierloom_operators::{Job, PhaseInfo, Watch};

use super::samples::Samples;
use super::worker::{Published, Until};

/// What the threads of an operator share.
pub(super) struct Crew<'a> {
    job: Box<dyn Job + 'a>,
    pub(super) phases: Vec<PhaseInfo>,
    /// Tuples of a pass.
    pub(super) tuples: u64,
    /// Passes of a repetition.
    pub(super) passes: u64,
    barrier: PhaseBarrier,
    workers: u64,
    wrong: Mutex<Option<String>>,
    /// Whether the last pass that was begun is complete.
    complete: AtomicBool,
}

impl<'a> Crew<'a> {
    pub(super) fn new(job: Box<dyn Job + 'a>, tuples: u64, passes: u64, workers: u32) -> Self {
        Self {
            phases: job.phases(),
            job,
            tuples,
            passes,
            barrier: PhaseBarrier::new(workers as usize),
            workers: u64::from(workers),
            wrong: Mutex::new(None),
            complete: AtomicBool::new(false),
        }
    }

    /// The first wrong result of a complete pass.
    pub(super) fn wrong(&self) -> Option<String> {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.clone()
    }

    /// Whether the structures hold what a complete pass leaves in them.
    pub(super) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }
}

/// One phase of one thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) begun: Instant,
    pub(super) ended: Instant,
}

/// An event of an operator by name, and how often it occurred.
pub(super) type Count = (&'static str, u64);

/// What one thread did in a repetition.
#[derive(Debug, Default)]
pub(super) struct CrewWork {
    /// The phases of complete passes.
    pub(super) spans: Vec<Span>,
    /// Those of all threads; the first one counts them.
    pub(super) tuples: u64,
    /// Times of single operations; `None` if none was timed.
    pub(super) samples: Option<Samples>,
    /// Events of complete passes, of all threads; the first one has them.
    pub(super) counts: Vec<Count>,
}

/// Times single operations of one thread.
struct Stopwatch<'t> {
    timer: &'t Timer,
    overhead_ns: f64,
    begun: u64,
    samples: Option<Samples>,
}

impl Watch for Stopwatch<'_> {
    fn begin(&mut self) {
        self.begun = self.timer.now();
    }

    fn end(&mut self) {
        let ticks = self.timer.now() - self.begun;
        let ns = self.timer.ticks_to_ns(ticks) - self.overhead_ns;
        self.samples.get_or_insert_with(Samples::new).add(ns);
    }
}

/// Adds counts to those of the same names.
pub(super) fn add_counts(all: &mut Vec<Count>, more: &[Count]) {
    for (name, count) in more {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += count,
            None => all.push((name, *count)),
        }
    }
}

/// One thread of an operator.
pub(super) struct CrewMember<'a> {
    pub(super) crew: &'a Crew<'a>,
    pub(super) index: usize,
    pub(super) timer: &'a Timer,
    /// Cost of two readings of the timer, ns.
    pub(super) overhead_ns: f64,
}

impl CrewMember<'_> {
    /// Makes the passes of a repetition or, if it is not `limited` or ends by time, passes until
    /// told to stop.
    pub(super) fn run(
        &mut self,
        until: &Until<'_>,
        limited: bool,
        published: &Published,
    ) -> CrewWork {
        let crew = self.crew;
        let limited = limited && until.deadline.is_none();
        let breaks = BreaksOnPanic(&crew.barrier);
        let mut watch = Stopwatch {
            timer: self.timer,
            overhead_ns: self.overhead_ns,
            begun: 0,
            samples: None,
        };
        let (mut work, mut passes) = (CrewWork::default(), 0);
        while !limited || passes < crew.passes {
            let Some(pass) = self.pass(until, published, &mut watch) else {
                break;
            };
            work.spans.extend(pass);
            passes += 1;
            if self.index == 0 {
                work.tuples += crew.tuples;
                add_counts(&mut work.counts, &crew.job.counts());
            }
        }
        drop(breaks);
        work.samples = watch.samples;
        work
    }

    /// One pass; `None` if it was stopped.
    fn pass(
        &self,
        until: &Until<'_>,
        published: &Published,
        watch: &mut Stopwatch<'_>,
    ) -> Option<Vec<Span>> {
        let crew = self.crew;
        let mut spans = Vec::with_capacity(crew.phases.len());
        // Everybody is here, so the result of the pass before has been taken.
        crew.barrier.wait(until.over())?;
        if self.index == 0 {
            crew.complete.store(false, Ordering::Relaxed);
        }
        for (phase, info) in crew.phases.iter().enumerate() {
            let begun = Instant::now();
            crew.job
                .run_watched(phase, self.index, &|| until.over(), watch);
            spans.push(Span {
                begun,
                ended: Instant::now(),
            });
            self.publish(info, published);
            crew.barrier.wait(until.over())?;
        }
        if self.index == 0 {
            crew.complete.store(true, Ordering::Relaxed);
            if let Err(wrong) = crew.job.result() {
                let mut first = crew.wrong.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(wrong);
            }
        }
        Some(spans)
    }

    /// Counts this thread's share of a phase, for tasks that are watched from outside.
    fn publish(&self, phase: &PhaseInfo, published: &Published) {
        if phase.counted {
            let bytes = |t: &tierloom_operators::Traffic| t.read_bytes + t.written_bytes;
            let bytes: u64 = phase.traffic.iter().map(bytes).sum();
            published.add(bytes / self.crew.workers, phase.tuples / self.crew.workers);
        }
    }
}

/// A barrier at which any member can stop all of them.
#[derive(Debug)]
struct PhaseBarrier {
    members: usize,
    state: Mutex<Arrivals>,
    all_here: Condvar,
}

#[derive(Debug, Default)]
struct Arrivals {
    here: usize,
    /// Whether a member of this round wants to stop.
    stop: bool,
    round: u64,
    /// Whether the round before was stopped.
    stopped: bool,
    /// A member is gone and will never arrive.
    broken: bool,
}

impl PhaseBarrier {
    fn new(members: usize) -> Self {
        Self {
            members,
            state: Mutex::default(),
            all_here: Condvar::new(),
        }
    }

    /// Waits for all members; `None` if one of them stops or is gone.
    fn wait(&self, stop: bool) -> Option<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.broken {
            return None;
        }
        state.here += 1;
        state.stop |= stop;
        if state.here == self.members {
            state.stopped = state.stop;
            (state.here, state.stop) = (0, false);
            state.round += 1;
            self.all_here.notify_all();
        } else {
            let round = state.round;
            state = self
                .all_here
                .wait_while(state, |state| state.round == round && !state.broken)
                .unwrap_or_else(PoisonError::into_inner);
        }
        (!state.stopped && !state.broken).then_some(())
    }

    fn break_up(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.broken = true;
        self.all_here.notify_all();
    }
}

/// Releases the other members if this one panics.
struct BreaksOnPanic<'b>(&'b PhaseBarrier);

impl Drop for BreaksOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn members_stop_at_the_same_round_whoever_wants_to() {
        for members in [1_usize, 2, 5] {
            let barrier = PhaseBarrier::new(members);
            let rounds: Vec<u64> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..members)
                    .map(|member| {
                        let barrier = &barrier;
                        scope.spawn(move || {
                            let mut rounds = 0;
                            // The last member wants to stop in its 500th round.
                            while barrier
                                .wait(member == members - 1 && rounds == 499)
                                .is_some()
                            {
                                rounds += 1;
                            }
                            rounds
                        })
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert_eq!(rounds, vec![499; members]);
        }
    }

    #[test]
    fn a_member_that_panics_does_not_keep_the_others_waiting() {
        let barrier = PhaseBarrier::new(2);
        let waited = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (barrier, waited) = (&barrier, &waited);
            scope.spawn(move || {
                assert!(barrier.wait(false).is_none());
                waited.fetch_add(1, Ordering::Relaxed);
            });
            let lost = scope.spawn(move || {
                let _breaks = BreaksOnPanic(barrier);
                panic!("on purpose");
            });
            assert!(lost.join().is_err());
        });
        assert_eq!(waited.into_inner(), 1);
    }
}
