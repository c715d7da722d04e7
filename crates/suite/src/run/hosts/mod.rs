//! Carries out the steps of a [`HostTask`] on one host.
//!
//! The thread of a [`HostWorker`] loads the data once and keeps it, with its engine and the pools,
//! until the worker is dropped; each step ([`steps`]) first places the tables and runs every query
//! once, then waits for its start.

mod steps;

use super::session::Session;
use crate::hosts::{Begin, HostPlace, HostResult, HostServices, HostStep, HostTask};
use crate::{Event, Observer, RunError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use steps::OnHost;
use tierloom_pool::Pool;

/// How often a caller that waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(10);

enum Order {
    Prepare(HostStep, Sender<Result<(), RunError>>),
    Run(Begin, Sender<Result<HostResult, RunError>>),
}

/// A thread that keeps the data of one command and carries out its steps.
///
/// Dropping it stops what it is doing and frees the data.
pub struct HostWorker {
    orders: Option<Sender<Order>>,
    halt: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HostWorker {
    /// Starts the thread; nothing is loaded yet.
    ///
    /// # Errors
    /// No thread to be had.
    pub fn start(task: HostTask, services: HostServices) -> Result<Self, RunError> {
        let halt = Arc::new(AtomicBool::new(false));
        let (orders, taken) = channel();
        let stop = Arc::clone(&halt);
        let thread = std::thread::Builder::new().name("host-worker".to_owned());
        let thread = thread
            .spawn(move || serve(&task, services, &stop, &taken))
            .map_err(|e| RunError::failed(format!("no thread to be had: {e}")))?;
        Ok(HostWorker {
            orders: Some(orders),
            halt,
            thread: Some(thread),
        })
    }

    /// Makes everything ready for a step: loads the data, places the tables, runs every query once.
    ///
    /// # Errors
    /// Bad input, memory that cannot be had, a query that fails, or an interruption. The worker
    /// cannot be used any more.
    pub fn prepare(&self, step: HostStep, stopped: &dyn Fn() -> bool) -> Result<(), RunError> {
        self.ask(|reply| Order::Prepare(step, reply), stopped)
    }

    /// Carries out the step that was prepared.
    ///
    /// # Errors
    /// A query that fails, a wrong answer, or an interruption of a timed step.
    pub fn run(&self, begin: Begin, stopped: &dyn Fn() -> bool) -> Result<HostResult, RunError> {
        self.ask(|reply| Order::Run(begin, reply), stopped)
    }

    fn ask<T>(
        &self,
        order: impl FnOnce(Sender<Result<T, RunError>>) -> Order,
        stopped: &dyn Fn() -> bool,
    ) -> Result<T, RunError> {
        let gone = || RunError::failed("the thread with the data ended; start the command again");
        self.halt.store(stopped(), Ordering::Relaxed);
        let (reply, answer) = channel();
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send(order(reply)).map_err(|_| gone())?;
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if stopped() => {
                    self.halt.store(true, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }
}

impl Drop for HostWorker {
    fn drop(&mut self) {
        self.halt.store(true, Ordering::Relaxed);
        // The thread ends once no more orders can come.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Passes remarks on; nobody watches the progress.
struct Quiet<'a> {
    halt: &'a AtomicBool,
    note: fn(&str),
}

impl Observer for Quiet<'_> {
    fn stop(&self) -> &AtomicBool {
        self.halt
    }

    fn event(&self, event: Event<'_>) {
        if let Event::Note(text) = event {
            (self.note)(text);
        }
    }
}

/// The thread of a worker: loads at the first order, then does what it is asked until nobody can
/// ask any more. An error before everything is loaded answers that order and ends the thread.
fn serve(task: &HostTask, services: HostServices, halt: &AtomicBool, orders: &Receiver<Order>) {
    let Ok(Order::Prepare(first, reply)) = orders.recv() else {
        return;
    };
    let refuse = |error| drop(reply.send(Err(error)));
    let observer = Quiet {
        halt,
        note: services.note,
    };
    let plan = match task.resolve(services.topology) {
        Ok(plan) => plan,
        Err(error) => return refuse(error),
    };
    let pools = match open_pools(&task.places, services.open_pool) {
        Ok(pools) => pools,
        Err(error) => return refuse(error),
    };
    let opened = Session::open(&plan, &services.invocation, &observer);
    let session = match opened {
        Ok(session) => session,
        Err(error) => return refuse(error),
    };
    let mut host = match OnHost::new(task, &session, &pools) {
        Ok(host) => host,
        Err(error) => return refuse(error),
    };
    let mut order = Ok(Order::Prepare(first, reply));
    // Replies to a caller that is gone are of no use to anybody.
    while let Ok(next) = order {
        match next {
            Order::Prepare(step, reply) => drop(reply.send(host.prepare(step))),
            Order::Run(begin, reply) => drop(reply.send(host.run(begin))),
        }
        order = orders.recv();
    }
}

fn open_pools(
    places: &[HostPlace],
    open: fn(&Path) -> Result<Pool, RunError>,
) -> Result<Vec<(&Path, Pool)>, RunError> {
    let mut pools: Vec<(&Path, Pool)> = Vec::new();
    for path in places.iter().filter_map(|place| place.pool.as_deref()) {
        if !pools.iter().any(|(known, _)| *known == path) {
            pools.push((path, open(path)?));
        }
    }
    Ok(pools)
}
