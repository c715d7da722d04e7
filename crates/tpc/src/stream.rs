//! Makes the parts of a table with threads, and returns their batches in order.

use crate::{Source, TpcError};
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Number of finished batches that a part may have waiting, which bounds the memory of a stream.
const AHEAD: usize = 4;

type Made = Result<RecordBatch, ArrowError>;

/// The batches of a table, in order; see [`Source::batches`].
///
/// Worker threads take parts in ascending order, and each part has a bounded channel. The reader
/// empties the channels in the same order, so a worker already has the part that the reader waits
/// for, and there is no deadlock.
pub struct Batches {
    source: Source,
    /// Channels of the parts that are not read to their end.
    channels: VecDeque<Receiver<Made>>,
    workers: Vec<JoinHandle<()>>,
    failed: bool,
}

impl Source {
    /// All rows in batches of at most `batch_rows`, made by at most `threads` threads, in the order
    /// in which one thread would make them.
    ///
    /// Batches end where parts end, so batch boundaries depend on `threads`; rows and their order
    /// do not.
    ///
    /// Dropping the iterator stops the threads, which is how a caller cancels. For progress, the
    /// caller counts rows.
    pub fn batches(&self, batch_rows: usize, threads: usize) -> Batches {
        Batches::start(*self, batch_rows.max(1), threads.max(1))
    }
}

impl Batches {
    fn start(source: Source, batch_rows: usize, threads: usize) -> Batches {
        let parts = source.parts(threads);
        let (senders, channels): (Vec<_>, VecDeque<_>) = (0..parts)
            .map(|_| {
                let (sender, receiver) = sync_channel::<Made>(AHEAD);
                (Some(sender), receiver)
            })
            .unzip();
        let senders = Arc::new(Mutex::new(senders));
        let next = Arc::new(AtomicUsize::new(0));
        let workers = (0..threads.min(parts))
            .map(|_| {
                let (senders, next) = (Arc::clone(&senders), Arc::clone(&next));
                std::thread::spawn(move || work(source, batch_rows, &senders, &next))
            })
            .collect();
        Batches {
            source,
            channels,
            workers,
            failed: false,
        }
    }

    /// The generator that the batches come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Waits for the threads to end. Returns whether one of them panicked.
    fn join(&mut self) -> bool {
        self.workers
            .drain(..)
            .filter_map(|worker| worker.join().err())
            .count()
            > 0
    }
}

/// Makes one part after another until none is left or the reader is gone.
fn work(
    source: Source,
    batch_rows: usize,
    senders: &Mutex<Vec<Option<SyncSender<Made>>>>,
    next: &AtomicUsize,
) {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        // The sender is moved out of the list, so that the channel closes when this part is
        // finished.
        let taken = match senders.lock() {
            Ok(mut senders) => {
                let count = senders.len();
                senders
                    .get_mut(index)
                    .and_then(Option::take)
                    .map(|s| (s, count))
            }
            Err(_) => None,
        };
        let Some((sender, count)) = taken else {
            return;
        };
        for batch in source.part(index, count, batch_rows) {
            if sender.send(batch).is_err() {
                return;
            }
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, TpcError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        while let Some(channel) = self.channels.front() {
            match channel.recv() {
                Ok(made) => {
                    self.failed = made.is_err();
                    return Some(made.map_err(|source| TpcError::Generate {
                        table: self.source.table().into(),
                        source,
                    }));
                }
                // The part is finished, or its worker has panicked; `join` finds out which.
                Err(_) => drop(self.channels.pop_front()),
            }
        }
        if self.join() {
            self.failed = true;
            return Some(Err(TpcError::Worker {
                table: self.source.table().into(),
                problem: "ended in a panic of the generator".into(),
            }));
        }
        None
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        // Without a receiver every send fails, so the workers end.
        self.channels.clear();
        self.join();
    }
}
