//! Histories of operations on single keys, and whether they are linearisable.
//!
//! A map is linearisable if each of its keys is (Herlihy and Wing, "Linearizability", 1990), so
//! every key is a register of its own here. The search is that of Wing and Gong, "Testing and
//! Verifying Concurrent Objects" (1993): any operation that began before all others that are left
//! have ended may be the next one.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// What an operation does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reads the value.
    Get,
    /// Sets the value.
    Insert(u64),
    /// Removes the key.
    Remove,
}

/// One operation: when it began and ended, and the value that it found.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    key: u64,
    begun: u64,
    ended: u64,
    action: Action,
    found: Option<u64>,
}

/// The clock of a history: a number for each begin and end.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// Runs an operation and notes it.
    pub fn note(&self, key: u64, action: Action, operation: impl FnOnce() -> Option<u64>) -> Event {
        let begun = self.0.fetch_add(1, Ordering::SeqCst);
        let found = operation();
        let ended = self.0.fetch_add(1, Ordering::SeqCst);
        Event {
            key,
            begun,
            ended,
            action,
            found,
        }
    }
}

/// Checks all keys of a history that began with `first` and ended with `last`.
pub fn check(events: Vec<Event>, first: &BTreeMap<u64, u64>, last: &BTreeMap<u64, u64>) {
    let mut by_key: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for event in events {
        by_key.entry(event.key).or_default().push(event);
    }
    for (key, mut events) in by_key {
        // What is left at the end is a read after everything else.
        events.push(Event {
            key,
            begun: u64::MAX - 1,
            ended: u64::MAX,
            action: Action::Get,
            found: last.get(&key).copied(),
        });
        events.sort_by_key(|event| event.begun);
        let first = first.get(&key).copied();
        assert!(
            is_linearisable(&events, first),
            "no order explains key {key}, {first:?} at first: {events:#?}"
        );
    }
}

fn is_linearisable(events: &[Event], first: Option<u64>) -> bool {
    assert!(events.len() <= 128, "too many events for one key");
    let all = u128::MAX >> (128 - events.len());
    let mut seen = HashSet::new();
    let mut left = vec![(0_u128, first)];
    while let Some((done, value)) = left.pop() {
        if done == all {
            return true;
        }
        if !seen.insert((done, value)) {
            continue;
        }
        let open = || (0..events.len()).filter(|at| done >> at & 1 == 0);
        let earliest_end = open().map(|at| events[at].ended).min().unwrap_or(u64::MAX);
        for at in open().take_while(|at| events[*at].begun <= earliest_end) {
            if events[at].found == value {
                let after = match events[at].action {
                    Action::Get => value,
                    Action::Insert(new) => Some(new),
                    Action::Remove => None,
                };
                left.push((done | 1 << at, after));
            }
        }
    }
    false
}

/// The checker itself: what it has to accept and what not.
#[test]
fn lost_and_stale_values_are_not_linearisable() {
    let event = |begun, ended, action, found| Event {
        key: 1,
        begun,
        ended,
        action,
        found,
    };
    let insert = event(0, 5, Action::Insert(7), None);
    for (begun, found, is_fine) in [
        (1, None, true),
        (1, Some(7), true),
        (6, Some(7), true),
        (6, None, false),
        (1, Some(8), false),
    ] {
        let events = [insert, event(begun, begun + 3, Action::Get, found)];
        assert_eq!(is_linearisable(&events, None), is_fine, "{begun} {found:?}");
    }
    // A new value, and then the old one again.
    let back = [
        insert,
        event(1, 2, Action::Get, Some(7)),
        event(3, 4, Action::Get, None),
    ];
    assert!(!is_linearisable(&back, None));
    // Two removals that both find the value.
    let twice = [0, 1].map(|begun| event(begun, 9, Action::Remove, Some(3)));
    assert!(!is_linearisable(&twice, Some(3)));
}
