//! Two managers at once: one that was paused, or is dead with dirty lines in its caches, while
//! another one takes over.

use std::sync::{Arc, Condvar, Mutex};

use super::crashes::Mutation;
use super::seed::rng;
use super::sim::{Manager, Sim, SimHost, has, joining, new_pool};
use crate::PoolError;

/// Whose turn it is: the first manager's or the second one's.
#[derive(Default)]
struct Turn {
    second: Mutex<bool>,
    changed: Condvar,
}

impl Turn {
    /// Gives the turn to the other one, and waits for it to come back.
    fn hand_over(&self, second: bool) {
        let mut turn = self.second.lock().unwrap();
        *turn = second;
        self.changed.notify_all();
        while *turn == second {
            turn = self.changed.wait(turn).unwrap();
        }
    }

    fn give(&self, second: bool) {
        *self.second.lock().unwrap() = second;
        self.changed.notify_all();
    }

    fn wait_for(&self, second: bool) {
        let mut turn = self.second.lock().unwrap();
        while *turn != second {
            turn = self.changed.wait(turn).unwrap();
        }
    }
}

/// What a manager does, and the words that were acknowledged to its clients.
type Job = dyn Fn(&SimHost, &mut Vec<String>) -> Result<(), PoolError> + Send + Sync;

/// Runs `first` up to its operation `i`, then `second` up to its operation `j`, then `first` to its
/// end and `second` to its end. Returns the words that either acknowledged.
fn interleave(
    sim: &Sim,
    (first, i, mutation): (&Job, usize, Option<Mutation>),
    (second, j): (&Job, usize),
) -> Vec<String> {
    let turn = Arc::new(Turn::default());
    let hosts = [sim.host(0), sim.host(1)];
    for (number, (host, at)) in hosts.iter().zip([i, j]).enumerate() {
        let turn = Arc::clone(&turn);
        let second = number == 1;
        host.on_every_op(move |_, op| {
            if op == at {
                turn.hand_over(!second);
            }
        });
    }
    if let Some(Mutation { op, number, part }) = mutation {
        // An opening is what the second manager does, a commit what the first one does.
        hosts[usize::from(part.1 == 0)].leave_out(op, number);
    }
    let mut acknowledged = [Vec::new(), Vec::new()];
    std::thread::scope(|scope| {
        let [ack_first, ack_second] = &mut acknowledged;
        let [host_first, host_second] = &hosts;
        let (turn_first, turn_second) = (Arc::clone(&turn), Arc::clone(&turn));
        scope.spawn(move || {
            // Being fenced is the right answer at many points.
            let _ = first(host_first, ack_first);
            turn_first.give(true);
        });
        scope.spawn(move || {
            turn_second.wait_for(true);
            let _ = second(host_second, ack_second);
            turn_second.give(false);
        });
    });
    hosts.iter().for_each(|host| {
        host.let_go();
    });
    acknowledged.concat()
}

/// A pool with two hosts, each with a bank; the first one is the manager.
fn with_two_hosts() -> (Sim, Manager) {
    let sim = new_pool();
    let mut manager = Manager::open(sim.host(0), joining("a", 1, 1)).unwrap();
    let mut next = manager.state.clone();
    next.join(joining("b", 1, 2)).unwrap();
    manager.commit(next).unwrap();
    (sim, manager)
}

/// Operations of a job when nobody disturbs it.
fn operations(sim: &Sim, host: usize, job: &Job) -> usize {
    let host = Sim::of(sim.device().clone()).host(host);
    host.on_every_op(|_, _| {});
    let _ = job(&host, &mut Vec::new());
    host.let_go()
}

fn take_over(host: &SimHost, machine: &str, incarnation: u64) -> Result<Manager, PoolError> {
    Manager::open(host.clone(), joining(machine, 1, incarnation))
}

/// A manager that is paused somewhere in a commit while another one takes over and commits, so many
/// times; an error says what was lost.
pub(super) fn explore(
    mutation: Option<Mutation>,
    rounds: usize,
    rng: &mut fastrand::Rng,
) -> Result<usize, String> {
    let (start, manager) = with_two_hosts();
    let device = start.device().clone();
    let (tenure, state, me) = (manager.tenure, manager.state, manager.me);
    let tenure = Mutex::new(tenure);
    let parts = (tenure, state, me);
    let zombie = move |host: &SimHost, acknowledged: &mut Vec<String>| {
        let mut manager = Manager {
            host: host.clone(),
            tenure: parts.0.lock().unwrap().copy(),
            state: parts.1.clone(),
            me: parts.2,
        };
        for word in ["first 0", "first 1"] {
            manager.mark(word)?;
            acknowledged.push(word.to_owned());
        }
        Ok(())
    };
    let taker = |host: &SimHost, acknowledged: &mut Vec<String>| {
        let mut manager = take_over(host, "b", 3)?;
        for word in ["second 0", "second 1"] {
            manager.mark(word)?;
            acknowledged.push(word.to_owned());
        }
        Ok(())
    };
    let of_first = operations(&start, 0, &zombie);
    let of_second = operations(&start, 1, &taker);
    let mut both = 0;
    for round in 0..rounds {
        let sim = Sim::of(device.clone());
        if round % 2 == 1 {
            sim.evict_at_random(rng);
        }
        // Every place of the second one in turn: what matters may be a short moment there.
        let (i, j) = (rng.usize(..of_first), round % (of_second + 1));
        let acknowledged = interleave(&sim, (&zombie, i, mutation), (&taker, j));
        judge(&sim, &acknowledged).map_err(|what| format!("i {i}, j {j}: {what}"))?;
        both += usize::from(acknowledged.len() == 4);
    }
    Ok(both)
}

/// All acknowledged words are in the state that is found, whatever arrives late.
fn judge(sim: &Sim, acknowledged: &[String]) -> Result<(), String> {
    for late in 0..4 {
        // What the dead left in their caches arrives, in any order.
        if late & 1 == 1 {
            sim.device().write_back_all(0);
        }
        if late & 2 == 2 {
            sim.device().write_back_all(1);
        }
        let state = sim.recover().map_err(|error| error.to_string())?;
        if let Some(word) = acknowledged.iter().find(|word| !has(&state, word)) {
            return Err(format!("`{word}` was acknowledged and is lost"));
        }
    }
    Ok(())
}

#[test]
fn a_paused_manager_that_returns_destroys_nothing_and_acknowledges_nothing_that_is_lost() {
    let rng = &mut rng("paused managers");
    let both = explore(None, 3000, rng).unwrap();
    // Otherwise no round had two managers that did something.
    println!("{both} rounds in which both acknowledged all");
}

#[test]
fn of_two_hosts_that_take_over_at_once_one_wins_and_nothing_acknowledged_is_lost() {
    let rng = &mut rng("takeovers");
    let (start, mut manager) = with_two_hosts();
    let mut next = manager.state.clone();
    next.join(joining("c", 1, 4)).unwrap();
    manager.commit(next).unwrap();
    let device = start.device().clone();
    let taker = |machine: &'static str, incarnation| {
        move |host: &SimHost, acknowledged: &mut Vec<String>| {
            let mut manager = take_over(host, machine, incarnation)?;
            for number in 0..2 {
                let word = format!("{machine} {number}");
                manager.mark(&word)?;
                acknowledged.push(word);
            }
            Ok(())
        }
    };
    let (first, second) = (taker("b", 5), taker("c", 6));
    let counts = (
        operations(&start, 0, &first),
        operations(&start, 1, &second),
    );
    let (mut one, mut none) = (0, 0);
    for round in 0..3000 {
        let sim = Sim::of(device.clone());
        if round % 2 == 1 {
            sim.evict_at_random(rng);
        }
        let (i, j) = (rng.usize(..counts.0), rng.usize(..counts.1 + 1));
        let acknowledged = interleave(&sim, (&first, i, None), (&second, j));
        judge(&sim, &acknowledged).unwrap_or_else(|what| panic!("i {i}, j {j}: {what}"));
        match acknowledged.len() {
            0 => none += 1,
            _ => one += 1,
        }
        // Both may be fenced, each by the other; whoever comes next goes on.
        let mut next = take_over(&sim.host(2), "a", 7).expect("nobody is there");
        next.mark("after all").unwrap();
        let mut all = acknowledged;
        all.push("after all".to_owned());
        judge(&sim, &all).unwrap();
    }
    println!("{one} rounds with an acknowledgement, {none} without");
    assert!(one > none);
}

#[test]
fn what_a_dead_process_left_in_caches_harms_no_later_manager() {
    let rng = &mut rng("late write-backs");
    let (start, mut manager) = with_two_hosts();
    manager.mark("acknowledged").unwrap();
    let dying = Arc::new(Mutex::new(Vec::new()));
    let (seen, memory) = (Arc::clone(&dying), start.clone());
    manager.host.on_every_op(move |_, _| {
        let device = memory.device().clone();
        seen.lock().unwrap().push(device);
    });
    manager.mark("pending").unwrap();
    manager.host.let_go();
    let dying = std::mem::take(&mut *dying.lock().unwrap());
    for device in dying {
        let sim = Sim::of(device);
        let host = sim.host(1);
        let (memory, at) = (sim.clone(), rng.usize(..400));
        host.on_every_op(move |_, op| {
            if op == at {
                memory.device().write_back_all(0);
            }
        });
        let mut manager = take_over(&host, "b", 3).unwrap();
        manager.mark("second").unwrap();
        host.let_go();
        let words = ["acknowledged", "second"].map(str::to_owned);
        judge(&sim, &words).unwrap();
    }
}

#[test]
fn recovery_that_is_interrupted_again_and_again_ends_in_the_same_state() {
    let rng = &mut rng("interrupted recovery");
    for _ in 0..50 {
        let (mut sim, mut manager) = with_two_hosts();
        manager.mark("acknowledged").unwrap();
        for attempt in 0..20 {
            // The machine dies at some operation of opening; what had not arrived is lost.
            let host = sim.host(0);
            let (memory, at) = (sim.clone(), rng.usize(..300));
            let crashed = Arc::new(Mutex::new(None));
            let seen = Arc::clone(&crashed);
            host.on_every_op(move |_, op| {
                if op == at {
                    *seen.lock().unwrap() = Some(memory.device().clone());
                }
            });
            take_over(&host, "a", 10 + attempt).unwrap();
            host.let_go();
            let crashed = crashed.lock().unwrap().take();
            if let Some(device) = crashed {
                let mut images = device.images(3, rng);
                sim = Sim::of(images.swap_remove(rng.usize(..images.len())));
            }
            judge(&sim, &["acknowledged".to_owned()]).unwrap();
        }
    }
}
