//! Crashes at every operation of commits and claims, and the same with an operation left out.

use std::sync::{Arc, Mutex};

use super::managers;
use super::seed::rng;
use super::sim::{Device, Manager, Op, Sim, SimHost, has, joining, new_pool};

/// Images of memory per crash.
const IMAGES: usize = 48;

/// Tenures, and commits of each after the one that opens it. The first has more than a bank has
/// slots, so that slots are used again.
const TENURES: [usize; 2] = [6, 2];

/// One opening or commit, by tenure and number; the opening is number 0.
type Part = (usize, usize);

/// An operation that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mutation {
    pub(super) part: Part,
    pub(super) op: Op,
    pub(super) number: usize,
}

fn word(number: usize) -> String {
    format!("commit {number}")
}

#[derive(Default)]
struct Findings {
    points: usize,
    images: usize,
    /// What is wrong, if something is.
    wrong: Option<String>,
    /// Whether what was left out would have changed nothing.
    void: bool,
    /// Flushes and fences of each part.
    counts: Vec<(Part, [usize; 2])>,
}

impl Findings {
    /// Looks at what a crash could leave: the last of the `acknowledged` states, or the pending
    /// one, which is the next.
    fn crash(
        &mut self,
        device: &Device,
        acknowledged: &[usize],
        pending: Option<usize>,
        rng: &mut fastrand::Rng,
    ) {
        self.points += 1;
        for image in device.images(IMAGES, rng) {
            self.images += 1;
            let found = match Sim::of(image).recover() {
                Err(error) => Err(error.to_string()),
                Ok(state) => {
                    let words = (0..).take_while(|n| has(&state, &word(*n))).count();
                    Ok((state.generation as usize, words))
                }
            };
            // The state of generation n is the n-th one, with as many words as it had then.
            let last = acknowledged.len() - 1;
            let right = found == Ok((last, acknowledged[last]))
                || pending.is_some_and(|words| found == Ok((last + 1, words)));
            if !right {
                let what = format!("generation {last} was acknowledged, found {found:?}");
                self.wrong.get_or_insert(what);
            }
        }
    }
}

/// The devices as they were after each operation of `work`.
fn crashed_after_every_op(
    sim: &Sim,
    host: &SimHost,
    mutation: Option<Mutation>,
    work: &mut dyn FnMut(),
) -> (Vec<(Op, Device)>, [usize; 2], bool) {
    let devices = Arc::new(Mutex::new(Vec::new()));
    let (seen, memory) = (Arc::clone(&devices), sim.clone());
    host.on_every_op(move |op, _| {
        let device = memory.device().clone();
        seen.lock().unwrap().push((op, device));
    });
    if let Some(Mutation { op, number, .. }) = mutation {
        host.leave_out(op, number);
    }
    work();
    let (counts, effect) = (host.flushes_and_fences(), host.had_effect());
    host.let_go();
    let devices = std::mem::take(&mut *devices.lock().unwrap());
    (devices, counts, effect)
}

/// Opens a pool, commits, and opens it again, with crashes after every operation; with a mutation,
/// after every operation of its part and of the next one.
fn explore(mutation: Option<Mutation>, rng: &mut fastrand::Rng) -> Findings {
    let sim = new_pool();
    let mut findings = Findings::default();
    // Words by generation. The state that a pool is made with is generation 0.
    let mut acknowledged = vec![0];
    for (tenure, commits) in TENURES.into_iter().enumerate() {
        let host = sim.host(0);
        let mut manager = None;
        for number in 0..=commits {
            let part = (tenure, number);
            let before = *acknowledged.last().unwrap();
            let after = before + usize::from(number > 0);
            let mut work = || match &mut manager {
                None => {
                    let opened = Manager::open(host.clone(), joining("a", 1, 1 + tenure as u64));
                    manager = Some(opened.expect("nobody else is there"));
                }
                Some(manager) => manager.mark(&word(before)).expect("nobody else is there"),
            };
            let near = |m: &Mutation| m.part == part || (m.part.0, m.part.1 + 1) == part;
            if !mutation.as_ref().is_none_or(near) {
                work();
                acknowledged.push(after);
                continue;
            }
            let own = mutation.filter(|m| m.part == part);
            let (crashes, counts, effect) = crashed_after_every_op(&sim, &host, own, &mut work);
            findings.counts.push((part, counts));
            findings.void |= own.is_some() && !effect;
            for (op, device) in &crashes {
                // A look changes nothing in memory.
                if *op != Op::Invalidate && findings.wrong.is_none() {
                    findings.crash(device, &acknowledged, Some(after), rng);
                }
            }
            // From the acknowledgement on there is no way back.
            acknowledged.push(after);
            let device = sim.device().clone();
            findings.crash(&device, &acknowledged, None, rng);
            if findings.wrong.is_some() {
                return findings;
            }
        }
    }
    findings
}

#[test]
fn a_crash_after_any_operation_leaves_the_acknowledged_or_the_pending_state() {
    let findings = explore(None, &mut rng("crashes"));
    println!("{} crashes, {} images", findings.points, findings.images);
    assert_eq!(findings.wrong, None);
    assert!(findings.points > 500 && findings.images > 20_000);
}

#[test]
fn every_flush_and_fence_is_needed_or_has_a_reason() {
    let rng = &mut rng("mutations");
    let counts = explore(None, rng).counts;
    let (mut checked, mut caught, mut void) = (0, 0, 0);
    let mut missed = Vec::new();
    // The first opening, a commit in a slot that was used before, and an opening after a crash.
    let parts = [(0, 0), (0, 6), (1, 0)];
    for (part, [flushes, fences]) in counts.into_iter().filter(|(part, _)| parts.contains(part)) {
        let flushes = (0..flushes).map(|n| (Op::Flush, n));
        for (op, number) in flushes.chain((0..fences).map(|n| (Op::Fence, n))) {
            checked += 1;
            let mutation = Mutation { part, op, number };
            let crashes = explore(Some(mutation), rng);
            if crashes.wrong.is_some() || managers::explore(Some(mutation), 1200, rng).is_err() {
                caught += 1;
            } else if crashes.void {
                // The reason: memory has these bytes already. A line that was never used is 0, so
                // making its magic 0 changes nothing; and a line of a payload may be as it was in
                // the payload before it.
                void += 1;
            } else {
                missed.push(mutation);
            }
        }
    }
    println!("{checked} mutations: {caught} caught, {void} change nothing");
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(caught + 12 >= checked && checked > 35);
}
