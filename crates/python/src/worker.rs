//! The thread that a connection's session lives on.

use super::error::{self, Error};
use super::wait::{Stop, locked, next};
use pyo3::prelude::*;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tierloom_sql::{SqlError, SqlSession};

type Job = Box<dyn FnOnce(&mut SqlSession) + Send>;

/// The process that first made a connection; 0 before.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The session's thread, and what it is sent.
pub struct Worker {
    open: Mutex<Option<Open>>,
}

struct Open {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
    /// The flag of the statement that runs, for an interruption by another thread.
    running: Arc<Mutex<Arc<Stop>>>,
}

impl Worker {
    /// Makes a session on a thread of its own.
    ///
    /// # Errors
    /// Those of `make`, a thread that cannot be started, or a process that was forked from one
    /// with connections.
    pub fn start(
        py: Python<'_>,
        make: impl FnOnce() -> Result<SqlSession, SqlError> + Send + 'static,
    ) -> PyResult<Worker> {
        check_process()?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let (send, made) = mpsc::channel();
        let run = move || {
            let mut session = match make() {
                Ok(session) => session,
                Err(error) => return drop(send.send(Err(error))),
            };
            drop(send.send(Ok(())));
            for job in queue {
                job(&mut session);
            }
        };
        let thread = thread::Builder::new().name("tierloom-session".into());
        let thread = thread
            .spawn(run)
            .map_err(|e| Error::new_err(format!("no thread can be started: {e}")))?;
        match next(py, &Mutex::new(made))? {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(error::sql(py, error)),
            None => return Err(lost()),
        }
        let running = Arc::new(Mutex::new(Arc::new(Stop::default())));
        Ok(Worker {
            open: Mutex::new(Some(Open {
                jobs,
                thread,
                running,
            })),
        })
    }

    /// Sends a job, whose stop flag is `stop`.
    ///
    /// # Errors
    /// The connection is closed, or is that of a process before its fork.
    pub fn send(
        &self,
        stop: &Arc<Stop>,
        job: impl FnOnce(&mut SqlSession) + Send + 'static,
    ) -> PyResult<()> {
        check_process()?;
        let open = locked(&self.open);
        let Some(open) = open.as_ref() else {
            return Err(Error::new_err("the connection is closed"));
        };
        *locked(&open.running) = Arc::clone(stop);
        open.jobs.send(Box::new(job)).map_err(|_| lost())
    }

    /// Runs `work` on the session and waits for its answer.
    ///
    /// # Errors
    /// Those of `work` and of [`Self::send`], or a signal; `work` has ended before that is raised.
    pub fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut SqlSession, &Stop) -> Result<T, SqlError> + Send + 'static,
    ) -> PyResult<T> {
        let stop = Arc::new(Stop::default());
        let (send, answers) = mpsc::channel();
        let flag = Arc::clone(&stop);
        self.send(&stop, move |session| {
            // Nobody waits any more if a signal came.
            drop(send.send(work(session, &flag)));
        })?;
        let answers = Mutex::new(answers);
        match next(py, &answers) {
            Ok(Some(answer)) => answer.map_err(|e| error::sql(py, e)),
            Ok(None) => Err(lost()),
            Err(signal) => {
                stop.request();
                // The session is usable again only when the statement has stopped.
                py.detach(|| locked(&answers).recv().map(drop).unwrap_or_default());
                Err(signal)
            }
        }
    }

    /// Asks the statement that runs to stop.
    pub fn interrupt(&self) {
        if let Some(open) = locked(&self.open).as_ref() {
            locked(&open.running).request();
        }
    }

    /// Whether [`Self::close`] was called.
    pub fn is_closed(&self) -> bool {
        locked(&self.open).is_none()
    }

    /// Stops what runs and frees the session. Columns that results point to stay in memory.
    ///
    /// # Errors
    /// The connection is that of a process before its fork.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_process()?;
        let Some(open) = locked(&self.open).take() else {
            return Ok(());
        };
        locked(&open.running).request();
        drop(open.jobs);
        py.detach(|| drop(open.thread.join()));
        Ok(())
    }
}

/// Threads and locks do not survive a fork, so everything would hang in the child.
fn check_process() -> PyResult<()> {
    let this = process::id();
    let first = PROCESS.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed);
    match first {
        Err(first) if first != this => Err(Error::new_err(
            "this process was forked from one that uses tierloom, and the engine's threads do not \
             survive a fork; start processes with multiprocessing's method \"spawn\" or \
             \"forkserver\", and connect in each",
        )),
        _ => Ok(()),
    }
}

fn lost() -> PyErr {
    Error::new_err("the connection's session has ended after a failure; connect again")
}
