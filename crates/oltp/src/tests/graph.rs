//! The serialisation graph of a history (Adya, "Weak Consistency", 1999): transactions, and an edge
//! from each to those that must come after it.
//!
//! A version names the one before it, so that the order of versions is part of the history and not
//! taken from the store. Two transactions that each replace the same version give a circle, too.

use std::collections::HashMap;

/// An object, such as a row.
pub(super) type Object = u64;
/// A version of an object; 0 is the first.
pub(super) type Version = u64;

/// What a transaction that committed read and wrote.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) reads: Vec<(Object, Version)>,
    /// Object, version before, version after.
    pub(super) writes: Vec<(Object, Version, Version)>,
}

/// What is wrong with a history: transactions in a circle, by number. `Err` in words for a version
/// that was read and never written, or written twice.
pub(super) fn circle(history: &[Done]) -> Result<Option<Vec<usize>>, String> {
    let mut writers: HashMap<(Object, Version), usize> = HashMap::new();
    let mut replacers: HashMap<(Object, Version), Vec<usize>> = HashMap::new();
    for (at, done) in history.iter().enumerate() {
        for (object, before, after) in &done.writes {
            if writers.insert((*object, *after), at).is_some() {
                return Err(format!("version {after} of {object} was written twice"));
            }
            replacers.entry((*object, *before)).or_default().push(at);
        }
    }
    let mut edges = vec![Vec::new(); history.len()];
    let mut edge = |from: usize, to: usize| {
        if from != to {
            edges[from].push(to);
        }
    };
    for (at, done) in history.iter().enumerate() {
        let replaced = done
            .writes
            .iter()
            .map(|(object, before, _)| (*object, *before));
        for seen in done.reads.iter().copied().chain(replaced) {
            match writers.get(&seen) {
                // Write to read, or write to write.
                Some(writer) => edge(*writer, at),
                None if seen.1 == 0 => {}
                None => return Err(format!("version {seen:?} was never written")),
            }
            // Read to write, or two that replace the same version.
            let after = replacers.get(&seen).into_iter().flatten();
            after.for_each(|writer| edge(at, *writer));
        }
    }
    Ok(find_circle(&edges))
}

/// Depth-first, without recursion.
fn find_circle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; edges.len()];
    for start in 0..edges.len() {
        if marks[start] != Mark::New {
            continue;
        }
        let mut path = vec![(start, 0)];
        marks[start] = Mark::Open;
        while let Some((at, next)) = path.last_mut() {
            let at = *at;
            let Some(to) = edges[at].get(*next).copied() else {
                marks[at] = Mark::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match marks[to] {
                Mark::New => {
                    marks[to] = Mark::Open;
                    path.push((to, 0));
                }
                Mark::Open => {
                    let first = path.iter().position(|(node, _)| *node == to)?;
                    return Some(path[first..].iter().map(|(node, _)| *node).collect());
                }
                Mark::Done => {}
            }
        }
    }
    None
}

#[test]
fn known_anomalies_are_circles_and_serial_histories_are_not() {
    let done = |reads: &[(u64, u64)], writes: &[(u64, u64, u64)]| Done {
        reads: reads.to_vec(),
        writes: writes.to_vec(),
    };
    let serial = [
        done(&[(1, 0)], &[(1, 0, 1)]),
        done(&[(1, 1), (2, 0)], &[(2, 0, 1)]),
        done(&[(1, 1), (2, 1)], &[]),
    ];
    assert_eq!(circle(&serial), Ok(None));
    let lost_update = [done(&[(1, 0)], &[(1, 0, 1)]), done(&[(1, 0)], &[(1, 1, 2)])];
    let write_skew = [
        done(&[(1, 0), (2, 0)], &[(1, 0, 1)]),
        done(&[(1, 0), (2, 0)], &[(2, 0, 1)]),
    ];
    let read_skew = [
        done(&[], &[(1, 0, 1), (2, 0, 1)]),
        done(&[(1, 0), (2, 1)], &[]),
    ];
    let both_replace = [done(&[], &[(1, 0, 7)]), done(&[], &[(1, 0, 8)])];
    for anomaly in [&lost_update, &write_skew, &read_skew, &both_replace] {
        assert!(circle(anomaly).unwrap().is_some(), "{anomaly:?}");
    }
    circle(&[done(&[(1, 5)], &[])]).unwrap_err();
}
